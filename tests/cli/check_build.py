#!/usr/bin/env python3
"""Tests drivers' compilers that do not end (docs/contract.md, --build-deadline), signals during a build, and how often
PoCL's compiler runs.

usage: check_build.py BIN_FOLDER LAYER     (the environment chooses the OpenCL drivers; LAYER: clq_hang_layer)
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support

LAYER = str(pathlib.Path(sys.argv.pop(2)).resolve())
CLIQUE = str(pathlib.Path(sys.argv.pop(1)).resolve() / "clique")
MODELS = tempfile.TemporaryDirectory()
LEAST = support.put_least(MODELS.name)  # the model's step compiles quickly
TRAIN = ["train", "--model", LEAST, "--data", "synthetic:28x28/10/192", "--devices", "pocl:0", "--steps", "3", "--no-test"]
COLLECTIVE = ["all_reduce", "--devices", "pocl:0,pocl:1", "--transport", "staged"]  # runs kernels, also on CPUs
OF_COLLECTIVES = {"CLQ_HANG_OF": "comm_combine"}
LIMIT_S = 600
# The caches hold the programs that do not hang, so that only the step's program is compiled within these deadlines.
# This takes half a second, or no time if that program's compiler hangs.
DEADLINES_S = {"build": 3, "launch": 8}
# On a machine that is busy with other tests, everything takes long. The contract says 1 s.
GENEROUS_S = 30


class Builds(support.InFolder):
    @classmethod
    def setUpClass(cls):
        """Fills caches with a step's single launches, as a training with --trace builds them. The step's own program
        must not be in the caches: Clique watches no launch of a program from the cache."""
        warm = tempfile.TemporaryDirectory()
        cls.addClassCleanup(warm.cleanup)
        cls.warm = pathlib.Path(warm.name) / "caches"
        subprocess.run([CLIQUE, *TRAIN, "--trace", f"{warm.name}/trace.json"], env=cls.caches(cls.warm), capture_output=True,
                       timeout=LIMIT_S, check=True)

    @staticmethod
    def caches(folder):
        return os.environ | {"CLIQUE_CACHE_DIR": str(folder / "cache"), "POCL_CACHE_DIR": str(folder / "pocl"), "OPENCL_LAYERS": LAYER}

    def own(self, hang):
        """The environment of a command that hangs, with separate caches. They are empty if every build hangs."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / hang
        if not hang.endswith("-all"):
            shutil.copytree(self.warm, folder)
        return self.caches(folder) | {"CLQ_HANG": hang, "CLQ_HANG_EXIT": "1"}

    @staticmethod
    def run_in(environment, *args):
        return subprocess.run([CLIQUE, *args], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    def test_pocl_compiles_once(self):
        """PoCL compiles no kernel for each launch size, unless the user asks for it."""
        caches = self.caches(self.folder)
        caches.pop("POCL_WORK_GROUP_SPECIALIZATION", None)
        for setting, launched in (({}, False), ({"POCL_WORK_GROUP_SPECIALIZATION": "1"}, True)):
            subprocess.run([CLIQUE, *TRAIN], env=caches | setting, capture_output=True, timeout=LIMIT_S, check=True)
            kernels = [str(path) for path in pathlib.Path(caches["POCL_CACHE_DIR"]).rglob("*.so")]
            self.assertTrue(any("0-0-0" in path for path in kernels))
            self.assertEqual(any("goffs0" in path for path in kernels), launched)

    def test_a_step_does_without_its_program(self):
        for hang in ("build", "launch"):
            with self.subTest(hang=hang):
                environment = self.own(hang)
                first = self.run_in(environment, *TRAIN, "--build-deadline", str(DEADLINES_S[hang]))
                self.assertEqual(first.returncode, 0, first.stderr)
                self.assertEqual(len(first.stderr.splitlines()), 1, first.stderr)
                for part in ("clique: warning: sequence.cl: ", f"build deadline of {DEADLINES_S[hang]} s", "starting again"):
                    self.assertIn(part, first.stderr)
                self.assertNotIn("1 launch a step", first.stdout)
                again = self.run_in(environment, *TRAIN)  # else takes 120 s, and reports it
                self.assertEqual((again.returncode, again.stderr), (0, ""))
                self.assertNotIn("1 launch a step", again.stdout)

    def test_what_cannot_be_done_without(self):
        for hang in ("build-all", "launch-all"):
            with self.subTest(hang=hang):
                run = self.run_in(self.own(hang), *TRAIN, "--build-deadline", "1")
                self.assertEqual(run.returncode, 4, run.stderr)
                errors = [line for line in run.stderr.splitlines() if line.startswith("clique: error: ")]
                self.assertEqual(len(errors), 1, run.stderr)
                self.assertIn("did not end within the build deadline of 1 s", errors[0])

    def test_a_benchmark_ends(self):
        """A benchmark ends although the driver's exit handlers wait for its compiler."""
        for hang, what in (("build-all", ["step", "--devices", "pocl:0"]), ("build-all", ["launch", "--devices", "pocl:0"]),
                           ("build", COLLECTIVE)):
            with self.subTest(what=what):
                run = self.run_in(self.own(hang) | OF_COLLECTIVES, "bench", *what, "--build-deadline", "1")
                self.assertEqual(run.returncode, 4, run.stderr)
                errors = [line for line in run.stderr.splitlines() if line.startswith("clique: error: ")]
                self.assertEqual(len(errors), 1, run.stderr)
                self.assertIn("did not end within the build deadline of 1 s", errors[0])

    def test_a_command_ends_that_cannot_keep_its_programs(self):
        """The training is done. PoCL hangs when Clique asks for the step's binary, and would hang when the process
        exits."""
        run = self.run_in(self.own("binary"), *TRAIN, "--build-deadline", "15")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        for part in ("clique: warning: a compiled program is not kept: sequence.cl: ", "build deadline of 15 s"):
            self.assertIn(part, run.stderr)

    def test_a_signal_ends_who_compiles(self):
        commands = (("build", {}, TRAIN), ("launch", {}, TRAIN), ("build", OF_COLLECTIVES, ["bench", *COLLECTIVE]))
        for hang, of, command in commands:
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(hang=hang, command=command[0], signal=number):
                    hangs = self.folder / f"{hang} {command[0]} {number.name}"
                    run = subprocess.Popen([CLIQUE, *command], env=self.own(hang) | of | {"CLQ_HANG_TOLD": str(hangs)},
                                           stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
                    until = time.monotonic() + LIMIT_S
                    while not hangs.exists() and run.poll() is None and time.monotonic() < until:
                        time.sleep(0.02)
                    self.assertTrue(hangs.exists())
                    run.send_signal(number)
                    sent = time.monotonic()
                    code = run.wait(LIMIT_S)
                    self.assertLess(time.monotonic() - sent, GENEROUS_S)
                    self.assertEqual(code if code >= 0 else 128 - code, 128 + number)


if __name__ == "__main__":
    unittest.main()
