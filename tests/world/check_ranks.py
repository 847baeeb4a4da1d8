"""Tests worlds under a launcher of MPI: check_ranks.py FOLDER_OF_PROGRAMS openmpi|mpich. All processes are on this
machine."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from launch import ENVIRONMENT, HOST, LAUNCHERS, SILENT, check_missed

PROGRAMS, ENGINE = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
OTHER = {"openmpi": "mpich", "mpich": "openmpi"}


def command(launcher, ranks, *arguments, options=()):
    return [*LAUNCHERS[launcher], *options, "-n", str(ranks), PROGRAMS / "world_ranks", *arguments]


class Ranks(unittest.TestCase):
    def finish(self, *arguments, **variables):
        return subprocess.run(command(*arguments), env=ENVIRONMENT | variables, capture_output=True, text=True, timeout=120)

    def refused(self, *arguments, **variables):
        """The output of processes that end with an error. They write it to a file, because a launcher that ends all
        processes may lose their last output."""
        with tempfile.TemporaryDirectory() as folder:
            errors = pathlib.Path(folder) / "errors"
            *launch, program, word = command(*arguments)
            done = subprocess.run([*launch, "sh", "-c", 'exec "$0" "$@" 2>>"$CLQ_TEST_ERRORS"', program, word],
                                  env=ENVIRONMENT | variables | {"CLQ_TEST_ERRORS": str(errors)}, capture_output=True, text=True, timeout=120)  # fmt: skip
            self.assertNotEqual(done.returncode, 0)
            return errors.read_text()

    def test_works(self):
        for ranks in (2, 3, 4):
            done = self.finish(ENGINE, ranks, "works")
            self.assertEqual(done.returncode, 0, done.stderr)
            wanted = [f"{r} of {ranks}: rank {r} on {HOST}" for r in range(ranks)]
            self.assertEqual(sorted(done.stdout.splitlines()), wanted)

    def test_one_process_is_alone(self):
        done = self.finish(ENGINE, 1, "works")
        self.assertEqual((done.returncode, done.stdout), (0, "0 of 1: rank 0\n"), done.stderr)

    def test_alone_without_a_launcher(self):
        done = subprocess.run([PROGRAMS / "world_ranks", "works"], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "0 of 1: rank 0\n"), done.stderr)

    # Each process would believe that it is alone.
    def test_launcher_of_another_mpi(self):
        said = self.refused(ENGINE, 2, "works", CLIQUE_ENGINE=OTHER[ENGINE])
        self.assertIn("started 2 processes", said)
        self.assertIn("this launcher is another MPI's", said)

    def test_engine_that_is_not_there(self):
        self.assertIn("the engine /nowhere/engine.so cannot be loaded", self.refused(ENGINE, 2, "works", CLIQUE_ENGINE="/nowhere/engine.so"))

    def strike(self, number, options):
        """Sends a signal to rank 1 of 3. Returns the output of the others."""
        run = subprocess.Popen(command(ENGINE, 3, "meets", options=options), env=ENVIRONMENT, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
        processes, said, struck = {}, {}, None
        try:
            for line in run.stdout:
                if ready := re.match(r"READY (\d) (\d+)", line):
                    processes[int(ready[1])] = int(ready[2])
                if ended := re.match(r"(\d) ended by: (.*)", line):
                    said[int(ended[1])] = (ended[2], time.monotonic() - struck)
                if len(processes) == 3 and struck is None:
                    struck = time.monotonic()
                    os.kill(processes[1], number)
                if len(said) == 2:
                    break
        finally:
            for process in processes.values():
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            run.kill()
            run.communicate(timeout=60)
        return said

    def check_missed(self, said):
        self.assertEqual(sorted(said), [0, 2])
        for detail, seconds in said.values():
            self.assertRegex(detail, f"^{SILENT}$")
            check_missed(self, detail, 1)
            self.assertLess(seconds, 20)  # 4 to 5 on a quiet machine

    def test_stopped_rank_is_missed(self):
        self.check_missed(self.strike(signal.SIGSTOP, ()))

    # MPICH's launcher ends the other ranks itself.
    @unittest.skipIf(ENGINE == "mpich", "the launcher ends all ranks")
    def test_killed_rank_is_missed(self):
        self.check_missed(self.strike(signal.SIGKILL, ("--enable-recovery",)))


if __name__ == "__main__":
    unittest.main(verbosity=1)
