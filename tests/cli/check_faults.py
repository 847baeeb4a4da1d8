#!/usr/bin/env python3
"""Runs the commands while one allocation or OpenCL call fails, or all from one on.

Whatever fails, a command ends by itself and in time, with an exit code of the contract. If the code is not 0, the
command prints one line with the reason, and its output files are complete or absent. If the code is 0, the command's
results are the same as without a failure. The command leaves no temporary files.

Commands have much of their work in common: they read options, and open devices. So only some commands fail at all
places (EARLY, PLACES). The other commands fail at every second one of PLACES. With CLQ_TEST_WHOLE=1 in the environment,
all commands fail at all places.

usage: check_faults.py TESTS_FOLDER [--every K | --whole]     (--whole: every allocation and every call, once and with all
after it; takes hours. --every K: each K-th of them)
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import support

EVERY = 0
if "--whole" in sys.argv:
    EVERY = 1
    sys.argv.remove("--whole")
if "--every" in sys.argv:
    at = sys.argv.index("--every")
    EVERY = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
TESTS = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/tests")
LIMIT_S = 120  # for one command, on a busy machine
DEVICE = ["--devices", "pocl:0"]
BOTH = ["--devices", "pocl:0,pocl:1"]
FEW = "synthetic:28x28/10/64"  # making the 60000 samples of `synthetic` takes longer than the rest of a command
# How far into a command's allocations or calls the short form makes one fail, besides the first ones.
EARLY, PLACES = 3, (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0)
LONG = os.environ.get("CLQ_TEST_WHOLE") == "1"


class Ending:
    """How a command ended, and which files it left in its folder."""

    def __init__(self, process, folder):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}
        counts = self.files.pop("counts", b"0 0").split()
        self.allocations, self.calls = int(counts[0]), int(counts[1])
        self.errors = [line for line in self.err.splitlines() if line.startswith("clique: error: ")]


def run(command, faults=None):
    program, *arguments = command
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = os.environ | {"CLQ_FAULT_COUNTS": str(folder / "counts")} | (faults or {})
        process = subprocess.run([str(TESTS / program), *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, errors="replace", timeout=LIMIT_S)
        return Ending(process, folder)


def orders(count, turn):
    """Which of `count` allocations or calls fail: "N" only the N-th, "N+" the N-th and all later ones. turn: None for
    EARLY and all of PLACES; 0 or 1 for every second one of PLACES, from the first or the second one on."""
    if EVERY:
        return [f"{n}{more}" for n in range(1, count + 1, EVERY) for more in ("", "+")]
    early, places = (EARLY, PLACES) if LONG or turn is None else (0, PLACES[turn::2])
    some = sorted({n for n in range(1, early + 1) if n <= count} | {max(1, round(place * count)) for place in places if count})
    return [f"{n}{'+' if i % 2 else ''}" for i, n in enumerate(some)]


def rows(count, columns):
    """A result of the bench suite, as clique compare and report accept it."""
    return {"schema": "clique-bench/1", "bench": "all_reduce", "host": {"system": "Linux", "cores": 2}, "devices": [{"index": 0, "driver": "pocl"}],
            "command": "clique-bench all_reduce", "complete": True,
            "rows": [{"bytes": 1024 << i, "count": 256 << i, "algo": "ring", "transport": "staged", "in_place": bool(i % 2),
                      "time_us": {"min": 9.0, "p50": 10.0 + columns * i, "p99": 12.0 + columns * i}, "busbw_gbps": 1.0 + i, "wrong": 0,
                      "limit_gbps": 5.0} for i in range(count)]}


def matrix(count):
    return rows(0, 0) | {"bench": "p2p", "rows": [{"what": "one-way", "from": i, "to": k, "gbps": 1.5 + i + k if i != k else None,
                                                   "reason": None if i != k else "the same"} for i in range(count) for k in range(count)]}


def step(count):
    return rows(0, 0) | {"bench": "step", "rows": [{"label": "pocl:0", "model": "mlp", "segment": "forward", "layer": "dense", "launch": f"{i}",
                                                    "us": 10.5, "share": 1.0 / (i + 2), "limit": "memory"} for i in range(count)]}


def training(count):
    return rows(0, 0) | {"bench": "train", "rows": [{"model": "mlp", "replicas": n, "batch": 64, "images_per_s": 1000.5 * n, "step_ms": 1.5,
                                                     "efficiency": 1.0} for n in range(1, count + 1)]}


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name, content in (("model", support.synchronized_model()), ("a", rows(4, 1)), ("b", rows(4, 2)), ("matrix", matrix(2)), ("train", training(2)), ("step", step(3))):
            pathlib.Path(cls.folder.name, f"{name}.json").write_text(json.dumps(content))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def given(self, name):
        return str(pathlib.Path(self.folder.name, name))

    def check(self, ending, codes, same, whole):
        """codes: the allowed exit codes of a failure. same(ending): fails if a command that exits with 0 gave an
        incomplete result. whole: {file: function that reads it, and fails if it is incomplete}, for files that may
        exist after a failure."""
        self.assertGreaterEqual(ending.code, 0, f"ended by signal {-ending.code}")
        self.assertEqual([name for name in ending.files if name.startswith(".")], [], "something was left behind")
        if ending.code == 0:
            self.assertEqual(ending.errors, [])
            same(ending)
            return
        self.assertIn(ending.code, codes)
        self.assertEqual(len(ending.errors), 1, "not one line that tells the failure")
        self.assertGreater(len(ending.errors[0]), len("clique: error: ") + 10)
        for name, content in ending.files.items():
            self.assertIn(name, whole, "a file was left by a command that failed")
            whole[name](content)

    def walk(self, command, same, whole=None, turn=None):
        """same(ending, usual): fails if a command that exits with 0 gave less than `usual`. turn: the places at which
        allocations fail (see orders). If it is not None, calls fail at the other places."""
        usual = run(command)
        self.assertEqual((usual.code, usual.errors), (0, []), usual.err)
        self.assertGreater(usual.allocations, 0)
        other = None if turn is None else 1 - turn
        kinds = [("CLQ_FAULT_ALLOCATION", usual.allocations, turn, (1,)), ("CLQ_FAULT_CALL", usual.calls, other, (1, 4))]
        jobs = [({kind: order}, codes) for kind, count, its_turn, codes in kinds for order in orders(count, its_turn)]
        failed = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for (faults, codes), ending in zip(jobs, pool.map(lambda job: self.attempt(command, job[0]), jobs)):
                with self.subTest(command=" ".join(command), **faults):
                    if isinstance(ending, Exception):
                        self.fail(f"did not end within {LIMIT_S} s")
                    try:
                        self.check(ending, codes, lambda e: same(e, usual), whole or {})
                    except AssertionError as failure:
                        raise AssertionError(f"{failure}\nexit {ending.code}\nfiles {sorted(ending.files)}\n{ending.err[-3000:]}") from None
                failed += not isinstance(ending, Exception) and ending.code != 0
        self.assertGreater(failed, 0, "nothing of what was to fail did")
        again = run(command)
        self.assertEqual(again.code, 0, "what a failure left in the cache harms a later run")
        same(again, usual)

    @staticmethod
    def attempt(command, faults):
        try:
            return run(command, faults)
        except subprocess.TimeoutExpired as late:
            return late

    # ---- complete outputs ----

    def same_text(self, ending, usual):
        self.assertEqual((ending.out, sorted(ending.files)), (usual.out, sorted(usual.files)))
        for name, content in ending.files.items():  # does not search for the difference, because pages are long
            self.assertTrue(content == usual.files[name], f"{name} has {len(content)} bytes of {len(usual.files[name])}, or others")

    def same_devices(self, ending, usual):
        """A device that fails its test is listed with the reason. Properties that the device could not report may be
        missing."""
        now, then = json.loads(ending.out)["devices"], json.loads(usual.out)["devices"]
        for device in now:
            self.assertEqual(list(device), list(then[0]))
            self.assertEqual(device["usable"], device["reason"] == "")

    def same_plan(self, ending, usual):
        """If a driver does not report a property of its device, launches may differ, but none may be missing."""
        now, then = json.loads(ending.out), json.loads(usual.out)
        self.assertEqual([list(now), now["variables"], now["param_bytes"]], [list(then), then["variables"], then["param_bytes"]])
        if ending.calls == usual.calls:
            self.assertEqual(len(now["launches"]), len(then["launches"]))
        self.assertEqual({launch["segment"] for launch in now["launches"]}, {launch["segment"] for launch in then["launches"]})

    def same_training(self, ending, usual):
        now, then = json.loads(ending.out), json.loads(usual.out)
        self.assertEqual(list(now), list(then))
        for key in ("model", "replicas", "global_batch", "devices"):
            if key != "devices" or "is not used: " not in ending.err:
                self.assertEqual(now[key], then[key])
        for key in ("loss", "accuracy", "val_loss", "val_accuracy"):
            self.assertAlmostEqual(now["epochs"][0][key], then["epochs"][0][key], places=5)
        for key in ("confusion_matrix", "val_confusion_matrix"):  # if it was requested
            self.assertEqual(now["epochs"][0].get(key), then["epochs"][0].get(key))
        self.assertEqual(sorted(ending.files), sorted(usual.files))
        self.assertEqual(len(ending.files["w.safetensors"]), len(usual.files["w.safetensors"]))
        self.assertEqual(len(ending.files["log.jsonl"].splitlines()), 2)
        for line in ending.files["log.jsonl"].splitlines():
            self.assertEqual(list(json.loads(line)), ["step", "epoch", "loss", "grad_norm", "lr", "samples", "ms"])
        json.loads(ending.files["trace.json"])

    def bench_file(self, content):
        result = json.loads(content)
        self.assertEqual(result["schema"], "clique-bench/1")
        self.assertGreater(len(result["rows"]), 0)
        times = [row["time_us"]["p50"] if "time_us" in row else row["us"] for row in result["rows"]]
        self.assertTrue(result["complete"] is False or all(times))

    def csv_file(self, content):
        self.assertTrue(content.endswith(b"\n"))
        self.assertEqual(len({line.count(b",") for line in content.splitlines() if b'"' not in line}), 1)

    def same_bench(self, ending, usual):
        """All rows are there, each with a measurement or the reason for its absence."""
        now, then = json.loads(ending.files["r.json"]), json.loads(usual.files["r.json"])
        self.assertEqual(list(now), list(then))
        self.assertIs(now["complete"], True)
        self.assertEqual(len(now["rows"]), len(then["rows"]))
        for row, like in zip(now["rows"], then["rows"]):
            self.assertEqual(list(row), list(like))
            self.assertTrue(row["time_us"]["p50"] is not None or row.get("reason"), row)
            self.assertIn(row.get("wrong", 0), (0, None))
        self.assertEqual(len(ending.files["r.csv"].splitlines()), len(usual.files["r.csv"].splitlines()))

    def same_step(self, ending, usual):
        """A step that could not be measured is one row, with the reason."""
        now, then = json.loads(ending.files["r.json"]), json.loads(usual.files["r.json"])
        self.assertIs(now["complete"], True)
        if now["rows"][-1]["reason"] is None:
            self.assertEqual([(r["layer"], r["launch"]) for r in now["rows"]], [(r["layer"], r["launch"]) for r in then["rows"]])
            self.assertTrue(all(row["us"] is not None for row in now["rows"]))
        else:
            self.assertEqual([(r["segment"], r["us"]) for r in now["rows"]], [("step", None)])

    # ---- commands ----

    def test_devices(self):
        self.walk(["clique_faulty", "devices", "--json"], self.same_devices)

    def test_plan(self):
        self.walk(["clique_faulty", "plan", "--model", "mlp", "--batch", "8", "--json", *DEVICE], self.same_plan, turn=0)

    def test_machines(self):
        self.walk(["clique_faulty", "plan", "--machines", "4", "--devices-per-machine", "2", "--model", "mlp", "--compute-ms", "1,2", "--json"],
                  self.same_text)

    def test_train(self):
        self.walk(["clique_faulty", "train", "--model", "mlp", "--data", FEW, "--batch", "8", "--steps", "2", "--json",
                   "--metrics", "accuracy,confusion_matrix", "--save", "w.safetensors", "--log", "log.jsonl", "--trace", "trace.json", *BOTH],
                  self.same_training,
                  {"log.jsonl": lambda content: None, "w.safetensors": lambda content: self.assertEqual(len(content) > 4 * 101770, True),
                   "trace.json": json.loads}, turn=1)

    def test_train_with_synchronized_statistics(self):
        """Replicas wait for each other within their steps."""
        self.walk(["clique_faulty", "train", "--model", self.given("model.json"), "--data", FEW, "--batch", "8",
                   "--steps", "2", "--json", "--save", "w.safetensors", "--log", "log.jsonl", "--trace", "trace.json", *BOTH], self.same_training,
                  {"log.jsonl": lambda content: None, "w.safetensors": lambda content: self.assertEqual(len(content) > 4 * 9600, True),
                   "trace.json": json.loads}, turn=0)

    def test_bench_launch(self):
        self.walk(["clique_bench_faulty", "launch", "-n", "3", "-w", "1", "--json", "r.json", "--csv", "r.csv", *DEVICE], self.same_bench,
                  {"r.json": self.bench_file, "r.csv": self.csv_file}, turn=1)

    def test_bench_step(self):
        self.walk(["clique_bench_faulty", "step", "--models", "mlp", "--batch", "8", "-n", "2", "-w", "1", "--json", "r.json", "--csv", "r.csv", *DEVICE],
                  self.same_step, {"r.json": self.bench_file, "r.csv": self.csv_file}, turn=0)

    def test_bench_all_reduce(self):
        self.walk(["clique_bench_faulty", "all_reduce", "-b", "4K", "-e", "64K", "-f", "16", "-n", "2", "-w", "1", "--json", "r.json", "--csv", "r.csv",
                   *BOTH], self.same_bench, {"r.json": self.bench_file, "r.csv": self.csv_file}, turn=1)

    def test_compare(self):
        files = [self.given("a.json"), self.given("b.json")]
        self.walk(["clique_faulty", "compare", *files], self.same_text)
        self.walk(["clique_faulty", "compare", "--json", *files], self.same_text, turn=0)

    def test_report(self):
        files = [self.given(f"{name}.json") for name in ("a", "b", "matrix", "train", "step")]
        self.walk(["clique_faulty", "report", *files, "-o", "page.html"], self.same_text, turn=1)

    def test_launch(self):
        launcher = pathlib.Path(self.folder.name, "mpirun.openmpi")
        launcher.write_text('#!/bin/sh\necho "mpirun (Open MPI) 4.1.4"\n')
        launcher.chmod(0o755)
        config = {"cluster": {"chief": ["localhost:1"], "worker": ["a:1", "b:1"], "ps": ["c:1"]}, "task": {"type": "chief", "index": 0}}

        def same(ending, usual):
            """Equal, except for the run's id."""
            self.assertEqual(*(re.sub("CLIQUE_LAUNCH=[0-9a-f]{16}", "", e.out) for e in (ending, usual)))

        with unittest.mock.patch.dict(os.environ, PATH=f"{self.folder.name}:{os.environ['PATH']}", TF_CONFIG=json.dumps(config)):
            self.walk(["clique_faulty", "launch", "--mpi", "openmpi", "--agent", "x", "--dry-run", "--", "clique", "train"], same)


if __name__ == "__main__":
    unittest.main()
