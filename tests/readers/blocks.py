"""Finds the code blocks in README.md, docs/*.md and docs/guides/*.md: commands with their output, and programs.

Marks stand before a block, and readers do not see them. A mark that ends with `, for: TEXT` applies only to the block's
commands that contain TEXT.
  <!-- needs: WHAT -->      It runs only if WHAT is there (Command.dry). Else it is parsed, and listed. Python is
                            compiled.
  <!-- file: NAME -->       The block is the content of a file that commands of the page name.
  <!-- first: COMMAND -->   It runs before the block's commands.
  <!-- output of: COMMAND -->    The block is what COMMAND prints.
  <!-- varies: TEXT | TEXT -->    The output at these texts depends on the machine.
  <!-- exit: N -->          The command ends with this status.
  <!-- cut: SECONDS -->     It takes an hour or more: Ctrl-C ends it after SECONDS.
  <!-- given: PARAMETERS -->     The block in C is the body of a function with these parameters."""
import itertools
import re
import shlex
import shutil

MARK = re.compile(r"<!-- (needs|file|first|output of|varies|exit|cut|given): (.*?)(?:, for: (.*))? -->$")
COMMAND = re.compile(r"(clique|mpirun|srun|cc|cmake|ctest|export|pip|sudo|apt|tar|taskset|python3?|docker|ssh|\./\S+|"
                     r"(build/bin|systems|tests|bench|gpu-first-run)/\S+|\(cd)( |$)")
SPAN = re.compile(r"`((?:taskset|mpirun)[^`]* clique [^`]*|clique [^`]*)`")
DEVICES = {"two devices": 2, "four devices": 4}  # PoCL makes as many devices of the processor as it is told


class Block:
    def __init__(self, page, line, language, marks):
        self.page, self.line, self.language, self.marks, self.lines = page, line, language, marks, []

    @property
    def text(self):
        return "\n".join(self.lines).rstrip()

    def mark(self, name, text=""):
        return [value for one, value, of in self.marks if one == name and (of is None or of in text)]


class Command:
    def __init__(self, block, line, text, sample=None, unclear=None):
        self.block, self.line, self.text, self.sample, self.unclear = block, line, text, sample, unclear

    @property
    def place(self):
        return f"{self.block.page}:{self.line}"

    def mark(self, name):
        return self.block.mark(name, self.text)

    def dry(self, build=None):
        """The reason why the command does not run. Without a build, only the page decides."""
        if self.unclear:
            return self.unclear
        for need in self.mark("needs"):
            mpi = build is None or shutil.which("mpirun") and list(build.glob("lib/**/libclique-openmpi.so"))
            if need not in DEVICES and not (need == "Open MPI" and mpi):
                return need
        return None


def blocks(root, path):
    """Fenced blocks, and blocks that are indented by four blanks."""
    page, found, marks, block, fenced = str(path.relative_to(root)), [], [], None, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        indented = not fenced and line.startswith("    ")
        if line.startswith("```"):
            fenced, block, marks = not fenced, None, [] if fenced else marks
            if fenced:
                block = Block(page, number + 1, line[3:] or "sh", marks)
                found.append(block)
        elif fenced or indented:
            if block is None:
                block = Block(page, number, "sh", marks)
                found.append(block)
            block.lines.append(line[4:] if indented else line)
        elif line:
            mark = MARK.match(line)
            of_line = mark.groups() if mark else ("unknown", line, None) if line.startswith("<!--") else None
            block, marks = None, marks * (block is None) + [of_line] if of_line else []
        elif block is not None:
            block.lines.append("")
    return found


def commands(block):
    """The commands of a block: lines that begin with `$`, with their output; and chunks that contain only commands."""
    found, lines = [Command(block, block.line, text) for text in block.mark("first")], []
    if block.mark("output of"):
        return found + [Command(block, block.line, block.mark("output of")[0], block.lines)]
    if block.language != "sh" or block.mark("file"):
        return []
    for at, line in enumerate(block.text.split("\n"), block.line):
        if lines and lines[-1][1].endswith("\\"):
            lines[-1] = (lines[-1][0], lines[-1][1][:-1] + line.strip())
        else:
            lines.append((at, line))
    for filled, chunk in itertools.groupby(lines, key=lambda one: bool(one[1])):
        chunk = list(chunk)
        are = [bool(COMMAND.match(line)) for _, line in chunk]
        if chunk[0][1].startswith("$ "):
            for at, line in chunk:
                if line.startswith("$ "):
                    found.append(Command(block, at, line[2:], []))
                else:
                    found[-1].sample.append(line)
        elif all(are):
            found += [Command(block, at, line) for at, line in chunk]
        elif filled and found and found[-1].sample is not None:
            found[-1].sample += ["", *(line for _, line in chunk)]
        elif any(are) or any(re.search(r"(^| )--[a-z]", line) for _, line in chunk):
            found.append(Command(block, *chunk[0], unclear="neither commands alone nor an output"))
    return found


def pages(root):
    return [root / "README.md", *sorted(root.glob("docs/*.md")), *sorted(root.glob("docs/guides/*.md"))]


def everything(root, chosen=()):
    """Each page with its blocks and its commands."""
    for path in pages(root):
        if not chosen or str(path.relative_to(root)) in chosen:
            found = blocks(root, path)
            yield str(path.relative_to(root)), found, [command for block in found for command in commands(block)]


def spans(path):
    """Commands within lines of text, with their lines."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        yield from ((number, span) for span in SPAN.findall(line) if not line.startswith("    "))


def arguments(text):
    """The arguments of each `clique` in a command, with any launcher."""
    words = shlex.shlex(re.sub(r"\d?>&?\s*\S+", "", text), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words = list(words)
    for at, word in enumerate(words):
        if word in ("clique", "build/bin/clique") and not re.match("--.", words[at - 1] if at else ""):
            end = next((i for i in range(at, len(words)) if words[i] in (":", "&&", ";", "|", ")")), len(words))
            if end > at + 1:
                yield words[at + 1:end]
