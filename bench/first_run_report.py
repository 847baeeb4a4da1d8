#!/usr/bin/env python3
"""Turns the results of bench/gpu-first-run into one JSON file and one page.

usage: first_run_report.py --clique PROGRAM [--reference yes|no] -o FOLDER RESULTS…

Writes FOLDER/first-run.json and FOLDER/first-run.html (by `clique report`). Exit status: 0 if every step succeeded and
every check passed, 1 if not, or if a file could not be written.
"""
import argparse
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

TAIL = 4000  # characters of a step's output in the JSON file
LOSSES_AGREE = 1e-4  # relative difference of each update's loss
PARTS = {"A": "does it run", "B": "is it fast", "C": "is it right and overlapped"}
STEPS = ("part", "name", "state", "rc", "seconds", "limit_s", "command")
FACTS = ("uname", "os-release", "cpu", "memory-info", "package", "nvidia-smi", "rocm-smi", "device-files", "clinfo")


def text_of(path):
    return path.read_text(errors="replace") if path.exists() else ""


def json_of(path):
    try:
        return json.loads(text_of(path))
    except ValueError:
        return None


def settings_of(path):
    """The settings in run.tsv: `done` is there for each part whose steps all began, `interrupted` after Ctrl-C."""
    pairs = [line.split("\t", 1) for line in text_of(path).splitlines() if "\t" in line]
    settings = {"parts": "ABC"} | dict(pairs)
    settings |= {"done": "".join(value for key, value in pairs if key == "done"), "interrupted": "interrupted" in settings}
    return settings | ({"total": int(settings["total"])} if "total" in settings else {})


