#!/usr/bin/env python3
"""clique bench as docs/contract.md has it: rows, files, wrong usage, Ctrl-C. No figure is held against a clock.

usage: check_bench.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import csv
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin")
CLIQUE = str(BIN / "clique")
TWO = ["--devices", "pocl:0,pocl:1"]


class Bench(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def run_bench(self, name, *args):
        return subprocess.run([CLIQUE, "bench", name, *map(str, args)], capture_output=True, text=True, timeout=240)

    def fails(self, code, name, *args, says=()):
        result = self.run_bench(name, *args)
        lines = [line for line in result.stderr.splitlines() if line.startswith("clique: error: ")]
        self.assertEqual(result.returncode, code, f"{name} {args}: {result.stderr}")
        self.assertEqual(len(lines), 1, f"{name} {args}: {result.stderr}")
        for word in says:
            self.assertIn(word, lines[0])

    def measure(self, name, *args, devices=2):
        """The rows of a run, after what holds for every benchmark's files was checked."""
        path, table = self.folder / "bench.json", self.folder / "bench.csv"
        result = self.run_bench(name, *args, "--json", path, "--csv", table)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "")
        return self.check_files(name, args, path, table, devices, True)

    def check_files(self, name, args, path, table, devices, complete):
        document = json.loads(path.read_text())
        self.assertEqual((document["schema"], document["bench"], len(document["devices"])), ("clique-bench/1", name, devices))
        self.assertLessEqual({"system", "machine", "cores", "memory_bytes", "others_cores", "busy"}, document["host"].keys())
        self.assertIs(document["complete"], complete)
        self.assertIn(" ".join(map(str, args)), document["command"])
        for device in document["devices"]:
            self.assertLessEqual({"index", "label", "driver", "name", "driver_version", "part", "parts"}, device.keys())
        rows = document["rows"]
        lines = list(csv.DictReader(table.read_text().splitlines()))
        self.assertEqual(len(lines), len(rows))
        for row, line in zip(rows, lines):
            self.assertEqual(list(row), list(line), "keys and columns, in one order")
            self.assertEqual(list(row), list(rows[0]))
            for key, value in row.items():
                if value is None or isinstance(value, str):
                    self.assertEqual(line[key], value or "")
                elif isinstance(value, bool):
                    self.assertEqual(line[key], "true" if value else "false")
                else:
                    self.assertAlmostEqual(float(line[key]), value, delta=1e-8 * abs(value))
        return rows

    def test_train(self):
        rows = self.measure("train", "--models", "mlp,cnn1", "--data", "synthetic:28x28/10/256", *TWO, "-n", 3, "-w", 0)
        self.assertEqual([(r["model"], r["replicas"], r["batch"]) for r in rows],
                         [("mlp", 1, 64), ("mlp", 2, 64), ("cnn1", 1, 64), ("cnn1", 2, 64)])
        for row in rows:
            self.assertAlmostEqual(row["images_per_s"] * row["step_ms"] / 1e3, 64, delta=1e-6)
            self.assertLessEqual(row["images_per_s_least"], row["images_per_s"])
            self.assertGreaterEqual(row["images_per_s_most"], row["images_per_s"])
            self.assertEqual(row["comm_ms"] > 0, row["replicas"] == 2)
            self.assertLess(row["comm_ms"], row["step_ms"])
            self.assertEqual(row["overlap"], 0)
            alone = next(r for r in rows if r["model"] == row["model"])["images_per_s"]
            self.assertAlmostEqual(row["efficiency"], row["images_per_s"] / row["replicas"] / alone, places=9)
        self.fails(2, "train", "--models", "mlp,,cnn", says=["--models"])
        self.fails(2, "train", "--models", "mlp,", says=["--models"])
        self.fails(2, "train", "--models", "", says=["--models"])
        self.fails(2, "train", "-n", 65, says=["-n", "64"])

    def test_wrong_usage(self):
        self.fails(2, "nothing", says=["nothing"])
        self.fails(2, "train", "-n", 0, says=["-n"])
        self.fails(2, "train", "-w", "x", says=["-w"])
        self.fails(2, "train", "--frobnicate", says=["--frobnicate", "clique bench train --help"])
        self.fails(2, "train", "--devices", "pocl:0*x", says=["pocl:0*x"])
        self.fails(4, "train", "--devices", "nvidia", says=["nvidia"])

    def test_table(self):
        result = self.run_bench("train", "--models", "mlp", "--data", "synthetic:28x28/10/256", *TWO, "-n", 1, "-w", 0)
        lines = [line for line in result.stdout.splitlines() if not line.startswith("note: ")]
        self.assertEqual([line[:8] for line in lines[:2]], ["# pocl:0", "# pocl:1"])
        self.assertTrue(lines[2].startswith("model "))
        self.assertEqual(len(lines), 5)
        self.assertEqual(len({len(line) for line in lines[2:]}), 1, "the columns are aligned")


if __name__ == "__main__":
    unittest.main(verbosity=1)
