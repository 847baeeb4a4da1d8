#!/usr/bin/env python3
"""Tests how the programs treat their surroundings (docs/contract.md): standard streams that are closed or full; signals
that are sent, ignored, or stop the process.

usage: check_process.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import contextlib
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

import support

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin").resolve()
CLIQUE = str(BIN / "clique")
SMALL = ["--model", "mlp", "--data", "synthetic:28x28/10/1920", "--devices", "pocl:0", *support.APART]
LIMIT_S = 240


def errors_in(text):
    return [line for line in text.splitlines() if line.startswith("clique: error: ")]


class Streams(support.InFolder):
    def run_with_closed(self, descriptors, *args):
        """The exit code of a command that starts with these descriptors closed."""
        def close():
            for descriptor in descriptors:
                os.close(descriptor)
        return subprocess.run([CLIQUE, *map(str, args)], preexec_fn=close, cwd=self.folder, timeout=LIMIT_S,
                              **{name: subprocess.DEVNULL for number, name in enumerate(("stdin", "stdout", "stderr"))
                                 if number not in descriptors}).returncode

    def test_closed_streams_of_train(self):
        """Messages for people go nowhere. In particular, they do not go into the file that is opened first."""
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
        """Whatever a command must print on stdout: if it cannot, one line says so."""
        self.assertTrue(os.path.exists("/dev/full"), "this test needs a device that is always full")
        train = ["train", *SMALL, "--take", "64", "--steps", "1", "--no-test"]
        commands = [["--help"], ["help"], ["--version"], ["train", "--help"], ["train", "--help=all"], ["help", "models"], ["compare", "--help"],
                    ["devices"], ["devices", "--json"],
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
    @contextlib.contextmanager
    def endless(self, options, log, *more, **surroundings):
        """A training that runs until it is ended, on a machine of any speed."""
        command = [CLIQUE, "train", *options, "--epochs", "1000000", "--log", str(log), *more]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **surroundings) as process:
            try:
                self.wait_for_steps(process, log, 1)
                yield process
            finally:
                process.kill()

    def steps(self, log):
        return log.read_bytes().count(b"\n") if log.exists() else 0

    def wait_for_steps(self, process, log, count):
        limit = time.monotonic() + LIMIT_S
        while self.steps(log) < count:
            self.assertIsNone(process.poll(), "the training has ended")
            self.assertLess(time.monotonic(), limit, "the training does not go on")
            time.sleep(0.01)

    def end(self, process, log, number=signal.SIGINT):
        process.send_signal(number)
        errors = process.stderr.read()
        self.assertEqual(process.wait(LIMIT_S), 128 + number, errors)
        self.assertRegex(errors, r"\Aclique: error: interrupted after step \d+\n\Z")
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual([row["step"] for row in rows], list(range(1, int(errors.split()[-1]) + 1)))  # no line is lost

    def test_interrupted_during_validation(self):
        """Ctrl-C ends a run soon, also while the run tests the trained model. Here the test itself would take much
        longer."""
        screen, terminal = pty.openpty()
        command = [CLIQUE, "train", "--model", "cnn", "--data", "synthetic:28x28/10/60000", "--devices", "pocl:0", "--steps", "1",
                   "--batch", "1", *support.APART]  # seconds of testing; between its progress reports, the run notices the signal
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

    def test_interrupted_while_it_generates(self):
        """Commands that have nothing to clean up report the reason for their end, too."""
        with tempfile.TemporaryDirectory() as folder:
            book, weights = pathlib.Path(folder, "book.txt"), str(pathlib.Path(folder, "w.safetensors"))
            book.write_bytes(b"abcdefgh" * 400)
            model = ["--model", "gpt:layers=1,width=16,heads=2,context=8", "--devices", "pocl:0", *support.APART]
            trained = subprocess.run([CLIQUE, "train", *model, "--data", f"text:{book}", "--batch", "32", "--steps", "1", "--no-test",
                                      "--save", weights], capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            for number in (signal.SIGINT, signal.SIGTERM):
                command = [CLIQUE, "generate", *model, "--weights", weights, "--prompt", "a", "--tokens", "1000000000000"]
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                    self.assertEqual(len(process.stdout.read(1)), 1)
                    process.send_signal(number)
                    process.stdout.read()
                    errors = errors_in(process.stderr.read().decode())
                    self.assertEqual(process.wait(LIMIT_S), 128 + number, errors)
                    self.assertEqual(errors, ["clique: error: interrupted"])

    def test_stopped(self):
        """A training continues after it was stopped (Ctrl-Z) for longer than its deadline."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "run.jsonl")
            options = ["--model", "mlp", "--data", "synthetic:28x28/10/1920", "--devices", "pocl:0,pocl:1", "--no-test", *support.APART]
            warm = subprocess.run([CLIQUE, "train", *options, "--steps", "2"], capture_output=True, text=True, timeout=LIMIT_S)
            # Everything is compiled now, so that compiling makes no device late.
            self.assertEqual(warm.returncode, 0, warm.stderr)
            with self.endless(options, log, "--deadline", "2") as process:
                process.send_signal(signal.SIGSTOP)
                time.sleep(3)
                stopped = self.steps(log)
                process.send_signal(signal.SIGCONT)
                self.wait_for_steps(process, log, stopped + 20)
                self.end(process, log)

    def test_wrong_deadlines(self):
        for command in (["train", *SMALL], ["bench", "all_reduce"], ["bench", "train"]):
            for value in ("0", "-1", "nan", "1e7"):
                with self.subTest(command=command, value=value):
                    result = subprocess.run([CLIQUE, *command, "--deadline", value], capture_output=True, text=True, timeout=LIMIT_S)
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertEqual(errors_in(result.stderr), [f"clique: error: --deadline '{value}': expected seconds, from 0.001 to 1000000"])

    def test_ignored_signals_stay_ignored(self):
        """nohup and shells start background processes with ignored signals."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name), tempfile.TemporaryDirectory() as folder:
                log = pathlib.Path(folder, "run.jsonl")
                with self.endless([*SMALL, "--no-test"], log,
                                  preexec_fn=lambda: signal.signal(number, signal.SIG_IGN)) as process:
                    for _ in range(10):
                        process.send_signal(number)
                        self.wait_for_steps(process, log, self.steps(log) + 5)
                    self.end(process, log, signal.SIGINT + signal.SIGTERM - number)


if __name__ == "__main__":
    unittest.main(verbosity=1)
