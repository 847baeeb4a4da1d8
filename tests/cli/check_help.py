#!/usr/bin/env python3
"""Tests help, manual pages, completion and suggestions: each of them describes every option once, in columns.

usage: check_help.py BIN_FOLDER MANUAL_FOLDER SOURCE_FOLDER GROFF
"""
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

GROFF = sys.argv.pop()
SOURCE, MANUAL, BIN = (pathlib.Path(sys.argv.pop()).resolve() for _ in range(3))
CLIQUE = str(BIN / "clique")
SETTING = ["devices", "doctor", "train", "eval", "predict", "generate", "tune", "why", "plan"]
COMMANDS = [*SETTING, "launch", "compare", "report"]
USUAL = ["--model", "--data", "--batch", "--epochs", "--optimizer", "--loss", "--devices", "--strategy", "--save", "--checkpoint"]
TOPICS = ["models", "optimizers", "losses", "metrics", "schedules", "strategies", "devices", "environment", "exit-codes", "options"]


def run(*words):
    return subprocess.run([CLIQUE, *words], capture_output=True, text=True, timeout=60)


@functools.cache
def shown(*words):
    """What a help command prints. Each command runs once, because many options are options of several commands."""
    result = run(*words)
    assert result.returncode == 0 and not result.stderr, (words, result.stderr)
    return result.stdout


def sections(text):
    """The sections of a help text: {title: lines}."""
    parts, title = {}, None
    for line in text.splitlines():
        if re.match(r"\S.*:$", line):
            title = line[:-1]
            parts[title] = []
        elif line and title:
            parts[title].append(line)
    return parts


def entries(text):
    """The entries of a section: {text of the left column: description}."""
    told, what = {}, None
    for line in text.splitlines():
        if re.match(r"  \S", line):
            what = re.split(r" {2,}", line.strip())[0]
            told[what] = line.strip()[len(what):].strip()
        elif line.startswith(" " * 25):
            told[what] = f"{told[what]} {line.strip()}".strip()
    return told


def forms(lines):
    """The options that start the lines of the entries."""
    return [re.findall(r"(?:^|(?<=\s))--?[a-z][a-z-]*", line)[0] for line in lines if re.match(r"  -", line)]


def options(command):
    return [option for lines in sections(shown(command, "--help=all")).values() for option in forms(lines)]


