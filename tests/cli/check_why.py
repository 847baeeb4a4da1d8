#!/usr/bin/env python3
"""Tests clique why and the verdicts of clique train against docs/command-line.md.

usage: check_why.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest
import unittest.mock

import support

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin")
CLIQUE = str(BIN / "clique")
# There are fewer samples than 4 batches, so that no step is probed at a batch that no other test compiles.
SMALL = ["--model", "mlp", "--data", "synthetic:28x28/10/192", "--devices", "pocl:0,pocl:1"]
PARTS = ["input", "host", "launches", "fixed", "compute", "sharing", "waiting", "communication"]
ROWS = ["mirrored", "mirrored --shard-optimizer", "central", "ps --staleness 0", "ps", "pipeline", "tensor"]
LIMITS = ["compute", "input", "host", "launches", "too small a batch", "shared memory", "shared cores", "slow device", "communication",
          "pipeline bubble"]


def run(*args):
    result = subprocess.run([CLIQUE, *map(str, args)], capture_output=True, text=True, timeout=240)
    # Without optimization, PoCL warns about loops that it was told to unroll and does not unroll.
    result.stderr = re.sub(r"(?m)^\d+ warnings? generated\.\n", "", result.stderr)
    return result


class Why(support.InFolder):
    def setUp(self):
        """The kept results of why must not choose the strategy of other tests' trainings."""
        super().setUp()
        cache = support.borrow_cache(self.folder)
        environment = unittest.mock.patch.dict(os.environ, CLIQUE_CACHE_DIR=str(cache))
        environment.start()
        self.addCleanup(environment.stop)

    def fails(self, code, *args, says=()):
        result = run(*args)
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in says:
            self.assertIn(word, result.stderr)

    def answer(self, *args):
        result = run("why", *args, "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def test_predictions_and_verdicts(self):
        why = self.answer(*SMALL)
        self.check_predictions(why)
        train = ["train", *SMALL, "--no-test", "--epochs", 2, "--json"]
        for p in why["predictions"]:
            strategy = p["strategy"].split() if p["replicas"] > 1 else ["auto"]
            found = json.loads(run(*train, "--devices", ("pocl:0", "pocl:0,pocl:1")[p["replicas"] - 1], "--strategy", *strategy).stdout)
            self.assertIn(f"clique why predicted {p['images_per_s']:.0f} images/s (limit: {p['limit']}), "
                          f"measured {found['images_per_s']:.0f}", found["verdict"])
        self.assertNotIn("predicted", json.loads(run(*train, "--devices", "pocl:1").stdout)["verdict"])
        for other in (["--batch", 63], ["--shares", "1,1"], ["--strategy", "ps", "--staleness", 7],
                      ["--memory-limit", 100000000]):  # no prediction exists for these options
            self.assertNotIn("predicted", json.loads(run(*train, *other).stdout)["verdict"], other)
        self.assertIn("\nverdict: ", run(*train[:-1]).stdout)

    def check_predictions(self, why):
        self.assertEqual((why["model"], why["global_batch"], why["does_not_fit"]), ("mlp", 64, None))
        self.assertEqual([(p["replicas"], p["strategy"]) for p in why["predictions"]], [(1, "single")] + [(2, name) for name in ROWS])
        for p in why["predictions"]:
            self.assertEqual(list(p["parts_ms"]), PARTS)
            self.assertAlmostEqual(sum(p["parts_ms"].values()), p["step_ms"], delta=1e-9 * p["step_ms"])
            self.assertAlmostEqual(p["images_per_s"] * p["step_ms"], 64e3, delta=1e-6)
            self.assertIn(p["limit"], LIMITS)
        self.assertEqual(why["best"], max((p for p in why["predictions"] if p["strategy"] != "ps"), key=lambda p: p["images_per_s"]))
        now = next(p for p in why["predictions"] if (p["replicas"], p["strategy"]) == (2, "mirrored"))
        for advice in why["advice"]:
            self.assertGreaterEqual(advice["gain"], 1.05)
            self.assertAlmostEqual(advice["gain"], advice["images_per_s"] / now["images_per_s"], delta=1e-9)
            self.assertIn("same" if "--batch" not in advice["options"] and advice["options"] != "--strategy ps" else "other", advice["effect"])
        probes = why["probes"]
        # 8: micro-batches of a pipeline.
        self.assertEqual([step["batch"] for step in probes["devices"][0]["steps"]], [8, 32, 64])
        self.assertEqual([device["launches"] for device in probes["devices"]], [1, 1])
        self.assertEqual([group["replicas"] for group in probes["groups"]], [2])
        self.assertGreaterEqual(probes["gradient_bytes"], 4 * (784 * 128 + 128 + 128 * 10 + 10))
        pipeline, tensor = probes["groups"][0]["pipeline"], probes["groups"][0]["tensor"]
        self.assertEqual((pipeline["micro_batches"], len(pipeline["stages"])), (8, 2))
        self.assertAlmostEqual(sum(s["forward"] + s["backward"] for s in pipeline["stages"]), 1)
        self.assertAlmostEqual(sum(s["parameters"] for s in pipeline["stages"]), 1)
        self.assertIn(pipeline["stages"][0]["sent_bytes"], [8 * 784 * 4, 8 * 128 * 4])
        self.assertEqual(pipeline["stages"][1]["sent_bytes"], 0)
        # Columns, then rows: the only sum is that of the last layer's outputs. The gradient of the samples is not
        # needed.
        self.assertEqual((tensor["exchanges"], tensor["bytes"]), (1, 64 * 10 * 4))
        self.assertTrue(probes["groups"][0]["sharded_update"])  # the values that clique plan prints as paths

    def test_for_people(self):
        result = run("why", *SMALL, "--devices", "pocl:0")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        lines = result.stdout.splitlines()
        self.assertEqual(lines[2].split(), ["replicas", "strategy", "images/s", "step", *PARTS, "limit"])
        self.assertEqual(lines[3].split()[:2], ["1", "single"])

    def check_rows_under_limit(self, why, options, *ways):
        """Each way that train accepts has a row, and each way that train refuses has none. A way: devices, strategy."""
        rows = {(p["replicas"], p["strategy"]) for p in why["predictions"]}
        for devices, strategy in ways:
            fits = run("train", *options, "--no-test", "--epochs", 1, "--devices", devices, "--strategy", strategy).returncode
            self.assertEqual(fits, 0 if (devices.count(",") + 1, strategy) in rows else 4, (strategy, rows))
        self.assertIn(why["best"], why["predictions"])
        self.assertIn("would fit", why["does_not_fit"])
        return rows

    def test_memory_limit(self):
        """If train refuses all ways, so does why."""
        wide = [*SMALL, "--batch", 192, "--memory-limit", 3000000]
        why = self.answer(*wide, "--check-replicas", 5)  # no device alone accepts it
        rows = self.check_rows_under_limit(why, wide, ("pocl:0", "single"), ("pocl:0,pocl:1", "mirrored"), ("pocl:0,pocl:1", "pipeline"))
        self.assertNotIn((1, "single"), rows)
        self.assertIn((2, "mirrored"), rows)
        self.fails(4, "why", *SMALL, "--memory-limit", 100000, says=["would fit"])

    def test_no_room_for_exchanges(self):
        """Devices with their own memory exchange through buffers in that memory."""
        layer = str(BIN.resolve().parent / "tests" / "clq_discrete_layer.so")
        tight = [*SMALL, "--memory-limit", 2300000]
        with unittest.mock.patch.dict(os.environ, OPENCL_LAYERS=layer, CLQ_TEST_DISCRETE="basic"):
            rows = self.check_rows_under_limit(self.answer(*tight), tight, ("pocl:0", "single"), ("pocl:0,pocl:1", "mirrored"),
                                               ("pocl:0,pocl:1", "central"), ("pocl:0,pocl:1", "pipeline"))
        self.assertIn((1, "single"), rows)
        self.assertNotIn((2, "mirrored"), rows)

    def test_trace(self):
        path = self.folder / "trace.json"
        self.assertEqual(run("train", *SMALL, "--no-test", "--epochs", 2, "--trace", path).returncode, 0)
        found = self.answer("--trace", path)
        self.assertEqual([r["replica"] for r in found["replicas"]], [0, 1])
        for r in found["replicas"]:
            self.assertEqual([step["step"] for step in r["steps"]], list(range(1, 7)))
            for step in r["steps"]:
                self.assertAlmostEqual(sum(step["parts_ms"].values()), step["ms"], delta=1e-9 * step["ms"])
                self.assertGreater(step["parts_ms"]["busy"], 0)
            self.assertAlmostEqual(sum(r["parts_ms"].values()), r["step_ms"], delta=1e-9 * r["step_ms"])
            others = [1 - r["replica"]] if r["parts_ms"]["waiting"] else []
            self.assertEqual([w["replica"] for w in r["waited_for"]], others)
        lines = run("why", "--trace", path).stdout.splitlines()
        self.assertEqual(lines[2].split(), ["replica", "steps", "step", "busy", "waiting", "exchange", "host", "input", "waited", "for"])
        self.fails(3, "why", "--trace", self.put("other.json", []), says=["other.json", "traceEvents"])
        self.fails(3, "why", "--trace", self.folder / "none.json", says=["none.json"])

    def test_wrong_usage(self):
        self.fails(2, "why", *SMALL, "--batch", 1, says=["batch of 1", "2 replicas"])
        self.fails(2, "why", *SMALL, "--strategy", "single", says=["single", "mirrored"])
        self.fails(2, "why", "--frobnicate", says=["--frobnicate"])
        for option in ("--checkpoint=x", "--checkpoint-every=5", "--keep=2", "--resume", "--early-stopping=patience=1", "--reduce-lr=factor=2",
                       # why trains nothing to which these could apply.
                       "--save-best=x", "--monitor=loss", "--csv=x", "--epochs=2", "--steps=2", "--no-test", "--init=x", "--save=x", "--log=x", "--progress=off"):
            self.fails(2, "why", *SMALL, option, says=[option.split("=")[0]])
        self.fails(2, "why", *SMALL, "--batch", 4, "--batch-per-replica", 4, says=["exclude"])
        self.fails(3, "why", *SMALL, "--data", self.folder / "nowhere", says=["nowhere"])
        self.fails(4, "why", *SMALL, "--devices", "pocl:77", says=["pocl:77"])


unittest.main()
