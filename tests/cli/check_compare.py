#!/usr/bin/env python3
"""Tests clique compare on result files that this test writes by hand, in the format of docs/bench.md.

usage: check_compare.py BIN_FOLDER
"""
import copy
import json
import pathlib
import subprocess
import sys
import unittest

import support

CLIQUE = str(pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin") / "clique")


def document(bench, rows, **members):
    host = {"system": "Linux", "machine": "x86_64", "cores": 2}
    return {"schema": "clique-bench/1", "bench": bench, "host": host, "devices": [], "command": "clique-bench " + bench, "rows": rows} | members


def collective(size, time, algo="ring", spread=0.1, **members):
    rate = size / time / 1e3
    return {"bytes": size, "count": size // 4, "dtype": "f32", "redop": "sum", "algo": algo, "transport": "staged", "in_place": False,
            "time_us": {"min": time * (1 - spread), "p50": time, "p99": time * (1 + spread)}, "algbw_gbps": rate, "busbw_gbps": rate,
            "wrong": 0, "limit_gbps": 5.0, "pct_of_limit": rate * 20} | members


def training(replicas, rate, spread=0.05):
    return {"model": "mlp", "replicas": replicas, "batch": 64, "images_per_s": rate, "images_per_s_least": rate * (1 - spread),
            "images_per_s_most": rate * (1 + spread), "step_ms": 64e3 / rate, "comm_ms": 0.1, "overlap": 0.0, "efficiency": 1.0}


class Compare(support.InFolder):
    def run_files(self, a, b, *options):
        paths = [self.put("a.json", a), self.put("b.json", b)]
        return subprocess.run([CLIQUE, "compare", *paths, *map(str, options)], capture_output=True, text=True, timeout=60)

    def compare(self, a, b, *options):
        result = self.run_files(a, b, "--json", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def fails(self, code, a, b, *options, says=()):
        result = self.run_files(a, b, *options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertRegex(result.stderr, r"\Aclique: error: [^\n]+\n\Z")
        for word in says:
            self.assertIn(word, result.stderr)
        return result.stdout

    def test_times(self):
        a = document("all_reduce", [collective(1024, 100.0), collective(4096, 200.0), collective(4096, 200.0, algo="direct")])
        b = document("all_reduce", [collective(4096, 190.0), collective(1024, 50.0), collective(4096, 400.0, algo="direct")])
        result = self.compare(a, b)
        self.assertEqual([row["key"]["bytes"] for row in result["rows"]], [1024, 4096, 4096])
        for row, ratio, verdict in zip(result["rows"], (2.0, 200 / 190, 0.5), (True, False, True)):
            self.assertEqual(row["measure"], "time_us")
            self.assertAlmostEqual(row["ratio"], ratio, places=12)
            # The range, computed by hand: A and B both took 0.9 to 1.1 of their p50.
            self.assertAlmostEqual(row["ratio_least"], ratio * 0.9 / 1.1, places=12)
            self.assertAlmostEqual(row["ratio_most"], ratio * 1.1 / 0.9, places=12)
            self.assertIs(row["beyond_noise"], verdict)
        self.assertEqual(set(result["rows"][0]["key"]), {"bytes", "count", "dtype", "redop", "algo", "transport", "in_place"})
        self.assertEqual((result["only_a"], result["only_b"], result["unmeasured"], result["same_machine"]), ([], [], [], True))
        text = self.run_files(a, b).stdout
        self.assertRegex(text, r"1024 .* 2 .* faster\n")
        self.assertRegex(text, r"ring .* within the noise\n")
        self.assertRegex(text, r"direct .* 0.5 .* SLOWER\n")

    def test_rates(self):
        a, b = document("train", [training(1, 1000.0), training(2, 1500.0)]), document("train", [training(1, 1200.0), training(2, 1510.0)])
        rows = self.compare(a, b)["rows"]
        self.assertEqual([row["measure"] for row in rows], ["images_per_s"] * 2)
        self.assertEqual(rows[0]["key"], {"model": "mlp", "replicas": 1, "batch": 64})
        self.assertAlmostEqual(rows[0]["ratio"], 1.2, places=12)
        self.assertAlmostEqual(rows[0]["ratio_least"], 1140 / 1050, places=12)
        self.assertEqual([row["beyond_noise"] for row in rows], [True, False])

    def test_rows_without_a_spread(self):
        def gemm(us, variant):
            return {"m": 512, "n": 512, "k": 512, "us": us, "gflops": 268.4 / us, "variant": variant}
        row, = self.compare(document("gemm", [gemm(1000.0, "tile")]), document("gemm", [gemm(500.0, "tile")]))["rows"]
        self.assertEqual(row["key"], {"m": 512, "n": 512, "k": 512, "variant": "tile"})
        self.assertAlmostEqual(row["ratio"], 2.0, places=9)
        self.assertIsNone(row["beyond_noise"])
        self.assertIn("no spread", self.run_files(document("gemm", [gemm(1000.0, "a")]), document("gemm", [gemm(500.0, "a")])).stdout)

    def test_rows_of_one_file_only(self):
        a = document("all_reduce", [collective(1024, 100.0), collective(2048, 100.0), collective(2048, 110.0)])
        b = document("all_reduce", [collective(1024, 100.0), collective(2048, 100.0), collective(8192, 100.0, algo="direct")])
        result = self.compare(a, b)
        self.assertEqual([row["a"] for row in result["rows"]], [100.0, 100.0])
        self.assertEqual([key["bytes"] for key in result["only_a"]], [2048])
        self.assertEqual([(key["bytes"], key["algo"]) for key in result["only_b"]], [(8192, "direct")])
        text = self.run_files(a, b).stdout
        self.assertIn("only in A: bytes=2048", text)
        self.assertIn("only in B: bytes=8192", text)

    def test_rows_that_were_not_measured(self):
        def pair(to, gbps, **members):
            return {"from": 0, "to": to, "gbps": gbps} | members
        a = document("p2p", [pair(1, 5.0), pair(2, None, reason="no route"), pair(3, 4.0)])
        b = document("p2p", [pair(1, 5.5), pair(2, None, reason="no route"), pair(3, None, reason="busy")])
        result = self.compare(a, b)
        self.assertEqual([row["key"]["to"] for row in result["rows"]], [1])
        self.assertEqual([(e["key"]["to"], e["reason"]) for e in result["unmeasured"]], [(2, "measured in neither"), (3, "not measured in B")])
        self.fails(3, document("p2p", [pair(2, None)]), document("p2p", [pair(2, None)]), says=["no measured row"])

    def test_fail_below(self):
        a = document("all_reduce", [collective(1024, 100.0), collective(2048, 100.0)])
        b = document("all_reduce", [collective(1024, 125.0), collective(2048, 250.0)])
        self.assertEqual(self.run_files(a, b).returncode, 0)
        self.assertEqual(self.run_files(a, b, "--fail-below", 0.39).returncode, 0)
        self.assertIn("SLOWER", self.fails(1, a, b, "--fail-below", 0.5, says=["1 of 2", "0.5", "0.4", "bytes=2048"]))
        self.assertEqual(len(json.loads(self.fails(1, a, b, "--fail-below=0.9", "--json", says=["2 of 2"]))["rows"]), 2)
        for wrong in ("0", "-1", "fast", "nan", "inf", ""):
            self.fails(2, a, b, "--fail-below", wrong, says=["--fail-below"])

    def test_other_machine(self):
        a, b = document("train", [training(1, 1e3)]), document("train", [training(1, 1e3)], host={"cores": 64})
        self.assertIs(self.compare(a, b)["same_machine"], False)
        self.assertIn("different hosts", self.run_files(a, b).stdout)
        quiet, busy = ({"cores": 2, "others_cores": others, "busy": others > 1} for others in (0.1, 1.5))
        a, b = document("train", [training(1, 1e3)], host=quiet), document("train", [training(1, 1e3)], host=busy)
        self.assertIs(self.compare(a, b)["same_machine"], True, "what others did is no part of the machine")

    def test_bad_files(self):
        good = document("all_reduce", [collective(1024, 100.0)])
        self.assertEqual(self.run_files(good, good).returncode, 0)
        for name, bad in {
            "empty": "", "cut": json.dumps(good)[:-2], "text": "hello", "number": "7", "list": [], "deep": "[" * 100000,
            "no schema": {"bench": "all_reduce", "rows": []}, "another schema": good | {"schema": "clique-bench/2"},
            "schema's type": good | {"schema": 1}, "no bench": good | {"bench": None}, "no rows": good | {"rows": None},
            "rows": good | {"rows": {}}, "row": good | {"rows": [1]}, "twice": json.dumps(good)[:-1] + ', "rows": []}',
            "time": document("all_reduce", [collective(1024, 100.0) | {"time_us": "fast"}]),
            "p50": document("all_reduce", [collective(1024, 100.0) | {"time_us": {"min": 1, "p50": [], "p99": 3}}]),
            "other bench": document("train", [training(1, 1000.0)]),
        }.items():
            with self.subTest(name):
                self.fails(3, good, bad, says=["b.json"])
                self.fails(3, bad, good, says=["a.json"])
        for wrong in (0, -5, 1e999, 1e300, 1e-300, None):
            unmeasured = copy.deepcopy(good)
            unmeasured["rows"][0] |= {"time_us": {"min": 1, "p50": wrong, "p99": 3}, "algbw_gbps": None, "busbw_gbps": None}
            text = json.dumps(unmeasured).replace("Infinity", "1e999")
            self.fails(3, good, text)
        missing = subprocess.run([CLIQUE, "compare", "none.json", str(self.folder / "a.json")], capture_output=True, text=True)
        self.assertEqual(missing.returncode, 3)
        self.assertIn("none.json", missing.stderr)

    def test_wrong_usage(self):
        good = document("train", [training(1, 1000.0)])
        self.fails(2, good, good, "third.json", says=["third.json"])
        self.fails(2, good, good, "--jsn", says=["--jsn"])
        alone = subprocess.run([CLIQUE, "compare", "a.json"], capture_output=True, text=True)
        self.assertEqual(alone.returncode, 2)
        self.assertIn("two files", alone.stderr)

    def test_hostile_names_reach_no_terminal(self):
        hostile = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eé\n"
        row = collective(1024, 100.0, algo=hostile) | {hostile: 1}
        extra = collective(2048, 100.0, algo=hostile)
        text = self.run_files(document("all_reduce", [row, row, extra]), document("all_reduce", [row, collective(1024, 90.0)])).stdout
        for forbidden in "\x1b\x07\x9b":
            self.assertNotIn(forbidden, text)
        self.assertIn("é", text)
        failed = self.run_files(document("all_reduce", [row]), document("all_reduce", [row]), "--fail-below", 2)
        self.assertEqual(failed.returncode, 1)
        self.assertNotIn("\x1b", failed.stderr)
        self.assertEqual(len(failed.stderr.splitlines()), 1)

    def test_many_rows_of_one_key(self):
        rows = [{"bytes": 8, "time_us": 1.0 + i} for i in range(30000)]
        result = self.compare(document("all_reduce", rows), document("all_reduce", rows[:20000]))
        self.assertEqual(len(result["rows"]), 20000)
        self.assertTrue(all(row["ratio"] == 1.0 for row in result["rows"]))
        self.assertEqual(len(result["only_a"]), 10000)


if __name__ == "__main__":
    unittest.main(verbosity=1)
