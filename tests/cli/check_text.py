#!/usr/bin/env python3
"""Tests texts and numbers that are unsafe for terminals and JSON: names of devices, models and files that contain
escapes or are not UTF-8, and results that are not finite.

usage: check_text.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin").resolve()
LAYER = BIN.parent / "tests" / "clq_odd_layer.so"
ESCAPES = "\x1b[2J\x1b]0;owned\x07 \x7f\x9b31m"  # clears the screen, names the window, and sets red by C1's code
CLEAN = "?[2J?]0;owned? ??31m"
DEVICE = b"Gr\xfcn " + ESCAPES.encode() + b" \xc3\xa9"
DEVICE_CLEAN = "Gr?n " + CLEAN + " é"
ONE = ["--devices", "pocl:0"]


def layer(class_name, name, **config):
    return {"class_name": class_name, "config": {"name": name} | config}


def model(name, dense="dense"):
    return {"class_name": "Sequential", "config": {"name": name, "layers": [
        layer("InputLayer", "input", batch_shape=[None, 28, 28, 1]), layer("Flatten", "flatten"), layer("Dense", dense, units=10, activation="softmax")]}}


def result(*rows, bench="all_reduce"):
    return {"schema": "clique-bench/1", "bench": bench, "host": {}, "devices": [], "command": "", "complete": True, "rows": list(rows)}


class Text(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = os.fsencode(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def path(self, name):
        return os.path.join(self.folder, os.fsencode(name))

    def put(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(json.dumps(content).encode())
        return self.path(name)

    def run_clique(self, *args, odd=False, code=0):
        """Returns stdout and stderr, and checks that they contain no control sequence."""
        environment = dict(os.environb)
        if odd:  # programs for such a device stay in a separate cache
            environment |= {b"OPENCL_LAYERS": os.fsencode(LAYER), b"CLQ_TEST_ODD_NAME": DEVICE, b"CLIQUE_CACHE_DIR": self.path("cache")}
        ended = subprocess.run([os.fsencode(BIN / "clique"), *map(os.fsencode, args)], capture_output=True, env=environment, timeout=240)
        self.assertEqual(ended.returncode, code, ended.stderr)
        for output in (ended.stdout, ended.stderr):
            for control in ("\x1b", "\x07", "\x7f", "\x9b"):
                self.assertNotIn(control, output.decode(), "not even where it is JSON")
        self.assertEqual(ended.stderr.count(b"clique: error: "), code != 0)
        return ended.stdout.decode(), ended.stderr.decode()

    def test_devices(self):
        devices = json.loads(self.run_clique("devices", "--json", odd=True)[0])["devices"]
        self.assertGreater(len(devices), 1)
        self.assertEqual({(device["name"], device["driver_version"]) for device in devices}, {(DEVICE_CLEAN, DEVICE_CLEAN)})
        self.assertEqual(self.run_clique("devices", odd=True)[0].count(DEVICE_CLEAN), len(devices))
        checks, = json.loads(self.run_clique("doctor", "--json", *ONE, odd=True)[0])["devices"]
        self.assertTrue(all(check["ok"] for check in checks["checks"]))

    def test_models(self):
        path = self.put(b"\xff.json", model(ESCAPES))
        plan, _ = self.run_clique("plan", "--model", path, *ONE, odd=True)
        self.assertTrue(plan.startswith(f"{CLEAN} on {DEVICE_CLEAN}, "), plan[:200])
        plan = json.loads(self.run_clique("plan", "--model", path, "--json", *ONE, odd=True)[0])
        self.assertEqual((plan["model"], plan["device"]), (CLEAN, DEVICE_CLEAN))
        tiny = ["train", "--model", path, "--data", "synthetic:28x28/10/48", "--take", "8", "--batch", "8", "--steps", "1", "--no-test", *ONE]
        self.assertIn(DEVICE_CLEAN, self.run_clique(*tiny, odd=True)[0])
        trained = json.loads(self.run_clique(*tiny, "--json", odd=True)[0])
        self.assertEqual((trained["model"], trained["devices"][0]["name"]), (CLEAN, DEVICE_CLEAN))
        for name in ("a\x1b[2J", "a\x9b"):
            _, message = self.run_clique("plan", "--model", self.put(b"\xff.json", model("m", name)), *ONE, code=3)
            self.assertIn("?.json: config.layers[2]", message)
            self.assertIn("no control characters", message)

    def test_results(self):
        odd_path = self.path(b"\xff\x1b.json")
        self.run_clique("bench", "launch", "-n", "1", "-w", "0", "--json", odd_path, "--csv", self.path("rows.csv"), *ONE, odd=True)
        with open(odd_path, "rb") as file:
            document = json.load(file)
        self.assertEqual((document["devices"][0]["name"], document["devices"][0]["driver_version"]), (DEVICE_CLEAN, DEVICE_CLEAN))
        self.assertIn("/?\x1b.json --csv ", document["command"])
        with open(self.path("rows.csv"), "rb") as file:
            self.assertEqual(len(file.readlines()), 1 + len(document["rows"]))
        table, _ = self.run_clique("bench", "launch", "-n", "1", "-w", "0", *ONE, odd=True)
        self.assertTrue(table.startswith(f"# pocl:0: {DEVICE_CLEAN}, driver {DEVICE_CLEAN}\n"), table[:200])
        named = self.put(b"\xfe\x1b[2J.json", model("m"))
        table, _ = self.run_clique("bench", "step", "--models", named, "--batch", "2", "-n", "1", "-w", "0", *ONE)
        self.assertIn("??[2J.json", table)

    def test_compare_and_report(self):
        row = {"algo": ESCAPES, ESCAPES: 1, "time_us": {"min": 1.0, "p50": 2.0, "p99": 3.0}}
        a, b = (self.put(name, result(row, bench=ESCAPES)) for name in (b"a\xff\x1b[2J.json", "b\x9b.json"))
        compared = json.loads(self.run_clique("compare", a, b, "--json")[0])
        self.assertTrue(compared["a"].endswith("/a?\x1b[2J.json"))
        self.assertEqual((compared["b"], compared["bench"]), (os.fsdecode(b), ESCAPES))
        self.assertEqual(compared["rows"][0]["key"], {"algo": ESCAPES, ESCAPES: 1})
        text, _ = self.run_clique("compare", a, b)
        self.assertTrue(text.startswith(f"{CLEAN}: A = {os.fsdecode(self.path('a??[2J.json'))}, B = {os.fsdecode(self.path('b?.json'))}\n"), text)
        printed, _ = self.run_clique("report", a, b, "-o", self.path(b"r\x1b\xff.html"))
        self.assertEqual(printed, os.fsdecode(self.path("r??.html")) + ": 2 results, 0 plots\n")
        self.run_clique("compare", self.path(b"missing\x1b\xff"), b, code=3)

    def test_results_that_are_not_finite(self):
        weights = self.path("w.safetensors")
        tiny = ["--model", self.put("m.json", model("m")), "--data", "synthetic:28x28/10/48", "--take", "8", "--batch", "8", *ONE]
        self.run_clique("train", *tiny, "--steps", "1", "--no-test", "--save", weights)
        with open(weights, "rb") as file:
            content = file.read()
        begin = 8 + struct.unpack("<Q", content[:8])[0]
        with open(weights, "wb") as file:
            file.write(content[:begin] + struct.pack("<f", 3e38) * ((len(content) - begin) // 4))
        evaluated = json.loads(self.run_clique("eval", *tiny, "--weights", weights, "--json")[0])
        self.assertEqual(list(evaluated), ["loss", "accuracy", "samples", "images_per_s"])
        self.assertEqual((evaluated["loss"], evaluated["samples"]), (None, 8))
        trained = json.loads(self.run_clique("train", *tiny, "--init", weights, "--steps", "1", "--no-test", "--json")[0])
        self.assertIsNone(trained["epochs"][0]["loss"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
