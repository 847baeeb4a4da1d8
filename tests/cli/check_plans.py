#!/usr/bin/env python3
"""Tests `clique plan`: what it prints of a step, of its split among devices, and of many machines.

usage: check_plans.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import json
import os
import pathlib
import unittest

import support
from commands import Commands, LEAST, SMALL, SYNTHETIC, run


class Plans(Commands):
    def simulated(self, *args):
        result = run("plan", "--machines", *args, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_named_models_fit_the_data(self):
        for name, data, parameters in (("cnn1", "synthetic:8x8x3/5/64", 32 * (27 + 1) + (3 * 3 * 32 + 1) * 5), ("mlp:units=3", "synthetic:7/2/64", 3 * 8 + 2 * 4),
                                       ("mlp:units=3,classes=4,input=7", "synthetic:7/2/64", 3 * 8 + 4 * 4)):
            plan = json.loads(run("plan", "--model", name, "--data", data, "--devices", "pocl:0", "--batch", 32, "--json").stdout)
            self.assertEqual(sum(v["elements"] for v in plan["variables"]), parameters)
        self.fails(2, "plan", "--model", "mlp:units=0", says=["mlp", "units '0'"])
        self.fails(2, "plan", "--model", "vit-tiny:patch=5", "--data", "/no/such", says=["no whole patches", "shape and classes are assumed", "/no/such"])

    def test_plan_graph(self):
        """What a step computes, after each pass over its graph."""
        command = ("plan", "--model", "cnn", "--batch", 64, "--devices", "pocl:0")
        nodes = json.loads(run(*command, "--graph", "--json").stdout)["graph"]
        passes = list(dict.fromkeys(node["pass"] for node in nodes))
        self.assertEqual(passes, ["expand", "lower", "fuse", "place output", "differentiate", "fuse gradients", "update"])
        of = {name: [node for node in nodes if node["pass"] == name] for name in passes}
        count = lambda name, operation: sum(node["operation"] == operation for node in of[name])
        self.assertEqual(count("expand", "conv2d"), 2)
        self.assertEqual(count("fuse", "conv2d") + count("fuse", "conv_pool"), 2)
        self.assertEqual({node["segment"] for node in of["expand"]}, {"forward", "loss"})
        self.assertEqual(of["update"][-1]["operation"], "update")
        gradients = [text.split(":")[0] for node in of["update"] for text in node["outputs"] if text.startswith("gradient ")]
        self.assertEqual(len(gradients), len(set(gradients)))
        self.assertIn("gradient dense/kernel", gradients)
        text = run(*command, "--graph").stdout.split("\nafter ")[1:]
        self.assertEqual([part.splitlines()[0] for part in text], passes)
        self.assertEqual([len(part.split("\n\n")[0].strip().splitlines()) - 1 for part in text],
                         [len(of[name]) for name in passes])
        self.assertNotIn("graph", json.loads(run(*command, "--json").stdout))

    def test_plan(self):
        plan = json.loads(run("plan", "--model", "cnn", "--batch", 64, "--devices", "pocl:0", "--json", whole=True).stdout)
        self.assertLess(plan["activation_bytes"], plan["activation_bytes_unplanned"])
        self.assertGreaterEqual(plan["param_bytes"], 34826 * 4)
        self.assertEqual({l["segment"] for l in plan["launches"]}, {"forward", "loss", "backward", "update"})
        paths = {p["name"]: p for p in plan["paths"]}
        self.assertEqual(list(paths), ["one launch", "input in place", "upload ahead", "own rows", "overlap", "sharded update", "busy wait"])
        self.assertTrue(paths["one launch"]["on"] and paths["one launch"]["reason"] is None)
        self.assertEqual(paths["sharded update"], {"name": "sharded update", "stage": "exchange", "on": False,
                                                   "reason": "there is one replica"})
        self.assertEqual(paths["upload ahead"], {"name": "upload ahead", "stage": "input", "on": False,
                                                 "reason": "the device's memory is the host's"})
        two = run("plan", "--model", LEAST, "--batch", 64, "--devices", "pocl:0,pocl:1", whole=True).stdout
        self.assertRegex(two, r"\nsharded update +exchange +yes *\n")
        self.assertRegex(two, r"\noverlap +exchange +no +the gradient is small, or exchanged in the host's memory\n")

    def test_machines(self):
        """Steps on many machines, compared with rings computed by hand; without devices, and measured on one."""
        given = ("--compute-ms", "10,20,2", "--gradient", "4e7@0.5,8e7@1", "--batch", 32)
        plan = self.simulated(6, "--link", 1, "--latency", 0, *given)
        self.assertEqual([row["machines"] for row in plan["rows"]], [1, 2, 4, 6])
        self.assertEqual(plan["rows"][0]["efficiency"], 1)
        for row in plan["rows"][1:]:  # exchanges at 1 ns a byte: the first part from 20 ms on, then the second
            n = row["machines"]
            ring = 2 * (n - 1) / n * 120  # ms
            self.assertAlmostEqual(row["exchange_ms"] / ring, 1, delta=0.01)  # plus the messages, and the additions
            self.assertAlmostEqual(row["step_ms"] / (20 + ring + 2), 1, delta=0.01)
            self.assertAlmostEqual(row["efficiency"], 32 / row["step_ms"], places=9)
            self.assertAlmostEqual(row["images_per_s"], 1e3 * 32 * n / row["step_ms"], places=6)
        self.assertGreater(self.simulated(2, *given, "--spread", 0.1)["rows"][1]["waiting_ms"], 1)
        # A ring's latency grows with the machines, a torus's latency with their square root.
        rows = self.simulated(1024, "--latency", 100, *given)["rows"]
        self.assertEqual([row["algorithm"] for row in rows][-1], "torus")
        text = run("plan", "--machines", 1024, "--devices-per-machine", 4, *given).stdout
        self.assertRegex(text, r"\n +1024 +4096 ")
        self.assertRegex(text, r"\nadding machines pays up to \d+: ")
        # More machines are slower at first and faster later: they do not pay.
        losing = self.simulated(64, "--compute-ms", "10,20", "--gradient", "4e8@0.1,6e7@1")
        self.assertLess(losing["rows"][1]["gain"], 1)
        self.assertEqual(losing["pays_to_machines"], 1)
        env = {**os.environ, "OCL_ICD_VENDORS": str(self.folder)}  # no driver
        result = run("plan", "--machines", 4, "--model", "mlp", "--compute-ms", "1,2", env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        measured = self.simulated(2, *SMALL[:4], "--devices", "pocl:0", "--batch", 64)
        self.assertTrue(measured["measured"] and not plan["measured"])
        self.assertTrue(all(ms > 0 for ms in measured["compute_ms"].values()), measured["compute_ms"])
        self.fails(2, "plan", "--link", 1, says=["--link", "--machines"])
        self.fails(2, "plan", "--machines", 0, says=["machines"])
        self.fails(2, "plan", "--machines", 2, "--gradient", "4@1", says=["--compute-ms"])
        for option, wrong in (("link", "fast"), ("link", 0), ("latency", -1), ("spread", 3), ("compute-ms", "1"), ("compute-ms", "1,2,3,4"),
                              ("compute-ms", "0,0"), ("gradient", "4"), ("gradient", "4@2"), ("gradient", "4@1,4@0.5"), ("gradient", "4@1,"), ("gradient", "1e12@0,1e12@1")):
            self.fails(2, "plan", "--machines", 2, *(given[:2] if option != "compute-ms" else ()), f"--{option}", wrong, says=[f"--{option}"])

    def test_recomputation(self):
        """`auto` takes the first plan that fits, with the same losses. `plan` shows all plans."""
        command = ("--model", "cnn", "--batch", 64, "--devices", "pocl:0")
        plan = json.loads(run("plan", *command, "--json").stdout)
        rows = plan["recompute"]
        self.assertEqual((rows[0]["recompute"], rows[0]["estimated_time"], rows[0]["measured_ms"]), ("off", 1, None))
        self.assertEqual([row["taken"] for row in rows], [True] + [False] * (len(rows) - 1))
        self.assertEqual(rows[0]["activation_bytes"], plan["activation_bytes"])
        self.assertEqual(rows[-1]["recompute"], "all")
        self.assertTrue(all(a["activation_bytes"] > b["activation_bytes"] for a, b in zip(rows, rows[1:])))
        least = json.loads(run("plan", *command, "--recompute", "all", "--json").stdout)
        self.assertEqual(least["activation_bytes"], rows[-1]["activation_bytes"])
        self.assertTrue(least["recompute"][-1]["taken"])
        self.assertRegex(run("plan", *command).stdout, r"\noff +[0-9.]+ +1.00 +1.00x +-  taken\n")
        train = ("train", *command, "--data", SYNTHETIC, "--take", 128, "--no-test", "--steps", 2)
        want = json.loads(run(*train, "--json").stdout)
        limit = want["device_bytes"] - 1
        result = run(*train, "--recompute", "auto", "--memory-limit", limit, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        got = json.loads(result.stdout)
        self.assertLessEqual(got["device_bytes"], limit)
        self.assertEqual(got["epochs"][0]["loss"], want["epochs"][0]["loss"])
        self.assertEqual(got["step_ms"], {"p50": None, "p95": None})  # two steps are too few to measure
        measured = json.loads(run("plan", *command, "--measure", "--json").stdout)["recompute"]
        self.assertTrue(all(row["measured_ms"] > 0 for row in measured))
        self.fails(4, *train, "--recompute", "auto", "--memory-limit", limit // 4, says=["would fit"])
        counted = self.fails(4, *train, "--recompute", "auto", "--memory-limit", limit // 2, says=["a batch of", "would fit"])
        self.assertNotIn("smaller --batch", counted)  # the error already said whether one would fit
        self.fails(2, *train, "--recompute", "auot", says=["auto"])

    def test_plan_writes_the_model(self):
        """The file is a Keras file. Clique reads it back as the original model. A failed write leaves no file."""
        path = self.folder / "cnn.json"
        told = json.loads(run("plan", "--model", "cnn", "--write-model", path, "--json").stdout)
        self.assertEqual(told["parameters"], 32 * 10 + 64 * (9 * 32 + 1) + 10 * (1600 + 1))
        layers = [layer["class_name"] for layer in json.loads(path.read_text())["config"]["layers"]]
        self.assertEqual(layers, ["InputLayer", "Conv2D", "MaxPooling2D", "Conv2D", "MaxPooling2D", "Flatten", "Dense"])
        again = self.folder / "again.json"
        self.assertIn(f"to {again}", run("plan", "--model", path, "--write-model", again).stdout)
        self.assertEqual(again.read_text(), path.read_text())
        self.fails(1, "plan", "--write-model", self.folder / "none" / "cnn.json", says=["none/cnn.json"])
        self.fails(2, "plan", "--write-model", path, "--machines", 2, says=["exclude each other"])

    def test_plan_of_a_pipeline(self):
        command = ("plan", "--model", "cnn", "--batch", 256, "--devices", "pocl:0,pocl:1", "--strategy", "pipeline",
                   "--micro-batches", 4)
        plan = json.loads(run(*command, "--json").stdout)
        pipeline, stages = plan["pipeline"], plan["pipeline"]["stages"]
        self.assertEqual((pipeline["pipelines"], pipeline["micro_batches"], pipeline["bubble"]), (1, 4, 1 / 5))
        self.assertTrue(pipeline["bubble"] < pipeline["bubble_expected"] < 1)
        self.assertEqual([name for s in stages for name in s["layers"]],
                         ["input_layer", "conv2d", "max_pooling2d", "conv2d_1", "max_pooling2d_1", "flatten", "dense"])
        self.assertEqual(sum(s["parameters"] for s in stages), 34826)
        self.assertEqual([v["name"] for v in plan["variables"]], ["conv2d/kernel", "conv2d/bias"])
        self.assertEqual((stages[0]["sent_bytes"], stages[0]["back_bytes"]), (64 * 13 * 13 * 32 * 4,) * 2)
        self.assertEqual((stages[1]["sent_bytes"], stages[1]["back_bytes"]), (0, 0))
        self.assertTrue(all(s["memory_bytes"] > 0 and s["forward_work"] > 0 and s["backward_work"] > 0 for s in stages))
        reasons = {p["name"]: p["reason"] for p in plan["paths"]}
        self.assertEqual(reasons["input in place"], reasons["overlap"])
        text = run(*command).stdout
        self.assertRegex(text, r"\n2 stages, 1 pipeline, 4 micro-batches, cut by estimates: .* 20.0 % .*\n")
        self.assertRegex(text, r"\n +0 +320 .*  input_layer, conv2d, max_pooling2d\n")

    def test_plan_of_synchronized_statistics(self):
        model = self.put("model.json", support.synchronized_model())
        command = ("plan", "--model", model, "--json")  # 8 samples per replica
        one, two = (json.loads(run(*command, "--batch", batch, "--devices", devices, whole=whole).stdout)
                    for batch, devices, whole in ((8, "pocl:0", False), (16, "pocl:0,pocl:1", True)))
        exchanges, none = ([l for l in plan["launches"] if l["kernel"] == "all_reduce"] for plan in (two, one))
        self.assertEqual([(l["segment"], l["layer"], l["launch"], l["bytes"]) for l in exchanges],
                         [(segment, "batchnormalization_3", "all-reduce", 2 * 4 * 12 * rows)
                          for segment, rows in (("forward", 2 * 3), ("backward", 2))])
        self.assertEqual(none, [])
        reasons = {p["name"]: p["reason"] for p in two["paths"]}
        self.assertEqual(reasons["one launch"], "sums are exchanged within the step")

    def test_plan_of_a_split_model(self):
        """--strategy tensor: which variables replicas split, and which launches add partial sums."""
        command = ("plan", "--model", "mlp", "--batch", 16, "--strategy", "tensor", "--devices", "pocl:0,pocl:1,pocl:2")
        plan = json.loads(run(*command, "--graph", "--json").stdout)
        self.assertEqual({v["name"]: v.get("split") for v in plan["variables"]},
                         {"dense/kernel": {"by": "columns", "axis": 1, "counts": [42, 43, 43]},
                          "dense/bias": {"by": "columns", "axis": 0, "counts": [42, 43, 43]},
                          "dense_1/kernel": {"by": "rows", "axis": 0, "counts": [42, 43, 43]}, "dense_1/bias": None})
        cut = [(node["operation"], node["layer"]) for node in plan["graph"] if node["pass"] == "cut"]
        self.assertIn(("all_reduce", "dense_1"), cut)
        sums = [(l["segment"], l["layer"], l["bytes"]) for l in plan["launches"] if l["kernel"] == "all_reduce"]
        self.assertEqual(sums, [("forward", "dense_1", 2 * 4 * 10 * 16)])  # no gradient of the samples is computed
        self.assertRegex(run(*command).stdout, r"\ndense_1/kernel +rows +0 +42 43 43\nparameters of each replica: ")
        reasons = {p["name"]: p["reason"] for p in plan["paths"]}
        self.assertEqual({reasons["overlap"], reasons["sharded update"]}, {"replicas split the weights, not the batch"})
        self.assertEqual(plan["batch"], 16)
        self.fails(2, "plan", "--model", "cnn", "--strategy", "tensor", "--devices", "pocl:0*11",
                   says=["no Dense layer of at least 11 units", "mirrored"])

    def test_plan_of_split_attention(self):
        """Attention is split by heads, and the table by columns. Each replica has fewer parameters."""
        command = ("plan", "--model", "gpt:layers=1,width=48,heads=3,context=8,vocabulary=64", "--batch", 2, "--json")
        two, one = (json.loads(run(*command, *how).stdout)
                    for how in (("--devices", "pocl:0,pocl:1", "--strategy", "tensor"), ("--devices", "pocl:0")))
        split = {v["name"]: v.get("split") for v in two["variables"]}
        for part in ("query", "key", "value"):
            self.assertEqual(split[f"multi_head_attention/{part}/kernel"], {"by": "columns", "axis": 1, "counts": [1, 2]})
            self.assertEqual(split[f"multi_head_attention/{part}/bias"], {"by": "columns", "axis": 0, "counts": [1, 2]})
        self.assertEqual(split["multi_head_attention/attention_output/kernel"], {"by": "rows", "axis": 0, "counts": [1, 2]})
        self.assertEqual(split["embedding/embeddings"], {"by": "columns", "axis": 1, "counts": [24, 24]})
        for name in ("multi_head_attention/attention_output/bias", "position_embedding/embeddings", "layer_normalization/gamma"):
            self.assertIsNone(split[name])
        self.assertLess(two["param_bytes"], 0.7 * one["param_bytes"])
        sums = [(l["segment"], l["layer"]) for l in two["launches"] if l["kernel"] == "all_reduce"]
        self.assertEqual(sums, [("forward", "embedding"), ("forward", "multi_head_attention"), ("forward", "dense_1"),
                                ("backward", "dense"), ("backward", "multi_head_attention")])

    def test_plan_of_turned_kernels(self):
        """Kernels are split by inputs, whichever axis holds these."""
        golden = json.loads((pathlib.Path(__file__).parent.parent / "golden" / "single_layers.json").read_text())
        model = self.folder / "turned.json"
        model.write_text(json.dumps(next(m["model"] for m in golden["models"] if m["name"] == "kernels_turned")))
        plan = json.loads(run("plan", "--model", model, "--batch", 2, "--devices", "pocl:0,pocl:1", "--strategy", "tensor", "--json").stdout)
        self.assertEqual({v["name"]: v["split"] for v in plan["variables"] if "kernel" in v["name"]},
                         {"front/kernel": {"by": "columns", "axis": 1, "counts": [2, 2]},
                          "heads/kernel": {"by": "rows", "axis": 1, "counts": [2, 2]},
                          "mixed/kernel": {"by": "rows", "axis": 2, "counts": [2, 2]},
                          "joined/kernel": {"by": "rows", "axis": 2, "counts": [1, 1]}})

    def test_open_sizes(self):
        """The command line gives the sizes that a model's file leaves open, as one number or as shapes."""
        model = support.sequential("wide", [("GlobalAveragePooling2D", {}), ("Dense", {"units": 2, "activation": "softmax"})])
        model["config"]["layers"][0]["config"]["batch_shape"] = [None, None, None, 1]
        common = ["--model", self.put("wide.json", model), "--devices", "pocl:0"]
        plans = [json.loads(run("plan", *common, "--input-shape", shape, "--json").stdout) for shape in ("6", "6x6x1", "6x12x1")]
        self.assertEqual(plans[0], plans[1])
        work = [sum(launch["flops"] for launch in plan["launches"]) for plan in plans]
        self.assertLess(work[0], work[2])
        weights = self.folder / "w.safetensors"
        common += ["--data", "synthetic:6x6x1/2/64", "--batch", 32, "--input-shape", "6x6x1"]
        self.train(*common, "--no-test", "--steps", 1, "--save", weights)
        self.assertEqual(run("eval", *common, "--weights", weights).returncode, 0)
        self.fails(3, "plan", *common[:4], says=["wide.json", "batch_shape[1] is open", "--input-shape"])
        self.fails(3, "plan", *common[:4], "--input-shape", "6x6x3", says=["batch_shape[3] is 1", "has 3"])
        self.fails(3, "plan", *common[:4], "--input-shape", "6x6x1,6x6x1", says=["2 inputs", "has 1"])
        for bad in ("", "x", "6x", "0", "-1", "6x0x1", "1x1x1x1x1x1x1x1x1", "6,"):
            self.fails(2, "plan", *common[:4], "--input-shape", bad, says=[f"--input-shape '{bad}'", "224x224x3"])
        self.fails(2, "plan", "--model", LEAST, "--input-shape", "28", says=["--input-shape '28'", "leaves no size of its inputs open"])
        self.fails(2, "plan", "--model", "mlp", "--input-shape", "28", says=["--input-shape", "'mlp'"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