def is_number(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


class Run:
    """One folder of results."""

    def __init__(self, folder):
        self.folder = folder
        self.settings = settings_of(folder / "run.tsv")
        rows = [line.split("\t", len(STEPS) - 1) for line in text_of(folder / "steps.tsv").splitlines()]
        # Skips a row that is incomplete because the machine died.
        self.steps = [self.step(row) for row in rows if len(row) == len(STEPS)]
        if not self.steps:
            sys.exit(f"first_run_report: error: {folder} holds no results of gpu-first-run (no steps.tsv)")

    def step(self, row):
        step = dict(zip(STEPS, row))
        out, err = self.output(step["name"])
        step |= {"rc": int(step["rc"]) if step["rc"].isdigit() else None, "seconds": float(step["seconds"]),
                 "limit_s": int(step["limit_s"]), "output_tail": (out + err)[-TAIL:]}
        return step

    def output(self, name):
        return text_of(self.folder / f"{name}.out"), text_of(self.folder / f"{name}.err")

    def benches(self):
        """(step, content of its file). The content is None if the step wrote none."""
        for step in self.steps:
            if step["command"].startswith("clique-bench "):
                yield step, json_of(self.folder / f"{step['name']}.json")

    def trainings(self):
        for step in self.steps:
            if step["command"].startswith("clique train "):
                yield step, json_of(self.folder / f"{step['name']}.out") or {}

    def losses(self, name):
        lines = text_of(self.folder / f"{name}.jsonl").splitlines()
        try:
            return [json.loads(line)["loss"] for line in lines]
        except (ValueError, KeyError):
            return []


def reference_losses(clique, step):
    """The losses of the same training on a CPU device of this machine, and None; or None, and the reason."""
    words = shlex.split(step["command"])
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "losses.jsonl"
        words[0] = clique
        words[words.index("--devices") + 1] = "cpu:0"
        words[words.index("--log") + 1] = str(log)
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None, "it took more than 120 s"
        if done.returncode != 0:
            return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"
        return [json.loads(line)["loss"] for line in log.read_text().splitlines()], None


def compare_losses(runs, clique, reference):
    """For each model, compares every other run with the run on one device. If none used a CPU device, makes such a run
    here, unless `reference` is false."""
    rows = []
    for run in runs:
        steps = {step["name"]: step for step in run.steps if step["name"].startswith("losses-")}
        for model in sorted({name.split("-")[1] for name in steps}):
            names = [name for name in steps if name.split("-")[1] == model]
            one = run.losses(f"losses-{model}-one")
            others = [(name.split("-")[2], run.losses(name), None) for name in names if not name.endswith("-one")]
            if reference and not any(what == "cpu" for what, _, _ in others):
                losses, reason = reference_losses(clique, steps[f"losses-{model}-one"])
                others.append(("cpu of the reporting machine", losses, reason))
            rows += [difference(model, one, what, losses, reason) for what, losses, reason in others]
    return rows


def difference(model, one, what, losses, reason):
    row = {"model": model, "reference": "one device", "compared": what, "updates": len(one), "difference": None,
           "allowed": LOSSES_AGREE, "ok": False, "reason": reason}
    if not one or not losses or len(one) != len(losses):
        return row | {"reason": reason or f"{len(one)} and {len(losses or [])} losses"}
    for update, (a, b) in enumerate(zip(one, losses)):
        if not is_number(a) or not is_number(b) or a == 0:
            return row | {"reason": f"at update {update} a loss is zero or no number: {a} and {b}"}
    row["difference"] = max(abs(a - b) / abs(a) for a, b in zip(one, losses))
    row["ok"] = row["difference"] <= LOSSES_AGREE
    return row


# ---- registers ----

def registers(runs):
    """Runs ptxas on the kernels that NVIDIA's driver compiled: the cache's files contain its programs as PTX text."""
    ptxas = shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    rows = []
    for run in runs:
        for path in sorted(run.folder.glob("cache/programs/*.bin")):
            content = path.read_bytes()
            begin = content.find(b"\n.version ")
            if begin < 0:
                continue
            ptx = content[begin:].split(b"\0")[0]
            target = re.search(rb"^\.target (sm_\w+)", ptx, re.M)
            if not target:
                continue
            row = {"program": path.name, "kernel": None, "target": target[1].decode(), "registers": None,
                   "spill_stores": None, "spill_loads": None, "reason": None if ptxas else "no ptxas on the reporting machine"}
            rows += ask_ptxas(ptxas, ptx, row) if ptxas else [row]
    return rows


def ask_ptxas(ptxas, ptx, row):
    done = subprocess.run([ptxas, "-v", f"-arch={row['target']}", "-o", os.devnull, "/dev/stdin"], input=ptx, capture_output=True)
    said, rows, spills = done.stderr.decode(errors="replace"), [], (None, None)
    for line in said.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            row, spills = row | {"kernel": found[1]}, (None, None)
        elif found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spills = int(found[1]), int(found[2])
        elif found := re.search(r"Used (\d+) registers", line):
            rows.append(row | {"registers": int(found[1]), "spill_stores": spills[0], "spill_loads": spills[1]})
    return rows if done.returncode == 0 and rows else [row | {"reason": "ptxas: " + said.strip()[-200:]}]


# ---- verdicts ----

def verdict(part, question, ok, line):
    return {"part": part, "question": question, "ok": ok, "line": line}


def step_verdicts(runs):
    """A part passes if all its steps succeeded, and no run that was to measure it ended before its last step."""
    for part, question in PARTS.items():
        steps = [step for run in runs for step in run.steps if step["part"] == part]
        bad = [f"{step['name']} ({step['state']})" for step in steps if step["state"] != "ok"]
        ended = [str(run.folder) for run in runs if part in run.settings["parts"] and part not in run.settings["done"]]
        if steps or ended:
            yield verdict(part, question, not bad and not ended, f"{len(steps) - len(bad)} of {len(steps)} steps went well" +
                          ("; not " + ", ".join(bad) if bad else "") +
                          ("; ended before the last step: " + ", ".join(ended) if ended else ""))
    interrupted = [str(run.folder) for run in runs if run.settings["interrupted"]]
    if interrupted:
        yield verdict("start", "was the run left to its end", False, "interrupted: " + ", ".join(interrupted))
    bad = [f"{step['name']} ({step['state']})" for run in runs for step in run.steps
           if step["part"] == "start" and step["state"] != "ok"]
    if bad:
        yield verdict("start", "are there devices", False, "not well: " + ", ".join(bad))


def doctor_verdict(doctors):
    checks = [(device["index"], check) for doctor in doctors for device in doctor["devices"] for check in device["checks"]]
    bad = sorted({f"{check['name']} on device {index}" for index, check in checks if not check["ok"]})
    return verdict("A", "are the doctor's answers right", bool(checks) and not bad,
                   f"{len(checks)} checks, " + ("all right" if checks and not bad else "wrong: " + ", ".join(bad) if bad else "none was made"))


def bench_verdicts(benches):
    rows = [(bench, row) for bench in benches for row in bench["rows"]]
    wrong = sorted({bench["bench"] for bench, row in rows if row.get("wrong")})
    counted = sum(1 for _, row in rows if row.get("wrong") is not None)
    if counted:
        yield verdict("B", "are the benchmarks' results right", not wrong,
                      f"{counted} rows were verified" + ("; wrong values in " + ", ".join(wrong) if wrong else ""))
    best = max((row for bench, row in rows if bench["bench"] == "gemm" and row.get("gflops")), default=None, key=lambda row: row["gflops"])
    if best:
        limit = f", {best['pct_of_limit']:.0f} % of {best['limit_gflops']:.0f}" if best.get("pct_of_limit") else ""
        yield verdict("B", "how fast are matrix products", None, f"{best['gflops']:.0f} GFLOP/s{limit}: "
                      f"{best['m']}x{best['n']}x{best['k']}, {best['precision']}, {best['variant']}")
    for row in (row for bench, row in rows if bench["bench"] == "step" and row.get("wall_us")):
        yield verdict("B", "how long is a step", None, f"{row['model']}, batch {row['batch']}: {row['wall_us']:.0f} us by the host's clock, "
                      f"{row['us']:.0f} us of launches, {row['launches']} launches")


def loss_verdicts(losses):
    for row in losses:
        found = f"{row['difference']:.1e} at most" if row["difference"] is not None else f"not compared: {row['reason']}"
        yield verdict("C", f"are losses of {row['model']} on {row['compared']} those on one device", row["ok"],
                      f"relative difference of an update's loss: {found} (allowed {row['allowed']:.0e})")


def training_verdicts(trainings):
    rates = {row["name"]: row["images_per_s"] for row in trainings if row["images_per_s"]}
    one, twice = rates.get("train-one"), rates.get("train-twice")
    if one and twice:
        yield verdict("C", "what do two replicas on each device reach", None,
                      f"{twice:.0f} images/s, {twice / one:.2f} of {one:.0f} on one; in buckets {rates.get('train-twice-buckets', 0):.0f}")


def register_verdicts(rows):
    spilled = [f"{row['kernel']} ({row['spill_stores']} bytes)" for row in rows if row["spill_stores"]]
    known = [row for row in rows if row["registers"] is not None]
    if known:
        yield verdict("B", "do kernels spill registers", not spilled, f"{len(known)} kernels, at most {max(row['registers'] for row in known)} registers; "
                      + ("spilled: " + ", ".join(spilled) if spilled else "none spilled"))


# ---- files ----

def driver(vendor, library, had_icd_file):
    return {"vendor": vendor, "library": None if library == "-" else library, "had_icd_file": had_icd_file == "yes"}


def collect(runs, clique, reference):
    every = [(step, content) for run in runs for step, content in run.benches()]
    benches = [content | {"step": step["name"]} for step, content in every if content]
    doctors = [{"run": number, "start": start} | doctor for number, run in enumerate(runs) for start in ("cold", "warm")
               if (doctor := json_of(run.folder / f"doctor-{start}.out"))]
    trainings = [{"name": step["name"], "state": step["state"], "seconds": step["seconds"], "model": result.get("model"),
                  "replicas": result.get("replicas"), "images_per_s": result.get("images_per_s"), "first_step_s": result.get("first_step_s"),
                  "loss": result["epochs"][-1]["loss"] if result.get("epochs") else None, "verdict": result.get("verdict")}
                 for run in runs for step, result in run.trainings()]
    losses = compare_losses(runs, clique, reference)
    rows = registers(runs)
    verdicts = [*step_verdicts(runs)]
    if any(step["name"].startswith("doctor-") for run in runs for step in run.steps):
        verdicts.append(doctor_verdict(doctors))
    verdicts += [*bench_verdicts(benches), *register_verdicts(rows), *loss_verdicts(losses), *training_verdicts(trainings)]
    devices = json_of(runs[0].folder / "devices.out") or {"devices": []}
    return {
        "schema": "clique-first-run/1",
        "ok": all(v["ok"] is not False for v in verdicts),
        "runs": [run.settings for run in runs],
        "host": {name: runs[0].output(name)[0] for name in FACTS},
        "drivers": [driver(*line.split("\t")) for line in text_of(runs[0].folder / "drivers.tsv").splitlines() if line.count("\t") == 2],
        "devices": devices["devices"], "verdicts": verdicts, "steps": [step for run in runs for step in run.steps],
        "doctor": doctors, "benches": benches, "trainings": trainings, "losses": losses, "registers": rows,
    }


def page(clique, found, folder):
    """Shows everything as rows of benchmarks, which `clique report` lays out: verdicts and steps first."""
    host = next((bench["host"] for bench in found["benches"]), {})
    def table(name, rows):
        return {"schema": "clique-bench/1", "bench": name, "host": host, "devices": [], "command": "gpu-first-run", "rows": rows}
    checks = [{"run": doctor["run"], "start": doctor["start"], "index": device["index"]} | check
              for doctor in found["doctor"] for device in doctor["devices"] for check in device["checks"]]
    steps = [{key: value for key, value in step.items() if key != "output_tail"} |
             {"said": step["output_tail"][-400:] if step["state"] != "ok" else None} for step in found["steps"]]
    tables = [("verdicts", found["verdicts"]), ("steps", steps), ("doctor", checks), ("trainings", found["trainings"]),
              ("losses", found["losses"]), ("registers", found["registers"]), ("devices", found["devices"]),
              ("host", [{"what": name, "said": said} for name, said in found["host"].items() if said])]
    with tempfile.TemporaryDirectory() as temporary:
        files = []
        for name, content in [(name, table(f"first run: {name}", rows)) for name, rows in tables if rows] + \
                [(bench["step"], bench) for bench in found["benches"]]:
            # Several runs have steps of the same name, so each file has its own folder.
            files.append(pathlib.Path(temporary) / str(len(files)) / f"{name}.json")
            files[-1].parent.mkdir()
            files[-1].write_text(json.dumps(content))
        return subprocess.run([clique, "report", *map(str, files), "-o", str(folder / "first-run.html")]).returncode == 0


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--clique", required=True)
    options.add_argument("--reference", choices=("yes", "no"), default="yes")
    options.add_argument("-o", dest="folder", required=True, type=pathlib.Path)
    options.add_argument("results", nargs="+", type=pathlib.Path)
    given = options.parse_args()
    found = collect([Run(folder) for folder in given.results], given.clique, given.reference == "yes")
    given.folder.mkdir(parents=True, exist_ok=True)
    (given.folder / "first-run.json").write_text(json.dumps(found, indent=1) + "\n")
    for row in found["verdicts"]:
        print(f"{ {True: 'yes', False: 'NO', None: '-'}[row['ok']]:4} {row['part']}  {row['question']}: {row['line']}")
    print(given.folder / "first-run.json")
    if not page(given.clique, found, given.folder):
        print("first_run_report: error: first-run.html was not written: the reason is above", file=sys.stderr)
        return 1
    print(given.folder / "first-run.html")
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
