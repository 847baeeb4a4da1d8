#!/usr/bin/env python3
"""Tests clique bench against docs/bench.md: rows, files, wrong usage, Ctrl-C. No measured time is compared with a
limit.

usage: check_bench.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock

import support

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin")
CLIQUE = str(BIN / "clique")
LAYER = BIN.resolve().parent / "tests" / "clq_odd_layer.so"
TWO = ["--devices", "pocl:0,pocl:1"]
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODELS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "models"
LENET, CNN3X3 = MODELS / "lenet5.json", MODELS / "cnn3x3.json"
# Compilers take most of this test's time. For compilers, each batch of a model, each product and each convolution is a
# separate program. So the tests use only one batch besides the default batch, one small product and one layer with few
# channels. The benchmarks in UNOPTIMIZED use kernels that the tests of ops and the trainings compile with optimization.
# Here these kernels are compiled without optimization.
ODD, FEW = 9, "2x6x5x3:3x2x4"
UNOPTIMIZED = ("conv", "gemm", "step", "train")


class Bench(support.InFolder):
    def run_bench(self, name, *args):
        more = support.unoptimized() if name in UNOPTIMIZED else {}
        return subprocess.run([CLIQUE, "bench", name, *map(str, args)], capture_output=True, text=True, timeout=240, env=os.environ | more)

    def fails(self, code, name, *args, says=()):
        return self.check_refusal(self.run_bench(name, *args), code, (name, *args), says)

    def measure(self, name, *args, devices=2):
        """The rows of a run. First checks what must hold for the files of every benchmark."""
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
            self.assertEqual(list(row), list(rows[0]))
            flat = {f"{key}_{part}" if part else key: v for key, value in row.items()
                    for part, v in (value.items() if isinstance(value, dict) else [("", value)])}
            self.assertEqual(list(flat), list(line), "keys and columns, in one order")
            for key, value in flat.items():
                if value is None or isinstance(value, str):
                    self.assertEqual(line[key], value or "")
                elif isinstance(value, bool):
                    self.assertEqual(line[key], "true" if value else "false")
                else:
                    self.assertAlmostEqual(float(line[key]), value, delta=1e-8 * abs(value))
        return rows

    def test_train(self):
        least = support.put_least(self.folder)
        rows = self.measure("train", "--models", f"mlp,{least}", "--data", "synthetic:28x28/10/256", *TWO, "-n", 3, "-w", 0)
        self.assertEqual([(r["model"], r["replicas"], r["batch"]) for r in rows],
                         [("mlp", 1, 64), ("mlp", 2, 64), ("least.json", 1, 64), ("least.json", 2, 64)])
        for row in rows:
            self.assertAlmostEqual(row["images_per_s"] * row["step_ms"] / 1e3, 64, delta=1e-6)
            self.assertLessEqual(row["images_per_s_least"], row["images_per_s"])
            self.assertGreaterEqual(row["images_per_s_most"], row["images_per_s"])
            self.assertEqual(row["comm_ms"] > 0, row["replicas"] == 2)
            self.assertLess(row["comm_ms"], row["step_ms"])
            self.assertEqual(row["overlap"], 0)
            alone = next(r for r in rows if r["model"] == row["model"])["images_per_s"]
            self.assertAlmostEqual(row["efficiency"], row["images_per_s"] / row["replicas"] / alone, places=9)
            if row["replicas"] == 1:
                self.assertIsNone(row["of_apart"])
            else:
                self.assertGreater(row["of_apart"], 0)
        # The batch of each replica above: the steps as one launch are there.
        files = self.measure("train", "--models", f"{least},mlp", "--batch", 32, "--data", "synthetic:28x28/10/64", "--devices", "pocl:0", "-n", 1,
                             "-w", 0, devices=1)
        self.assertEqual([(r["model"], r["batch"]) for r in files], [("least.json", 32), ("mlp", 32)])
        self.fails(3, "train", "--models", "mlp,none/such.json", says=["none/such.json"])
        self.fails(2, "train", "--models", "mlp,,cnn", says=["--models"])
        self.fails(2, "train", "--models", "mlp,", says=["--models"])
        self.fails(2, "train", "--models", "", says=["--models"])
        self.fails(2, "train", "-n", 65, says=["-n", "64"])
        for option in ("--json", "--csv"):  # fails before hours of measuring
            self.fails(1, "train", "-n", 64, option, self.folder / "missing" / "file", says=[option, "missing"])

    def check_times(self, row):
        time = row["time_us"]
        self.assertTrue(0 < time["min"] <= time["p50"] <= time["p99"], time)

    def check_limit(self, row, unit):
        if row[unit] is not None and row["limit_" + unit] is not None:
            self.assertAlmostEqual(row["pct_of_limit"], 100 * row[unit] / row["limit_" + unit], delta=1e-9 * row["pct_of_limit"])
        else:
            self.assertIsNone(row["pct_of_limit"])

    MEMORY_WAYS = [("host to device", "pageable"), ("host to device", "pinned"), ("host to device", "mapped"), ("device to host", "pageable"),
                   ("device to host", "pinned"), ("device to host", "mapped"), ("copy", "device"), ("fill", "device")]

    def test_memory(self):
        rows = self.measure("memory", *TWO, "-b", 1000, "-e", "64K", "-f", 60, "-n", 3, "-w", 1)
        self.assertEqual([(r["device"], r["label"], r["bytes"], r["what"], r["memory"]) for r in rows],
                         [(d, f"pocl:{d}", size, *way) for d in (0, 1) for size in (1000, 60000) for way in self.MEMORY_WAYS])
        for row in rows:
            self.check_times(row)
            self.check_limit(row, "gbps")
            self.assertEqual(row["wrong"], 0)
            self.assertGreater(row["limit_gbps"], 0)
            rate = row["bytes"] / row["time_us"]["p50"] / 1e3
            self.assertEqual(row["zero_copy"], rate > 3 * row["limit_gbps"])
            self.assertIsNone(row["reason"])
            if row["zero_copy"]:
                self.assertIsNone(row["gbps"])
            else:
                self.assertAlmostEqual(row["gbps"], rate, delta=1e-9 * rate)
        steps = self.measure("memory", "--devices", "pocl:0", "-b", 4, "-e", 10, "-i", 3, "-n", 1, "-w", 0, devices=1)
        self.assertEqual([r["bytes"] for r in steps], [4] * 8 + [7] * 8 + [10] * 8)

    def test_memory_zero_copy(self):
        rows = self.measure("memory", "--devices", "pocl:0", "-b", "32M", "-e", "32M", "-n", 3, devices=1)
        self.assertEqual([r["zero_copy"] for r in rows if r["memory"] == "mapped"], [True, True], "the host's own memory is mapped")

    def test_memory_without_room(self):
        rows = self.measure("memory", "--devices", "pocl:0", "-b", "1024G", "-e", "1024G", devices=1)
        self.assertEqual(len(rows), 8)
        for row in rows:
            self.assertIn("would fit", row["reason"])
            self.assertEqual([row[k] for k in ("gbps", "limit_gbps", "pct_of_limit", "wrong")], [None] * 4)
            self.assertEqual(row["time_us"], {"min": None, "p50": None, "p99": None})

    def test_launch(self):
        rows = self.measure("launch", "--devices", "pocl:0,intel", "-n", 5, "-w", 1)
        self.assertEqual([(r["label"], r["what"]) for r in rows],
                         [(label, what) for label in ("pocl:0", "intel:0") for what in ("enqueue", "round trip")])
        for row in rows:
            self.check_times(row)
            self.assertIsNone(row["reason"])

    P2P_ORDER = [(0, 0, "one-way"), (0, 1, "one-way"), (0, 1, "latency"), (0, 1, "two-way"), (1, 0, "one-way"), (1, 0, "latency"), (1, 1, "one-way")]

    def check_p2p(self, rows, path):
        self.assertEqual([(r["from"], r["to"], r["what"]) for r in rows], self.P2P_ORDER)
        for row in rows:
            self.assertEqual(row["path"], "local" if row["from"] == row["to"] else path)
            self.check_times(row)
            self.check_limit(row, "gbps")
            self.assertEqual((row["wrong"], row["reason"]), (0, None))
            if row["what"] == "latency":
                self.assertEqual((row["gbps"], row["limit_gbps"]), (None, None))
                continue
            rate = row["bytes"] * (2 if row["what"] == "two-way" else 1) / row["time_us"]["p50"] / 1e3
            self.assertAlmostEqual(row["gbps"], rate, delta=1e-9 * rate)
            self.assertGreater(row["limit_gbps"], 0)

    def test_p2p(self):
        small = ["-b", "2500001", "-n", 2, "-w", 0]  # two slots and a part of a third
        self.check_p2p(self.measure("p2p", *TWO, *small), "peer")
        self.check_p2p(self.measure("p2p", *TWO, *small, "--transport", "staged"), "staged")
        self.check_p2p(self.measure("p2p", "--devices", "pocl:5,intel:0", *small), "staged")
        self.check_p2p(self.measure("p2p", "--devices", "pocl:0*2", *small), "staged")
        self.fails(2, "p2p", "--devices", "pocl:0", says=["--devices"])
        self.fails(2, "p2p", *TWO, "--transport", "pigeon", says=["pigeon", "staged"])
        self.fails(2, "p2p", *TWO, "-b", 0, says=["-b"])

    def test_p2p_names_what_it_cannot_measure(self):
        rows = self.measure("p2p", "--devices", "pocl:0,intel:0", "-b", 5000, "-n", 1, "-w", 0, "--transport", "peer")
        self.assertEqual([(r["from"], r["to"], r["what"]) for r in rows], self.P2P_ORDER)
        for row in rows:
            local = row["from"] == row["to"]
            self.assertEqual(row["time_us"]["p50"] is not None, local)
            self.assertEqual("different drivers" in (row["reason"] or ""), not local)
        table = self.run_bench("p2p", *TWO, "-b", 5000, "-n", 1, "-w", 0, "--transport", "staged").stdout.splitlines()
        titles = [i for i, line in enumerate(table) if line.endswith("(rows: from, columns: to)")]
        self.assertEqual(len(titles), 3)
        for at in titles:
            self.assertEqual(table[at + 1].split(), ["pocl:0", "pocl:1"])
            self.assertRegex(table[at + 2], r"^pocl:0 +(-|[0-9.]+ l) +[0-9.]+ s$")
            self.assertRegex(table[at + 3], r"^pocl:1 +[0-9.]+ s +(-|[0-9.]+ l) *$")

    def check_flops(self, row, flops):
        self.check_times(row)
        self.check_limit(row, "gflops")
        self.assertEqual((row["wrong"], row["reason"]), (0, None))
        self.assertGreater(row["limit_gflops"], 0, "the device's peak was measured, and its kernel gave the right numbers")
        self.assertAlmostEqual(row["gflops"], flops / row["time_us"]["p50"] / 1e3, delta=1e-9 * row["gflops"])

    COLLECTIVES = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "broadcast": 0, "reduce": 0, "send_recv": 0}
    COLLECTIVE_KEYS = ["bytes", "count", "dtype", "redop", "algo", "transport", "memory", "ranks", "agg_iters", "in_place", "time_us", "algbw_gbps", "busbw_gbps", "wrong",
                       "limit_gbps", "pct_of_limit"]

    def check_collective(self, name, rows, ranks):
        factor = {2: 2 * (ranks - 1) / ranks, 1: (ranks - 1) / ranks, 0: 1}[self.COLLECTIVES[name]]
        for row in rows:
            self.assertEqual(list(row), self.COLLECTIVE_KEYS)
            self.assertEqual((row["ranks"], row["wrong"]), (ranks, 0), row)
            parts = ranks if self.COLLECTIVES[name] == 1 else 1
            self.assertEqual(row["bytes"], row["count"] * parts * {"f32": 4, "f16": 2, "i8": 1, "u64": 8}[row["dtype"]])
            self.check_times(row)
            self.assertAlmostEqual(row["algbw_gbps"], row["bytes"] / row["time_us"]["p50"] / 1e3, delta=1e-9 * row["algbw_gbps"])
            self.assertAlmostEqual(row["busbw_gbps"], row["algbw_gbps"] * factor, delta=1e-9 * row["algbw_gbps"])

    def test_collectives(self):
        three = ["--devices", "pocl:0,pocl:1,intel"]
        for name in self.COLLECTIVES:
            rows = self.measure(name, *three, "-b", 0, "-e", "100K", "-f", 310, "-n", 2, "-w", 0, "-d", "i8", devices=3)
            self.assertEqual([r["in_place"] for r in rows], [False, True] * (len(rows) // 2))
            self.assertEqual(rows[0]["bytes"], 0)
            self.assertEqual({(r["algo"], r["transport"]) for r in rows}, {("direct", "mapped")})
            self.assertEqual({r["redop"] for r in rows}, {"sum" if "reduce" in name else "none"})
            self.check_collective(name, rows, 3)

    def test_collectives_over_links(self):
        """Devices with their own memory: the limit is that of a link that the collective uses, with any root."""
        discrete = {"OPENCL_LAYERS": str(BIN.resolve().parent / "tests" / "clq_discrete_layer.so"), "CLQ_TEST_DISCRETE": "basic"}
        with unittest.mock.patch.dict(os.environ, discrete):
            for name in self.COLLECTIVES:
                for root in (0, 1) if self.COLLECTIVES[name] == 0 else (0,):
                    rows = self.measure(name, *TWO, "-b", 4000, "-e", 4000, "-n", 1, "-w", 0, "--root", root)
                    self.check_collective(name, rows, 2)
                    self.assertEqual({row["transport"] for row in rows}, {"staged"})
                    self.assertTrue(all(row["limit_gbps"] and 0 < row["limit_gbps"] < 1e6 for row in rows), rows)

    def test_collectives_as_asked(self):
        ways = ("staged", "f16", "avg"), ("peer", "u64", "max")
        # comm/collectives tests all combinations.
        for i, algo in enumerate(("ring", "reduce-to-one", "doubling", "hierarchical")):
            transport, dtype, op = ways[i % 2]
            rows = self.measure("all_reduce", *TWO, "-b", 5000, "-e", 5001, "-i", 1, "-n", 1, "-w", 0, "--algo", algo, "--transport", transport, "-d", dtype,
                                "-o", op, "--chunk", 999, "--slots", 2, "--memory", "plain")
            self.assertEqual({(r["algo"], r["transport"], r["memory"], r["redop"]) for r in rows}, {(algo, transport, "plain", op)})
            self.check_collective("all_reduce", rows, 2)
        rows = self.measure("all_reduce", "--devices", "pocl:0", "-b", 64, "-e", 64, "-n", 1, devices=1)
        self.assertEqual({r["pct_of_limit"] for r in rows}, {None})
        rows = self.measure("all_reduce", *TWO, "-b", 64, "-e", 64, "-n", 1, "-c", 0)
        self.assertEqual({r["wrong"] for r in rows}, {None})
        for name in self.COLLECTIVES:
            rows = self.measure(name, *TWO, "-b", 4000, "-e", 4000, "-n", 1, "-m", 7, "--bucket", "10000", "--transport", "staged")
            self.assertEqual({(r["agg_iters"], r["transport"]) for r in rows}, {(7, "staged")})
            self.check_collective(name, rows, 2)
        rows = self.measure("broadcast", *TWO, "-b", 64, "-e", 64, "-n", 1, "--algo", "doubling", "--transport", "staged")
        self.assertEqual({r["algo"] for r in rows}, {"ring"})
        text = self.run_bench("all_reduce", *TWO, "-b", 64, "-e", 64, "-n", 1, "--explain").stdout
        self.assertIn("# all 2 ranks, any size: direct over mapped memory", text)
        self.assertIn("# Wrong values: 0 OK", text)

    def test_collectives_wrong_usage(self):
        self.assertNotIn("bool", self.fails(2, "all_reduce", "-d", "f8", says=["-d", "f8", "bf16"]))
        self.fails(2, "all_reduce", "-o", "xor", says=["-o", "xor", "prod"])
        self.fails(2, "all_reduce", "-d", "bool", says=["bool"])
        self.fails(2, "all_reduce", "-m", 0, says=["-m", "4096"])
        self.fails(2, "all_reduce", "--bucket", "none", says=["--bucket"])
        self.fails(2, "all_reduce", "--algo", "tree", says=["--algo", "tree", "reduce-to-one"])
        self.fails(2, "all_reduce", "--transport", "smoke", says=["--transport", "mapped"])
        self.fails(2, "broadcast", *TWO, "--root", 2, says=["--root", "2 ranks"])
        self.fails(2, "reduce", *TWO, "-c", 2, says=["-c"])
        self.fails(3, "all_reduce", "--devices", "pocl:0,intel", "--transport", "peer", says=["peer", "context"])

    def plan(self, model, batch):
        """The launches, as clique plan prints them. If several launches have the same name, the second and later ones
        get a number."""
        command = [CLIQUE, "plan", *support.APART, "--model", str(model), "--batch", str(batch), "--devices", "pocl:0", "--json"]
        result = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | support.unoptimized())
        launches, seen = json.loads(result.stdout)["launches"], {}
        for launch in launches:
            name = (launch["segment"], launch["layer"], launch["launch"])
            seen[name] = seen.get(name, 0) + 1
            launch["name"] = name if seen[name] == 1 else (*name[:2], f"{name[2]} {seen[name]}")
        return launches

    def check_step(self, rows, launches, timing):
        """Checks the rows of one model on one device. Returns the rates from which the limits were computed."""
        *parts, whole = rows
        self.assertEqual([(r["segment"], r["layer"], r["launch"]) for r in parts], [launch["name"] for launch in launches])
        self.assertEqual((whole["segment"], whole["layer"], whole["launch"], whole["launches"]), ("step", "all", "all", len(parts)))
        peaks, traffic, least = [], [], 0
        for row, launch in zip(parts, launches):
            self.assertTrue(0 <= row["us_least"] <= row["us"] <= row["us_most"], row)
            self.assertGreater(row["us"], 0)
            self.assertEqual((row["wall_us"], row["wall_us_least"], row["launches"], row["reason"]), (None,) * 4)
            self.assertAlmostEqual(row["gflops"], launch["flops"] / row["us"] / 1e3, delta=1e-9 * row["gflops"])
            self.assertAlmostEqual(row["gbps"], launch["bytes"] / row["us"] / 1e3, delta=1e-9 * row["gbps"])
            self.assertAlmostEqual(row["share"], row["us"] / whole["us"], places=9)
            least += row["pct_of_limit"] / 100 * row["us"]
            if row["us_least"] > 0:
                most = row["pct_of_limit"] * row["us"] / row["us_least"]
                self.assertAlmostEqual(row["pct_of_limit_most"], most, delta=1e-9 * most)
            if row["limit"] == "arithmetic":
                peaks.append(row["gflops"] / row["pct_of_limit"] * 100)
            else:
                self.assertEqual(row["limit"], "memory")
                traffic.append((launch["bytes"], row["gbps"] / row["pct_of_limit"] * 100))
        for key in ("us", "us_least", "us_most"):
            self.assertAlmostEqual(whole[key], sum(r[key] for r in parts), delta=1e-9 * whole[key])
        self.assertAlmostEqual(whole["pct_of_limit"], 100 * least / whole["us"], delta=1e-9 * whole["pct_of_limit"])
        self.assertTrue(0 < whole["wall_us_least"] <= whole["wall_us"])
        self.assertEqual((whole["share"], whole["limit"], whole["reason"]), (1, None, None))
        self.assertEqual({r["timing"] for r in rows}, {timing})
        return peaks, traffic

    def check_limits(self, rows, launches, timing):
        peaks, traffic = self.check_step(rows, launches, timing)
        for peak in peaks:
            self.assertAlmostEqual(peak, peaks[0], delta=1e-9 * peaks[0])
        traffic.sort(key=lambda pair: pair[0])
        for (_, faster), (_, slower) in zip(traffic, traffic[1:]):
            self.assertGreaterEqual(faster, slower * (1 - 1e-9), "more memory is no faster")
        for row, launch in zip(rows, launches):  # the row's limit is the lower of the two
            if row["limit"] == "memory" and peaks:
                self.assertLessEqual(launch["flops"] / peaks[0], row["pct_of_limit"] / 100 * row["us"] * 1e3 * (1 + 1e-9))

    def test_step(self):
        subjects = [("mlp", "mlp"), ("lenet5.json", LENET)]
        plans = {name: self.plan(model, ODD) for name, model in subjects}
        for timing in ("profile", "alone"):
            rows = self.measure("step", *TWO, "--models", f"mlp,{LENET}", "--batch", ODD, "-n", 9, "-w", 1, "--timing", timing)
            self.assertEqual({r["batch"] for r in rows}, {ODD})
            for device in (0, 1):
                for name, _ in subjects:
                    part = [r for r in rows if (r["device"], r["model"]) == (device, name)]
                    self.check_limits(part, plans[name], timing)
            self.assertEqual([(r["device"], r["model"]) for r in rows if r["segment"] == "step"], [(d, name) for d in (0, 1) for name, _ in subjects])
        rows = self.measure("step", "--devices", "pocl:0", "--models", "mlp", "-n", 1, "-w", 0, devices=1)
        self.assertIn(rows[0]["timing"], ("profile", "alone"))
        self.check_limits(rows, self.plan("mlp", 64), rows[0]["timing"])

    def test_step_of_what_does_not_fit(self):
        rows = self.measure("step", "--devices", "pocl:0", "--models", CNN3X3, "--batch", 1 << 17, "-n", 1, "-w", 0, devices=1)
        self.assertEqual([r["segment"] for r in rows], ["step"])
        # The step is too large, in part or in total.
        self.assertRegex(rows[0]["reason"], "use a smaller batch|would fit")
        known = ("device", "label", "model", "batch", "segment", "layer", "launch", "reason")
        self.assertEqual({value for key, value in rows[0].items() if key not in known}, {None})

    def test_step_wrong_usage(self):
        broken = self.folder / "broken.json"
        broken.write_text("{")
        self.fails(3, "step", "--models", broken, says=["broken.json"])
        self.fails(3, "step", "--models", self.folder / "none.json", says=["none.json"])
        self.fails(3, "step", "--models", GOLDEN / "outputs/two_outputs/model.json", says=["model.json has 2 outputs"])
        self.fails(2, "step", "--models", "lenet", says=["lenet"])
        self.fails(2, "step", "--models", "mlp,", says=["--models"])
        self.fails(2, "step", "--batch", 0, says=["--batch"])
        self.fails(2, "step", "--timing", "sundial", says=["--timing", "sundial"])

    def test_gemm(self):
        shapes = [(17, 33, 9), (1, 1, 1)]
        rows = self.measure("gemm", *TWO, "--sizes", "17x33x9,1x1x1", "-n", 2, "-w", 0)
        self.assertEqual([(r["label"], r["m"], r["n"], r["k"], r["variant"]) for r in rows],
                         [(f"pocl:{d}", *s, v) for d in (0, 1) for s in shapes for v in ("tile", "local", "clblast")])
        for row in rows:
            self.check_flops(row, 2 * row["m"] * row["n"] * row["k"])
            self.assertEqual(row["us"], row["time_us"]["p50"])
            self.assertEqual(row["chosen"], row["variant"] == "tile", "on a CPU")
        few = self.measure("gemm", "--devices", "intel", "--sizes", "5x6x7", "--variants", "local,tile", "-n", 1, devices=1)
        self.assertEqual([r["variant"] for r in few], ["tile", "local"])
        self.assertEqual({r["transpose"] for r in rows + few}, {"nn"})
        chosen = self.measure("gemm", "--devices", "intel", "--sizes", "5x6x7,3x3x3:tn", "--variants", "chosen", "-n", 1, devices=1)
        self.assertEqual([(r["m"], r["variant"], r["chosen"]) for r in chosen], [(5, "tile", True), (3, "tile", True)])
        turned = self.measure("gemm", "--devices", "pocl:0", "--sizes", "5x6x7:tn,5x6x7:nt,5x6x7:tt,5x6x7:nn", "--variants", "tile", "-n", 1, devices=1)
        self.assertEqual([r["transpose"] for r in turned], ["tn", "nt", "tt", "nn"])
        self.assertEqual({(r["dtype"], r["precision"]) for r in rows + few + chosen + turned}, {("f32", "highest")})
        halves = self.measure("gemm", "--devices", "intel", "--sizes", "20x36x8,5x6x7:tt", "-d", "f16", "-n", 1, devices=1)
        self.assertEqual([(r["m"], r["dtype"], r["variant"], r["chosen"], r["wrong"]) for r in halves], [(m, "f16", variant, variant == "tile", 0) for m in (20, 5) for variant in ("tile", "local")])
        lower = self.measure("gemm", "--devices", "pocl:0", "--sizes", "5x6x7", "--variants", "chosen", "--matmul-precision", "medium", "-n", 1, devices=1)
        self.assertEqual([(r["precision"], r["wrong"]) for r in lower], [("medium", 0)])
        self.fails(2, "gemm", "-d", "f64", says=["-d", "f64"])
        self.fails(2, "gemm", "-d", "f16", "--variants", "clblast", says=["f16", "tile", "local"])
        self.fails(2, "gemm", "--matmul-precision", "low", says=["matmul precision 'low'"])
        for wrong in ("", "1x2", "1x2x3x", "1x2x3x4", "0x1x1", "1x1x99999999", "1x1x1,", "axbxc", "1x1x1:", "1x1x1:xt", "1x1:nnx1", "1x1x1nt"):
            self.fails(2, "gemm", "--sizes", wrong, says=["--sizes"])
        for wrong in ("", "tile,", "best"):
            self.fails(2, "gemm", "--variants", wrong, says=["--variants"])

    def test_conv(self):
        layers = {FEW: 2 * (4 * 4 * 4) * (3 * 2 * 3), "1x7x7x2:3x3x5/2+same": 1 * (4 * 4 * 5) * (3 * 3 * 2), "3x4x4x8:1x1x2": 3 * (4 * 4 * 2) * 8}
        rows = self.measure("conv", *TWO, "--layers", ",".join(layers), "-n", 2, "-w", 0)
        self.assertEqual([(r["label"], r["layer"], r["what"]) for r in rows],
                         [(f"pocl:{d}", layer, what) for d in (0, 1) for layer in layers for what in ("forward", "data gradient", "weight gradient")])
        for row in rows:
            self.check_flops(row, 2 * layers[row["layer"]])
        self.assertEqual({r["variant"] for r in rows}, {"direct"})
        for variant in ("winograd", "wide"):
            forced = self.measure("conv", "--devices", "pocl:0", "--layers", "4x9x9x16:3x3x16", "--variant", variant, "-n", 1, "-w", 0, devices=1)
            self.assertEqual([(r["variant"], r["wrong"]) for r in forced], [(variant, 0)] * 3)
        self.fails(2, "conv", "--variant", "best", says=["--variant"])
        for wrong in ("", "1x1x1x1", "1x2x2x1:3x3x1", "1x8x8x1:3x3x1/0", "1x8x8x1:3x3x1/1+valid", "0x8x8x1:3x3x1", "1x8x8x1:3x3x1,"):
            self.fails(2, "conv", "--layers", wrong, says=["--layers"])

    def test_ops(self):
        rows = self.measure("ops", *TWO, "--batch", 2, "--parameters", 1001, "-n", 2, "-w", 0)
        plane, pooled, scores = 4 * 2 * 26 * 26 * 32, 4 * 2 * 13 * 13 * 32, 4 * 2 * 1000
        traffic = {"relu": 2 * plane, "relu backward": 3 * plane, "tanh": 2 * plane, "softmax": 2 * scores, "max pool": plane + pooled + pooled // 4,
                   "max pool backward": plane + pooled + pooled // 4, "cross-entropy": 2 * scores, "adam": 7 * 4 * 1001}
        self.assertEqual([(r["device"], r["op"], r["bytes"]) for r in rows], [(d, *op) for d in (0, 1) for op in traffic.items()])
        for row in rows:
            self.check_times(row)
            self.check_limit(row, "gbps")
            self.assertEqual((row["wrong"], row["reason"]), (0, None))
            self.assertGreater(row["limit_gbps"], 0)
            self.assertAlmostEqual(row["gbps"], row["bytes"] / row["time_us"]["p50"] / 1e3, delta=1e-9 * row["gbps"])
        self.fails(2, "ops", "--batch", 0, says=["--batch"])
        self.fails(2, "ops", "--parameters", "many", says=["--parameters"])

    def test_results_can_be_compared_and_reported(self):
        tiny = ["-n", 2, "-w", 0]
        runs = {"memory": ["-b", 64, "-e", 64], "launch": [], "p2p": ["-b", 64], "gemm": ["--sizes", "1x1x1"], "conv": ["--layers", FEW],
                "ops": ["--batch", 2, "--parameters", 1001], "step": ["--models", "mlp", "--batch", ODD]}
        files = []
        for name, args in runs.items():
            rows = self.measure(name, *TWO, *args, *tiny)
            files.append(self.folder / f"{name}.json")
            (self.folder / "bench.json").rename(files[-1])
            result = subprocess.run([CLIQUE, "compare", files[-1], files[-1], "--json"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            compared = json.loads(result.stdout)
            self.assertTrue(compared["same_machine"])
            self.assertEqual({r["measure"] for r in compared["rows"]}, {"us" if name == "step" else "time_us"})
            self.assertEqual(len({json.dumps(r["key"]) for r in compared["rows"]}), len(rows), "each row has a key of its own")
        page = self.folder / "report.html"
        self.assertEqual(subprocess.run([CLIQUE, "report", *files, "-o", page], capture_output=True).returncode, 0)
        self.assertIn("heat", page.read_text())

    def test_help(self):
        text = subprocess.run([CLIQUE, "bench", "--help"], capture_output=True, text=True).stdout
        names = [line.split()[0] for line in text.split("Benchmarks:\n")[1].splitlines() if line[2:3].strip()]
        self.assertLessEqual({"memory", "launch", "p2p", "gemm", "conv", "ops", "step", "train"}, set(names))
        for name in names:
            result = self.run_bench(name, "--help")
            self.assertEqual(result.returncode, 0)
            for option in ("--devices", "--build-deadline", "--json", "--csv", "-n", "-w"):
                self.assertIn(option, result.stdout, name)

    def test_interrupted(self):
        path, table = self.folder / "bench.json", self.folder / "bench.csv"
        args = [*TWO, "-n", "1000"]
        process = subprocess.Popen([CLIQUE, "bench", "memory", *args, "--json", str(path), "--csv", str(table)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        with process:
            shown = []
            for line in process.stderr:
                shown.append(line)
                if line.startswith("pocl:0 ") and len(shown) < 5:
                    process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(240), 130)
        rows = self.check_files("memory", args, path, table, 2, False)
        self.assertTrue(1 <= len(rows) < 128, len(rows))
        self.assertEqual(sum(line.startswith("pocl:0 ") for line in shown), len(rows), "what is told is kept")
        errors = [line for line in shown if line.startswith("clique: error: ")]
        self.assertEqual(errors, [f"clique: error: interrupted after {len(rows)} row{'s' if len(rows) > 1 else ''}\n"])

    def run_odd(self, name, *args, **environment):
        """Runs with devices as tests/support/odd_layer.c imitates them, with a separate cache."""
        odd = {"OPENCL_LAYERS": str(LAYER), "CLIQUE_CACHE_DIR": str(self.folder / "cache")} | environment
        return subprocess.run([CLIQUE, "bench", name, *map(str, args)], capture_output=True, env=os.environ | odd, timeout=240)

    def test_wrong_rows_are_counted_once(self):
        result = self.run_odd("all_reduce", *TWO, "-b", 5000, "-e", 5000, "-n", 1, "-w", 0, "--json", self.folder / "wrong.json",
                              CLQ_TEST_WRONG_READ="5000")
        rows = json.loads((self.folder / "wrong.json").read_text())["rows"]
        self.assertEqual([r["wrong"] for r in rows], [2, 2], "a value on each rank")
        self.assertEqual(result.returncode, 4)
        self.assertIn(b"clique: error: 2 rows with wrong data", result.stderr)

    def test_one_file_that_cannot_be_written_does_not_lose_the_other(self):
        for gone, kept in (("--json", "--csv"), ("--csv", "--json")):
            lost, path = self.folder / "lost", self.folder / "kept"
            lost.mkdir()
            process = subprocess.Popen([CLIQUE, "bench", "memory", *TWO, "-n", "1000", gone, str(lost / "file"), kept, str(path)],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            shown = []
            with process:
                for line in process.stdout:
                    shown.append(line)
                    if line.startswith("pocl:0 ") and lost.exists():
                        lost.rmdir()
                        process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(240), 130)
            rows = sum(line.startswith("pocl:0 ") for line in shown)
            self.assertGreater(rows, 0)
            text = path.read_text()
            self.assertEqual(len(json.loads(text)["rows"]) if kept == "--json" else len(text.splitlines()) - 1, rows)
            error, = (line for line in shown if line.startswith("clique: error: "))
            self.assertRegex(error, f"interrupted after {rows} rows?; {lost}/file: cannot create")

    def test_a_sweep_of_a_million_million_sizes_begins_at_once(self):
        process = subprocess.Popen([CLIQUE, "bench", "all_reduce", *TWO, "-b", "0", "-e", "1024G", "-i", "1", "-n", "1", "-w", "0"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        watch = threading.Timer(120, process.kill)  # counting all sizes one by one would take ten times as long
        watch.start()
        with process:
            while not process.stdout.readline().split()[:1] == ["0"] and process.poll() is None:
                pass
            process.send_signal(signal.SIGINT)
            process.communicate()
        watch.cancel()
        self.assertEqual(process.returncode, 130, "the first size was measured, and Ctrl-C ended the sweep")

    def test_wrong_usage(self):
        for wrong in (["-b", "x"], ["-b", "4X"], ["-b", ""], ["-b", "K"], ["-e", "-1"], ["-f", 1], ["-i", 0], ["-b", 0], ["-b", "2M", "-e", "1M"],
                      ["-e", "2000G"]):
            self.fails(2, "memory", *TWO, *wrong, says=[next(w for w in reversed(wrong) if str(w)[:1] == "-" and len(str(w)) == 2 and str(w)[1:].isalpha())])
        self.fails(2, "launch", "-b", 3, says=["-b"])
        self.fails(1, "launch", *TWO, "-n", 1, "--json", self.folder / "none" / "x.json", says=["x.json"])
        self.fails(2, "nothing", says=["nothing"])
        self.fails(2, "train", "-n", 0, says=["-n"])
        self.fails(2, "train", "-w", "x", says=["-w"])
        self.fails(2, "train", "--frobnicate", says=["--frobnicate", "clique bench train --help"])
        self.fails(2, "train", "--devices", "pocl:0*x", says=["pocl:0*x"])
        self.fails(4, "train", "--devices", "nvidia", says=["nvidia"])

    def test_named_models_fit_the_data(self):
        text = self.folder / "text"
        text.write_bytes(b"abcdefgh" * 200)
        for model, data in (("cnn1", "synthetic:8x8x3/5/128"), ("gpt:layers=1,width=16,heads=2,context=8", f"text:{text}")):
            result = self.run_bench("train", "--models", model, "--data", data, "--devices", "pocl:0", "-n", 1, "-w", 0)
            self.assertIn(model[:4], result.stdout)
        self.fails(2, "train", "--models", "vit-tiny:patch=5", "--data", "synthetic:8x8x3/5/128", says=["images of 8 x 8"])

    def test_table(self):
        result = self.run_bench("train", "--models", "mlp", "--data", "synthetic:28x28/10/256", *TWO, "-n", 1, "-w", 0)
        lines = [line for line in result.stdout.splitlines() if not line.startswith("note: ")]
        self.assertEqual([line[:8] for line in lines[:2]], ["# pocl:0", "# pocl:1"])
        self.assertTrue(lines[2].startswith("model "))
        self.assertEqual(len(lines), 5)
        self.assertEqual(len({len(line) for line in lines[2:]}), 1, "the columns are aligned")


if __name__ == "__main__":
    unittest.main(verbosity=1)
