#!/usr/bin/env python3
"""The programs among their surroundings, as docs/contract.md has it: standard streams that are closed or full, signals
that are sent, ignored, or stop the process.

usage: check_process.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin").resolve()
CLIQUE = str(BIN / "clique")
SMALL = ["--model", "mlp", "--data", "synthetic", "--devices", "pocl:0"]
LIMIT_S = 240


def errors_in(text):
    return [line for line in text.splitlines() if line.startswith("clique: error: ")]


class Streams(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def run_with_closed(self, descriptors, *args):
        """The exit code of a command that starts with these descriptors closed."""
        def close():
            for descriptor in descriptors:
                os.close(descriptor)
        return subprocess.run([CLIQUE, *map(str, args)], preexec_fn=close, cwd=self.folder, timeout=LIMIT_S,
                              **{name: subprocess.DEVNULL for number, name in enumerate(("stdin", "stdout", "stderr"))
                                 if number not in descriptors}).returncode

    def test_closed_streams_of_train(self):
        """What is told to people goes nowhere, and not into the file that is opened first."""
        for closed in ([0], [1], [2], [0, 1, 2]):
            with self.subTest(closed=closed):
                log = self.folder / "run.jsonl"
                self.assertEqual(self.run_with_closed(closed, "train", *SMALL, "--take", 640, "--epochs", 1, "--log", log), 0)
                rows = [json.loads(line) for line in log.read_text().splitlines()]
                self.assertEqual([row["step"] for row in rows], list(range(1, 11)))

    def test_closed_streams_of_bench(self):
        for closed in ([1], [2], [0, 1, 2]):
            with self.subTest(closed=closed):
                self.assertEqual(self.run_with_closed(closed, "bench", "launch", "-n", 3, "--devices", "pocl:0", "--json", "r.json", "--csv", "r.csv"), 0)
                result = json.loads((self.folder / "r.json").read_text())
                self.assertIs(result["complete"], True)
                self.assertEqual(len((self.folder / "r.csv").read_text().splitlines()), 1 + len(result["rows"]))

    def test_full_stdout(self):
        """Whatever a command is asked to print on stdout: where it cannot, one line says so."""
        self.assertTrue(os.path.exists("/dev/full"), "this test needs a device that is always full")
        train = ["train", *SMALL, "--take", "64", "--steps", "1", "--no-test"]
        commands = [["--help"], ["help"], ["--version"], ["train", "--help"], ["compare", "--help"], ["devices"], ["devices", "--json"],
                    ["plan", "--model", "mlp", "--devices", "pocl:0"], ["plan", "--model", "mlp", "--devices", "pocl:0", "--json"], train,
                    [*train, "--json"], ["doctor", "--devices", "pocl:0", "--json"], ["bench", "--help"], ["bench", "launch", "--help"],
                    ["bench", "launch", "-n", "3", "--devices", "pocl:0"]]
        for command in commands:
            with self.subTest(command=" ".join(command)), open("/dev/full", "w") as full:
                result = subprocess.run([CLIQUE, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
                errors = errors_in(result.stderr)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertEqual(len(errors), 1, result.stderr)
                self.assertIn("tandard output", errors[0])


class Signals(unittest.TestCase):
    def test_interrupted_during_validation(self):
        """Ctrl-C ends a run soon, also while it tests what it has trained: here that would take much longer."""
        screen, terminal = pty.openpty()
        command = [CLIQUE, "train", "--model", "cnn", "--data", "synthetic:28x28/10/240000", "--devices", "pocl:0", "--steps", "1"]
        with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, text=True) as process:
            os.close(terminal)
            shown = b""
            while b"testing" not in shown:
                try:
                    shown += os.read(screen, 4096)
                except OSError:  # the end of a terminal
                    break
            process.send_signal(signal.SIGINT)
            errors = errors_in(process.stderr.read())
            self.assertEqual(process.wait(LIMIT_S), 130)
        os.close(screen)
        self.assertEqual(errors, ["clique: error: interrupted after step 1"])

    def test_stopped(self):
        """A training that is stopped for longer than its deadline (Ctrl-Z) goes on."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "run.jsonl")
            options = ["--model", "mlp", "--data", "synthetic", "--take", "6400", "--devices", "pocl:0,pocl:1", "--no-test"]
            warm = subprocess.run([CLIQUE, "train", *options, "--steps", "2"], capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(warm.returncode, 0, warm.stderr)  # what is to be compiled is, and nobody is late because of it
            command = [CLIQUE, "train", *options, "--epochs", "20", "--log", str(log), "--deadline", "2"]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
                while process.poll() is None and not (log.exists() and log.stat().st_size > 0):
                    time.sleep(0.01)
                process.send_signal(signal.SIGSTOP)
                time.sleep(3)
                process.send_signal(signal.SIGCONT)
                errors = process.stderr.read()
                self.assertEqual((process.wait(LIMIT_S), errors), (0, ""))
            self.assertEqual(len(log.read_text().splitlines()), 20 * 100)

    def test_wrong_deadlines(self):
        for command in (["train", *SMALL], ["bench", "all_reduce"], ["bench", "train"]):
            for value in ("0", "-1", "nan", "1e7"):
                with self.subTest(command=command, value=value):
                    result = subprocess.run([CLIQUE, *command, "--deadline", value], capture_output=True, text=True, timeout=LIMIT_S)
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertEqual(errors_in(result.stderr), [f"clique: error: --deadline '{value}': expected seconds, from 0.001 to 1000000"])

    def test_ignored_signals_stay_ignored(self):
        """As nohup and shells start what runs in the background."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name), tempfile.TemporaryDirectory() as folder:
                log = pathlib.Path(folder, "run.jsonl")
                command = [CLIQUE, "train", *SMALL, "--take", "6400", "--epochs", "30", "--no-test", "--log", str(log)]
                with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: signal.signal(number, signal.SIG_IGN)) as process:
                    sent = 0
                    while process.poll() is None:
                        if log.exists() and log.stat().st_size > 0:  # it trains
                            process.send_signal(number)
                            sent += 1
                        time.sleep(0.02)
                    self.assertEqual((process.returncode, process.stderr.read()), (0, ""))
                self.assertGreater(sent, 10)
                self.assertEqual(len(log.read_text().splitlines()), 30 * 100)


if __name__ == "__main__":
    unittest.main(verbosity=1)