class Help(unittest.TestCase):
    def fails(self, *words, says):
        result = run(*words)
        self.assertEqual(result.returncode, 2, (words, result.stderr))
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for part in says:
            self.assertIn(part, result.stderr)
        return result.stderr

    def test_overview(self):
        text = shown("--help")
        for words in (("help",), ("help", "--help"), ("help", "help")):
            self.assertEqual(text, shown(*words))
        usage, purpose, _ = text.split("\n\n", 2)
        self.assertEqual(usage, "Usage: clique COMMAND [OPTION…]")
        page = (MANUAL / "clique.1").read_text()
        self.assertEqual(page.split("\n.SH DESCRIPTION\n")[1].split("\n.SH")[0], purpose.replace("\n", " "))
        parts = sections(text)
        self.assertEqual({line.split()[0] for line in parts["Commands"] if line[2] != " "}, {*COMMANDS, "bench"})
        self.assertEqual([line.split()[0] for line in parts["Topics (clique help TOPIC)"] if re.match("  [a-z]", line)], TOPICS)
        nothing = run()
        self.assertEqual(nothing.returncode, 2)
        self.assertTrue(nothing.stderr.startswith(text))

    def test_columns(self):
        texts = [shown("help"), *(shown("help", topic) for topic in TOPICS), shown("bench", "--help")]
        for command in COMMANDS:
            texts += [shown(command, "--help"), shown(command, "--help=all")]
            texts += [shown("help", option[2:]) for option in options(command) if option.startswith("--")]
        texts += [shown("bench", name, "--help") for name in entries(shown("bench", "--help"))]
        for text in texts:
            self.assertNotIn("\t", text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, line)
                self.assertEqual(line, line.rstrip())

    def laid_out(self, lines):
        """Checks the layout of entries: descriptions begin in column 25, on the line of the form if two columns remain
        between them."""
        beside = 0
        for number, line in enumerate(lines):
            if line.startswith(" " * 25):
                self.assertNotEqual(line[25], " ", line)
                continue
            form = re.match(r"  (\S+( \S+)*)", line).group(0)
            self.assertEqual(len(line) > len(form), len(form) + 2 <= 25, line)
            if len(line) > len(form):
                self.assertRegex(line, r"^.{23}  \S")
                beside += 1
            else:
                self.assertTrue(lines[number + 1].startswith(" " * 25), line)
        return beside

    def test_short_help(self):
        for command, behind, parts in (
                ("devices", "", {"Devices and strategy": ["--build-deadline"], "Checkpoints and output": ["--json"]}),
                ("compare", " A.json B.json", {"Options": ["--fail-below", "--json"]})):
            text = shown(command, "--help")
            usage, about, _ = text.split("\n\n", 2)
            self.assertEqual(usage, f"Usage: clique {command} [OPTION…]{behind}")
            self.assertRegex(about, r"^[A-Z].*\.$")
            told = sections(text)
            self.assertEqual({title: forms(lines) for title, lines in told.items()}, parts)
            for lines in told.values():
                self.laid_out(lines)
        self.assertEqual(shown("help", "compare"), shown("compare", "--help"))
        self.assertIn("Usage: clique launch [OPTION…] -- clique train …\n", shown("launch", "--help"))
        # An ellipsis is one column wide. If its three bytes were counted, the description would move to a separate
        # line.
        usual = sections(shown("train", "--help"))["Usual options"]
        self.assertGreater(self.laid_out(usual), 0)
        self.assertTrue([line for line in usual if re.match(r"  --optimizer NAME\[:…\] {3}\S", line)], usual)

    def test_usual_and_groups(self):
        parts = sections(shown("train", "--help"))
        self.assertEqual(forms(parts.pop("Usual options")), USUAL)
        rest = []
        for title, lines in parts.items():
            key = re.fullmatch(r".* \(--help=([a-z]+)\)", title).group(1)
            names = re.findall(r"--[a-z-]+", "\n".join(line for line in lines if line.startswith("  ")))
            self.assertTrue(names)
            of_group = sections(shown("train", f"--help={key}"))
            self.assertEqual(list(of_group), [title.split(" (")[0]])
            told = forms(of_group[title.split(" (")[0]])
            self.assertEqual([option for option in told if option not in USUAL], names)
            rest += names
        self.assertEqual(sorted(rest + USUAL), sorted(options("train")))
        for command in SETTING:
            every = options(command)
            self.assertEqual(len(every), len(set(every)), command)
            is_long = "Usual options" in sections(shown(command, "--help"))
            self.assertEqual(is_long, len(every) > 15, command)
            if not is_long:
                self.assertEqual(shown(command, "--help"), shown(command, "--help=all"))
        self.fails("train", "--help=devces", says=["--help=devces", "did you mean 'devices'?"])
        self.fails("train", "--help=al", says=["did you mean 'all'?"])

    def test_words_of_help(self):
        form, text, nothing, *fields = shown("help", "accumulate").splitlines()
        self.assertEqual((form, nothing), ("--accumulate K", ""))
        self.assertRegex(text, r"^  \S.*\(default 1\)$")  # the default is printed once
        self.assertEqual(entries("\n".join(fields)), {
            "Range:": "a whole number from 1 to 65536", "Commands:": "train, why", "Group:": "Course of the training (--help=training)"})
        refused = self.fails("train", "--deadline", "0", says=["--deadline '0': expected seconds, from "])
        self.assertEqual(entries(shown("help", "deadline"))["Range:"], refused.split("expected ")[1].strip())
        self.assertEqual(shown("help", "--accumulate"), shown("help", "accumulate"))
        # The option of why, and the one of train.
        self.assertEqual(shown("help", "trace").count("\n--trace FILE\n") + 1, 2)
        text = shown("help", "devices")  # a command, a topic and an option
        self.assertTrue(text.startswith(shown("devices", "--help")))
        self.assertIn(shown("help", "devices").split("\n\n")[-1], text)
        for word in ("devices: how devices are named (SPEC).", "…/K:p", "--devices SPEC\n"):
            self.assertIn(word, text)
        self.assertEqual(shown("help", "bench"), shown("bench", "--help"))
        listed = entries(shown("help", "options"))
        self.assertEqual(listed["--tokens"], "generate")
        self.assertEqual(listed["--hosts"], "launch")
        for command in COMMANDS:
            for option in options(command):
                if option.startswith("--"):
                    self.assertIn(command, listed[option].split(", "), option)
        for word, says in (("trian", "train"), ("optimisers", "optimizers"), ("acumulate", "accumulate")):
            self.fails("help", word, says=[f"'{word}'", f"did you mean '{says}'?"])
        # Dashes do not count as slips.
        for word, says in (("--bacth", "batch"), ("--hsots", "hosts"), ("bacth", "batch")):
            self.fails("help", word, says=[f"'{word}'", f"did you mean '{says}'?"])
        self.fails("help", "train", "eval", says=["eval"])

    def test_topics_are_the_tables(self):
        known = re.search(r"expected (.*), or a Keras", self.fails("train", "--model", "nothing", says=[])).group(1).split(", ")
        self.assertEqual(re.findall(r"(?m)^  ([a-z]\S*)", shown("help", "models")), known)
        self.assertIn("    layers=", shown("help", "models"))
        text = shown("help", "optimizers")
        self.assertRegex(text, r"(?s)\n  sgd\n    lr=0.01 .*\n    momentum=0 +a number from 0 to 1\n")
        self.assertRegex(text, r"\n  adam\n    lr=0.001 ")
        self.assertIn("\n  mean_squared_error, mse\n", shown("help", "losses"))
        self.assertIn("    label_smoothing=0    a number from 0 to 1\n", shown("help", "losses"))
        self.assertIn("\n  accuracy, acc\n", shown("help", "metrics"))
        self.assertIn("    decay_steps=…        a number from 1 to 1e+15\n", shown("help", "schedules"))
        self.assertRegex(shown("help", "strategies"), r"(?s)\n  mirrored, multiworker .*\n    --local-steps K .*\n  pipeline .*\n    stages=… .*\n    --micro-batches M")

    def test_facts_are_those_of_the_contract(self):
        contract = (SOURCE / "docs/contract.md").read_text()
        table = contract.split("## Environment variables")[1].split("\n\n")[1]
        specified = {name for row in table.splitlines()[2:] for name in re.findall(r"`([A-Z][A-Za-z_]+)[`=]", row.split("|")[1])}
        told = shown("help", "environment").split("\n\n", 1)[1]
        self.assertEqual({name for what in entries(told) for name in what.split(", ")}, specified)
        codes = contract.split("## Exit codes")[1].split("\n\n")[1]
        self.assertEqual(re.findall(r"(?m)^  (\d+)", shown("help", "exit-codes")), re.findall(r"(?m)^\| (\d+) \|", codes))
        language = (SOURCE / "docs/command-line.md").read_text()
        self.assertIn("`clique help`", language)

    def test_reference_has_the_groups_of_the_help(self):
        language = (SOURCE / "docs/command-line.md").read_text()
        reference = re.search(r"(?ms)^## clique train$(.*?)^## ", language)[1]
        specified = {}
        for title, section in re.findall(r"(?ms)^### ([^\n]+)\n(.*?)(?=^### |\Z)", reference):
            rows = re.findall(r"(?m)^\| (`--(?:[^|\n]|\\\|)*)\|", section)
            specified[title] = [option for row in rows for option in re.findall(r"`(--[a-z-]+)", row)]
        told = re.findall(r"(?ms)^([A-Z][^\n]*):\n(.*?)(?=^\S|\Z)", shown("train", "--help=all"))
        self.assertGreater(len(told), 5)
        for title, text in told:
            self.assertEqual(specified.get(title), re.findall(r"(?m)^  (--[a-z-]+)", text), title)

    def test_suggestions(self):
        self.fails("trian", says=["unknown command 'trian'", "did you mean 'train'?"])
        self.fails("train", "--tokens", "3", says=["option '--tokens' is of clique generate: clique train does not take it"])
        self.fails("generate", "--batch", "3", says=["is of clique train, clique eval", " and clique plan:"])
        self.fails("train", "--stratgy", "ps", says=["'--stratgy' is unknown", "did you mean '--strategy'?"])
        self.fails("train", "--sav", "x", says=["'--sav' is ambiguous: it begins --save, --save-best"])
        self.fails("train", "-batch", "3", says=["'-batch' is unknown", "did you mean '--batch'?"])
        self.fails("train", "-q", says=["'-q' is unknown: clique train --help lists the options\n"])
        for data in ("fashion-mnits", "syntetic"):
            result = run("eval", "--devices", "pocl:0", "--weights", "none", "--data", data)
            self.assertEqual(result.returncode, 3)
            self.assertRegex(result.stderr, r"no data set '[a-z-]+': .*; did you mean '(fashion-mnist|synthetic)'\?\n")
        for name in ("x", "", "x=y"):
            self.assertNotIn("ambiguous", self.fails("train", f"--={name}", says=[f"option '--={name}' has no name: "]))
        self.fails("train", "--hepl", says=["'--hepl' is unknown", "did you mean '--help'?"])
        self.fails("launch", "--h", says=["ambiguous", "--hosts", "--help"])
        self.fails("train", "-help", says=["did you mean '--help'?"])
        for part in ("--hel", "--hel=all"):
            self.assertEqual(shown("train", part), shown("train", part.replace("hel", "help")))
        self.assertEqual(shown("compare", "--he"), shown("compare", "--help"))
        for word, meant in (("--verison", "--version"), ("--vers", "--version"), ("--hlep", "--help"), ("--hel", "--help")):
            self.fails(word, says=[f"did you mean '{meant}'?"])
        self.fails("bench", "--hlep", says=["did you mean '--help'?"])
        self.fails("compare", "--fail-bellow", "1", says=["did you mean '--fail-below'?"])
        self.fails("train", "--model", "resnet19", says=["did you mean 'resnet18'?"])
        self.fails("train", "--model", "gpt:layer=3", says=["did you mean 'layers'?"])
        self.fails("bench", "gem", says=["did you mean 'gemm'?"])
        self.fails("bench", "conv", "--variant", "winogard", says=["did you mean 'winograd'?"])
        self.fails("bench", "gemm", "--variants", "tile,locl", says=["did you mean 'local'?"])
        self.fails("bench", "gemm", "-d", "f15", says=["f32 or f16"])
        self.fails("bench", "all_reduce", "-d", "bf61", says=["did you mean 'bf16'?"])
        self.fails("bench", "all_reduce", "--algo", "rings", says=["did you mean 'ring'?"])
        self.fails("bench", "p2p", "--transport", "pear", says=["did you mean 'peer'?"])
        self.fails("bench", "step", "--timing", "profil", says=["did you mean 'profile'?"])
        plan = ["plan", "--devices", "pocl:0", "--data", "synthetic"]
        self.fails(*plan, "--freeze", "dnese", says=["did you mean 'dense'?"])
        self.fails(*plan, "--optimizer-of", "dnese=sgd", says=["did you mean 'dense'?"])
        self.fails(*plan, "--optimizer", "adan", says=["did you mean 'adam'?"])
        self.fails(*plan, "--optimizer", "sgd:momentm=1", says=["did you mean 'momentum'?"])
        self.fails(*plan, "--loss", "huberr", says=["did you mean 'huber'?"])
        self.fails(*plan, "--loss", "otput=mse", says=["has no output 'otput'"])
        self.fails(*plan, "--strategy", "miror", says=["'miror' is unknown"])
        self.fails(*plan, "--strategy", "mirored", says=["did you mean 'mirrored'?"])
        self.fails(*plan, "--precision", "mixd", says=["did you mean 'mixed'?"])
        self.fails(*plan, "--clip", "nrom=1", says=["did you mean 'norm'?"])
        self.fails(*plan, "--no-decay", "bais", says=["'bais' in its name", "did you mean 'bias'?"])
        self.fails(*plan, "--disable-paths", "overlp", says=["did you mean 'overlap'?"])
        self.fails("train", "--devices", "pocl:0", "--data", "synthetic", "--compress", "f61", says=["did you mean 'f16'?"])
        self.fails("train", "--devices", "pocl:0", "--data", "synthetic", "--schedule", "cosin", says=["did you mean 'cosine'?"])
        self.fails("train", "--devices", "pocl:0", "--data", "synthetic", "--metrics", "acuracy", says=["did you mean 'accuracy'?"])
        self.fails("train", "--devices", "pocl:0", "--data", "synthetic", "--progress", "of", says=["did you mean 'off'?"])
        self.fails("train", "--devices", "pocl:0", "--data", "synthetic", "--labels", "sample", says=["did you mean 'samples'?"])
        self.fails("launch", "--mpi", "opnmpi", "--hosts", "localhost", "--", "true", says=["did you mean 'openmpi'?"])
        for word, meant in (("pcol", "pocl"), ("cpuu", "cpu")):
            result = run("doctor", "--devices", word)
            self.assertEqual(result.returncode, 4)
            self.assertIn(f"did you mean '{meant}'?", result.stderr)
        listed = [device["type"] for device in json.loads(shown("devices", "--json"))["devices"]]
        for word in {"gpu", "accelerator"} - {*listed}:  # a known type, but no such device
            result = run("doctor", "--devices", word)
            self.assertEqual(result.returncode, 4)
            self.assertIn(f"no device matches '{word}'", result.stderr)
            self.assertNotIn("did you mean", result.stderr)

    def test_long_names_stay_whole(self):
        """Names that are longer than all real ones, followed by other names."""
        long = "dense" * 30
        plan = ["plan", "--devices", "pocl:0", "--data", "synthetic"]
        for words in (("--freeze", f"{long},dense"), ("--optimizer-of", f"{long},dense=sgd"), ("--no-decay", f"{long},bias"),
                      ("--disable-paths", f"{long},overlap"), ("--loss", f"{long}=mse")):
            self.fails(*plan, *words, says=[f"'{long}'"])
        self.fails(*plan, "--model", "nothing:layers=2", says=["'nothing:layers=2' is unknown"])
        self.fails(*plan, "--model", "resnet19:classes=2", says=["did you mean 'resnet18'?"])
        self.fails("train", f"--{long}=1", says=[f"option '--{long}' is unknown"])

    # ---- manual pages ----

    def test_pages_have_all_options(self):
        self.assertEqual({page.name for page in MANUAL.glob("*.1")}, {"clique.1", *(f"clique-{command}.1" for command in [*COMMANDS, "bench"])})
        for command in COMMANDS:
            page = (MANUAL / f"clique-{command}.1").read_text().replace("\\-", "-")
            told = [re.sub(r"\\f.", "", form).split()[0].split("[")[0].rstrip(",") for form in re.findall(r"\.TP\n(\\fB-.*)", page)]
            self.assertEqual(told, [*options(command), "--help"], command)
        benches = (MANUAL / "clique-bench.1").read_text()
        for name in entries(shown("bench", "--help")):
            self.assertIn(f"\\fB{name}\\fR\n", benches)
        page = (MANUAL / "clique.1").read_text()
        for section in ("COMMANDS", "TOPICS", "DEVICES", "ENVIRONMENT", "EXIT STATUS"):
            self.assertIn(f'\n.SH "{section}"\n' if section in ("DEVICES", "ENVIRONMENT", "EXIT STATUS") else f"\n.SH {section}\n", page)

    def test_pages_are_read_without_warnings(self):
        """groff reads the pages, and so does mandoc if it is installed."""
        readers = [[GROFF, "-man", "-Tutf8", "-ww", "-z"]]
        if shutil.which("mandoc"):
            readers.append(["mandoc", "-T", "lint", "-W", "warning"])
        for page in MANUAL.glob("*.1"):
            for reader in readers:
                result = subprocess.run([*reader, page], capture_output=True, text=True)
                self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""), page)
        text = subprocess.run([GROFF, "-man", "-Tutf8", "-P-cbou", MANUAL / "clique-train.1"], capture_output=True, text=True).stdout
        words = shown("help", "accumulate").splitlines()[1].split()
        self.assertRegex(text, rf"\n +--accumulate K\n +{re.escape(' '.join(words[:4]))}")

    # ---- completion ----

    def complete(self, *words):
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _clique; printf "%s\\n" "${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "-c", script, "bash", MANUAL / "clique.bash", "clique", *words], capture_output=True, text=True, cwd=SOURCE)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_completion(self):
        self.assertEqual(set(self.complete("")), {*COMMANDS, "bench", "help", "--help", "--version"})
        self.assertEqual(self.complete("t"), ["train", "tune"])
        for command in COMMANDS:
            self.assertEqual(self.complete(command, "-"), [*options(command), "--help"], command)
        self.assertEqual(self.complete("train", "--tune", ""), ["off", "quick", "full"])
        self.assertEqual(self.complete("train", "--tune", "=", "f"), ["full"])
        self.assertEqual(self.complete("train", "--tune", "="), ["off", "quick", "full"])
        self.assertEqual(self.complete("train", "--precision", "m"), ["mixed", "mixed-bf16"])
        self.assertEqual(self.complete("plan", "--shares", ""), ["equal", "auto"])
        self.assertEqual(self.complete("why", "--cross-device-ops", "t"), ["torus"])
        known = re.findall(r"(?m)^  ([a-z]\S*)", shown("help", "models"))
        self.assertEqual(self.complete("eval", "--model", "")[:len(known)], known)
        self.assertIn("README.md", self.complete("eval", "--model", "READ"))
        self.assertEqual(self.complete("train", "--save", "READ"), ["README.md"])
        self.assertEqual(self.complete("compare", "READ"), ["README.md"])
        self.assertEqual(self.complete("report", "-o", "READ"), ["README.md"])
        self.assertEqual(self.complete("train", "--batch", ""), [])
        keys = re.findall(r"--help=([a-z]+)\)", shown("train", "--help"))
        self.assertEqual(self.complete("train", "--help", "="), ["all", *keys])
        self.assertEqual(self.complete("train", "--help", "=", "d"), ["devices"])
        self.assertEqual(self.complete("train", "--help", ""), [])  # an option would be ignored there
        self.assertEqual(self.complete("bench", "all"), ["all_reduce", "all_gather"])
        self.assertEqual(self.complete("help", "acc"), ["accumulate"])
        self.assertEqual(self.complete("help", "schedu"), ["schedules", "schedule"])
        self.assertEqual(self.complete("launch", "--mpi", "o"), ["openmpi"])
        launched = ["launch", "--hosts", "a", "--"]
        self.assertEqual(self.complete(*launched, "cli")[0], "clique")
        self.assertFalse({*self.complete(*launched, "")} & {*COMMANDS})
        self.assertEqual(self.complete(*launched, "READ"), ["README.md"])
        self.assertEqual(self.complete(*launched, "clique", "t"), ["train", "tune"])
        self.assertEqual(self.complete(*launched, "/usr/bin/clique", "train", "--ea"), ["--early-stopping"])
        self.assertEqual(self.complete(*launched, "clique", "train", "--ea"), ["--early-stopping"])
        self.assertEqual(self.complete(*launched, "python3", "READ"), ["README.md"])
        self.assertEqual(self.complete(*launched, "python3", "t.py", "--ea"), [])

    def test_other_shells(self):
        """The other shells need not be installed. Those that are installed read their own files."""
        zsh, fish = (MANUAL / "_clique").read_text(), (MANUAL / "clique.fish").read_text()
        self.assertTrue(zsh.startswith("#compdef clique\n"))
        for command in COMMANDS:
            of_command = zsh.split(f"\n    {command}) _arguments")[1].split(";;")[0]
            for option in options(command):
                self.assertRegex(of_command, rf"'{option}=?\[", command)
                form = f"-l {option[2:]} " if option.startswith("--") else f"-s {option[1:]} "
                self.assertRegex(fish, rf"(?m)^complete -c clique -n '__clique_is {command}' .*{form}", command)
            keys = re.search(r"expected all(?:, (.*))?\n", self.fails(command, "--help=0", says=[])).group(1)
            if keys:
                keys = keys.replace(",", "")
                self.assertRegex(of_command, rf"'--help=-\[.*::GROUP:\(all {keys}\)'")
                self.assertRegex(fish, rf"(?m)^complete -c clique -n '__clique_is {command}' -l help -a 'all {keys}' ")
            else:
                self.assertRegex(of_command, r"'--help\[")
                self.assertRegex(fish, rf"(?m)^complete -c clique -n '__clique_is {command}' -l help ")
        for option in ("help", "version"):
            self.assertIn(f" '--{option}:", zsh.split("own=(")[1].splitlines()[0])
            self.assertRegex(fish, rf"(?m)^complete -c clique -n '__clique_is \\'\\'' -l {option} ")
        known = " ".join(re.findall(r"(?m)^  ([a-z]\S*)", shown("help", "models")))
        for command in ("train", "eval"):  # names of models, and files
            of_command = zsh.split(f"\n    {command}) _arguments")[1].split(";;\n")[0]
            self.assertRegex(of_command, rf"'--model=\[.*:\{{compadd -- {known}; _files\}}'")
            self.assertRegex(of_command, r"'--data=\[.*:\{compadd -- fashion-mnist synthetic; _files\}'")
        for shell, script in (("zsh", "_clique"), ("fish", "clique.fish")):
            if shutil.which(shell):
                result = subprocess.run([shell, "-n", MANUAL / script], capture_output=True, text=True)
                self.assertEqual((result.returncode, result.stderr), (0, ""), shell)


if __name__ == "__main__":
    unittest.main()
