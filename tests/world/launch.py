"""How tests start processes by a launcher of MPI, all on this machine."""
import os
import pathlib
import random
import re
import signal
import socket
import subprocess

# The machine may have fewer cores than ranks, so processes are not bound. Open MPI refuses root unless it is allowed.
LAUNCHERS = {
    "openmpi": ["mpirun.openmpi", "--bind-to", "none", "--oversubscribe"],
    "mpich": ["mpirun.mpich"],
}
# Without HWLOC_COMPONENTS, Open MPI's launcher would load all OpenCL drivers, to list devices that it does not use. The
# recorder, which tests/run preloads, does not support OpenCL that is loaded so late.
ENVIRONMENT = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "HWLOC_COMPONENTS": "-opencl"}
ENVIRONMENT.pop("CLIQUE_ENGINE", None)
HOST = socket.gethostname()


def installed(folder):
    return [name for name in LAUNCHERS if (folder.parent / f"lib/clique/libclique-{name}.so").exists()]


def by_one_mpi(mpi, folder):
    """Decorates tests that do not depend on the MPI: they run with only one of the installed MPIs."""
    return lambda test: test if mpi == installed(folder)[0] else None


def by_last_mpi(mpi, folder):
    """Like by_one_mpi, with another MPI if there are two."""
    return lambda test: test if mpi == installed(folder)[-1] else None


def own_part(mpi, folder, cases, turn=0):
    """Divides cases that do not depend on the MPI: returns the cases that this MPI runs. With two MPIs, each runs every
    second case. turn: 0 or 1. With 1, the MPIs swap their cases."""
    names = installed(folder)
    return [case for i, case in enumerate(cases) if (i + turn) % len(names) == names.index(mpi)]


def line(mpi, ranks, *command, of_rank=None, more=()):
    """The command line of `ranks` processes. of_rank: additional options of a rank. more: options of the launcher."""
    parts = [*LAUNCHERS[mpi], *more]
    for rank in range(ranks):
        parts += [":"] * (rank > 0) + ["-n", 1, *command, *(of_rank or {}).get(rank, [])]
    return list(map(str, parts))


def cache_to_lose(folder):
    """The environment of processes that a launcher may kill while they load programs. Clique would suspect that these
    programs ended the processes, and the next process would build the programs again. So the processes have their own
    cache of programs. PoCL's cache still has the kernels. The lists of devices are shared with the other tests."""
    cache, others = folder / "cache-to-lose", os.environ.get("CLIQUE_CACHE_DIR")
    if not others:
        return {}
    if not cache.exists():
        lists = pathlib.Path(others) / "devices"
        lists.mkdir(parents=True, exist_ok=True)  # missing in a fresh tree; a list cannot be kept through a dangling link
        cache.mkdir()
        (cache / "devices").symlink_to(lists)
    return {"CLIQUE_CACHE_DIR": str(cache)}


def finish(parts, folder, **variables):
    return subprocess.run(parts, env=ENVIRONMENT | variables, cwd=folder, capture_output=True, text=True, timeout=240)


def processes(name, folder, is_wanted=lambda entry: True):
    """The processes with this name and this working folder, sorted by id: launchers start ranks in this order.
    is_wanted: a further condition on a process, given its entry in /proc."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text() == f"{name}\n" and (entry / "cwd").resolve() == folder.resolve():
                found += [int(entry.name)] if is_wanted(entry) else []
        except OSError:
            continue  # it has ended
    return sorted(found)


def end_process(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Started:
    """For tests with a folder that start commands and continue meanwhile. No command outlives its test."""

    def started(self, command, environment):
        run = subprocess.Popen(list(map(str, command)), env=environment, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        self.addCleanup(self.stop, run)
        return run

    def stop(self, run):
        with run:
            run.kill()

    def end(self, run):
        out, said = run.communicate(timeout=120)
        self.assertNotIn("clique: launch ", said)
        return run.returncode, out, said


def errors_in(said):
    return [text for text in said.splitlines() if text.startswith("clique: error: ")]


def errors(done):
    return errors_in(done.stderr)


def free_port():
    """A port that the system does not assign by itself (ip_local_port_range)."""
    while True:
        port = random.randrange(20000, 32768)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


SILENT = r"(rank (\d+) on \S+): nothing heard for 5 s((?:, nor from rank \d+ on \S+)*)"


def missed(said):
    """For each line "nothing heard": the rank that it reports, the other ranks that it names, and the text that
    follows."""
    for found in re.finditer(rf"{SILENT}(.*)$", said, re.M):
        yield int(found[2]), {int(rank) for rank in re.findall(r"nor from rank (\d+)", found[3])}, found[4]


def check_missed(test, said, lost):
    """Checks that all others named the struck rank. A rank that hears nobody, because the struck rank holds its queue,
    names all. Returns the ranks that reported."""
    by = set()
    for rank, others, end in missed(said):
        test.assertIn(lost, others | {rank}, said)
        by |= {int(knows) for knows in re.findall(r"\(as rank (\d+) on", end)}
    return by


def check_code(test, mpi, code, right, said):
    """When MPICH's launcher sees the first rank end, it kills the remaining ranks, and exits with a code of its own."""
    if mpi == "mpich":
        test.assertNotEqual(code, 0, said)
    else:
        test.assertIn(code, right, said)


def check_refused(test, mpi, done, code, words):
    """Bad input causes one line, from one rank."""
    check_code(test, mpi, done.returncode, (code,), done.stderr)
    lines = errors(done)
    test.assertEqual(len(lines), 1, done.stderr)
    for word in words:
        test.assertIn(word, lines[0])
