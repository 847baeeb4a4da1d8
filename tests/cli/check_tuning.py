#!/usr/bin/env python3
"""Tests clique tune and --tune against docs/command-line.md.

usage: check_tuning.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import support

CLIQUE = str(pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin") / "clique")


class Tuning(support.InFolder):
    def setUp(self):
        """Kept results must not affect other tests, nor the next run."""
        super().setUp()
        self.least = support.put_least(self.folder)
        self.own = dict(os.environ, CLIQUE_CACHE_DIR=str(self.folder / "cache"))

    def run_it(self, command, *args, **more):
        words = [CLIQUE, command, *support.APART, "--model", self.least, *map(str, args)]
        done = subprocess.run(words, env=self.own | more, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_pipeline_cut_by_measured_time(self):
        """Only tuning measures. Later commands use the measurements."""
        options = ["--batch", 8, "--devices", "pocl:0,pocl:1", "--strategy", "pipeline", "--micro-batches", 2]
        before = json.loads(self.run_it("plan", *options, "--json").stdout)["pipeline"]
        self.assertEqual(before["cut_by"], "estimates")
        self.assertEqual([s["forward_ms"] for s in before["stages"]], [None, None])
        # Times depend on the type of the samples: those of `plan` are uint8, like images.
        self.run_it("tune", *options, "--data", self.put_floats(16))
        # Its estimates are for the chosen kernels.
        again = json.loads(self.run_it("plan", *options, "--json").stdout)["pipeline"]
        self.assertEqual((again["cut_by"], [s["forward_ms"] for s in again["stages"]]), ("estimates", [None, None]))
        self.assertEqual([s["layers"] for s in again["stages"]], [s["layers"] for s in before["stages"]])
        tuned = json.loads(self.run_it("tune", *options, "--json").stdout)["pipeline"]
        after = json.loads(self.run_it("plan", *options, "--json").stdout)["pipeline"]
        self.assertEqual(after["cut_by"], "measured time")
        # A stage without trained variables has no backward pass. The times decide whether there is such a stage.
        self.assertTrue(all(s["forward_ms"] > 0 for s in after["stages"]))
        self.assertEqual([s["backward_ms"] > 0 for s in after["stages"]], [s["backward_work"] > 0 for s in after["stages"]])
        for key in ("layers", "forward_ms", "backward_ms"):
            self.assertEqual([s[key] for s in after["stages"]], [s[key] for s in tuned["stages"]])
        self.assertRegex(self.run_it("plan", *options).stdout, r"\n2 stages, 1 pipeline, 2 micro-batches, cut by measured time: ")

    def test_tune(self):
        options = ["--batch", 4, "--devices", "pocl:0", "--budget", "0.001"]
        rows = json.loads(self.run_it("tune", *options, "--json").stdout)["rows"]
        self.assertGreater(len(rows), 3)
        self.assertEqual(rows[-1]["question"], "step without its update")
        self.assertGreater(rows[-1]["gflops"], 0)
        for row in rows:
            self.assertEqual(list(row), ["replica", "question", "candidates", "winner", "measured", "gflops", "limit_gflops", "pct_of_limit"])
            self.assertIn(row["winner"], [c["name"] for c in row["candidates"]])
        self.assertTrue(any(not row["measured"] for row in rows))
        table = self.run_it("tune", *options).stdout
        for word in ("* ", "GFLOP/s", "as before", "not measured"):
            self.assertIn(word, table)

    def test_quick_where_nothing_can_be_kept(self):
        nowhere = self.put("file", "")
        quick = self.run_it("train", "--data", "synthetic:28x28/10/192", "--devices", "pocl:0", "--no-test", "--epochs", 1, "--tune", "quick",
                            CLIQUE_CACHE_DIR=nowhere)
        self.assertRegex(quick.stderr, "nothing is measured|cannot be kept")


unittest.main()
