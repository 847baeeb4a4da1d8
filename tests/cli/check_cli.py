#!/usr/bin/env python3
"""Tests the command line against docs/command-line.md and docs/contract.md: outputs, exit codes, one clear line per
failure, nothing left behind.

usage: check_cli.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import gzip
import json
import os
import pathlib
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import support
from support import npy

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin")
CLIQUE = str(BIN / "clique")
# Drivers' compilers take most of this test's time. For them, each combination of model, batch, optimizer and devices is
# a separate program. So most tests train one model, the smallest one with weights, with the same settings. Tests that
# need a model with two layers use mlp, with the same settings. Each launch of the convolutional models has 64 samples.
# Kernels are launched one by one (support.APART), so replicas do not share the parts of an update, either.
MODELS = tempfile.TemporaryDirectory()
LEAST = support.put_least(MODELS.name)
# `synthetic` itself generates 60000 samples, which takes three times as long as these trainings.
SAMPLES, TESTED = 1920, 320  # test sets have a sixth as many samples
SYNTHETIC = f"synthetic:28x28/10/{SAMPLES}"
COMMON = ["--data", SYNTHETIC, "--take", "640", "--devices", "pocl:0"]
# A model with more parameters than a given memory budget allows, so that stages train it.
WIDE_MODEL = pathlib.Path(MODELS.name) / "wide.json"
WIDE_MODEL.write_text(json.dumps(support.sequential("wide", [("Flatten", {}), *(
    ("Dense", {"units": units, "activation": activation}) for units, activation in ((300, "tanh"), (700, "tanh"), (10, "softmax")))])))
WIDE = ["--model", str(WIDE_MODEL), "--data", SYNTHETIC, "--take", "48", "--batch", "16"]
SMALL, MLP = ["--model", LEAST, *COMMON], ["--model", "mlp", *COMMON]


def run(*args, whole=False, unoptimized=False, **kwargs):
    """whole: a step may be one launch. unoptimized: kernels are compiled without optimization. The kernels may differ,
    too, because a device's rates influence their choice."""
    args = list(map(str, args))
    if unoptimized:
        kwargs["env"] = os.environ | support.unoptimized()
    if args and args[0] in ("train", "eval", "predict", "plan", "tune") and not whole:
        args[1:1] = support.APART
    return subprocess.run([CLIQUE, *args], capture_output=True, text=True, timeout=240, **kwargs)


class CommandLine(support.InFolder):
    def fails(self, code, *args, says=()):
        result = run(*args)
        lines = [line for line in result.stderr.splitlines() if line.startswith("clique: error: ")]
        self.assertEqual(result.returncode, code, f"{args}: {result.stderr}")
        self.assertEqual(len(lines), 1, f"{args}: {result.stderr}")
        for word in says:
            self.assertIn(word, lines[0])
        return lines[0]

    def train(self, *args, **more):
        result = run("train", *args, "--json", **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    # ---- successful commands ----

    def test_version_and_help(self):
        self.assertRegex(run("--version").stdout, r"^clique \d+\.\d+\.\d+")
        for command in ("devices", "doctor", "train", "eval", "predict", "generate", "plan", "tune"):
            result = run(command, "--help")
            self.assertEqual(result.returncode, 0, command)
            self.assertIn("--", result.stdout)

    def test_devices(self):
        devices = json.loads(run("devices", "--json").stdout)["devices"]
        self.assertGreaterEqual(len(devices), 6)
        keys = {"index", "driver", "name", "vendor", "platform", "driver_version", "type", "compute_units", "global_mem_bytes",
                "max_alloc_bytes", "opencl_version", "host_unified", "pci", "usable", "reason"}
        for i, device in enumerate(devices):
            self.assertLessEqual(keys, device.keys())
            self.assertEqual(device["index"], i)
            self.assertTrue(device["usable"], device)
        self.assertIn("pocl", {d["driver"] for d in devices})
        if os.uname().machine == "x86_64":
            self.assertIn("intel", {d["driver"] for d in devices})

    def test_unlisted(self):
        gpu = self.folder / "sys/bus/pci/devices/0000:41:00.0"
        gpu.mkdir(parents=True)
        (gpu / "class").write_text("0x030200\n")
        (gpu / "vendor").write_text("0x10de\n")
        (self.folder / "dev").mkdir()
        (self.folder / "dev/nvidia0").write_text("")
        env = {**os.environ, "CLIQUE_MACHINE_ROOT": str(self.folder)}
        unlisted = json.loads(run("devices", "--json", env=env).stdout)["unlisted"]
        self.assertEqual([(u["vendor"], u["pci"]) for u in unlisted], [("nvidia", "0000:41:00.0")])
        self.assertIn("no OpenCL driver", unlisted[0]["reason"])
        self.assertIn("nvidia-opencl-icd", unlisted[0]["remedy"])
        line = f"the nvidia GPU 0000:41:00.0 is not used: {unlisted[0]['reason']}; {unlisted[0]['remedy']}\n"
        self.assertIn(line, run("devices", env=env).stdout)
        result = run("doctor", "--devices", "pocl:0", "--json", env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["unlisted"], unlisted)
        self.assertIn(line, result.stderr)
        train = ["train", "--model", LEAST, "--data", SYNTHETIC, "--take", 128, "--steps", 1, "--no-test"]
        for times in range(2):  # with the full list of devices, then with the kept list
            result = run(*train, env=env)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr, "clique: warning: " + line)
        self.assertEqual(run(*train, "--devices", "pocl:0", env=env).stderr, "")
        self.assertIn("clique: warning: " + line, run("bench", "launch", "-n", 3, env=env).stderr)
        # A machine without GPUs.
        (gpu / "vendor").write_text("0x1af4\n")
        (self.folder / "dev/nvidia0").unlink()
        self.assertEqual(json.loads(run("devices", "--json", env=env).stdout)["unlisted"], [])
        self.assertEqual(run(*train, env=env).stderr, "")

    def test_doctor(self):
        result = run("doctor", "--devices", "pocl:0,pocl:1", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertTrue(report["ok"])
        self.assertEqual(len(report["devices"]), 2)
        for device in report["devices"]:
            self.assertGreaterEqual(len(device["checks"]), 5)
            for check in device["checks"]:
                self.assertLessEqual({"name", "ok", "detail", "ms"}, check.keys())

    def test_train_json(self):
        report = self.train(*MLP, "--epochs", 2, whole=True)
        self.assertEqual(report["model"], "mlp")
        self.assertEqual(report["replicas"], 1)
        self.assertEqual(len(report["epochs"]), 2)
        self.assertLess(report["epochs"][1]["loss"], report["epochs"][0]["loss"])
        self.assertGreater(report["images_per_s"], 0)
        self.assertGreater(report["first_step_s"], 0)
        plan = json.loads(run("plan", "--model", "mlp", "--devices", "pocl:0", "--json").stdout)
        self.assertEqual(report["launches_per_step"], 1)
        two = ["--devices", "pocl:0,pocl:1", "--steps", 1, "--no-test"]
        self.assertEqual(self.train(*MLP, *two, whole=True)["launches_per_step"], 2)
        # One bucket per layer.
        self.assertEqual(self.train(*MLP, *two, "--bucket-bytes", 1, whole=True)["launches_per_step"], 2 + 2)
        traced = self.train(*MLP, "--steps", 1, "--no-test", "--trace", self.folder / "trace.json", whole=True)
        self.assertEqual(traced["launches_per_step"], len(plan["launches"]))
        apart = self.train(*MLP, "--steps", 1, "--no-test")
        self.assertEqual(apart["launches_per_step"], len(plan["launches"]))
        self.assertLess(0, report["step_ms"]["p50"])
        self.assertLessEqual(report["step_ms"]["p50"], report["step_ms"]["p95"])
        self.assertGreater(report["device_bytes"], 784 * 128 * 4)
        self.assertTrue(report["verdict"])
        self.assertIsNone(report["diverged_step"])

    def test_disabled_paths(self):
        """Training gives the same weights with disabled paths."""
        weights = [self.folder / "whole", self.folder / "apart"]
        for path, *off in ((weights[0],), (weights[1], *support.APART)):
            self.train(*MLP, "--steps", 2, "--no-test", "--save", path, *off, whole=True)
        self.assertEqual(*(path.read_bytes() for path in weights))
        paths = json.loads(run("plan", *MLP[:2], "--devices", "pocl:0", "--json").stdout)["paths"]
        self.assertEqual([p["reason"] for p in paths if p["name"] == "one launch"], ["switched off"])
        self.fails(2, "train", *MLP, "--disable-paths", "overlap,one lunch", says=["'one lunch' is unknown", "expected one launch, "])

    def test_saved_weights_have_statistics(self):
        """The statistics of batch normalisation: two epochs equal one epoch and a second one from the first one's
        weights."""
        golden = pathlib.Path(__file__).parent.parent / "golden/normalised/residual_bn"
        shutil.copy(golden / "x_train.npy", self.folder)
        shutil.copy(golden / "y_train.npy", self.folder)
        train = ["train", "--model", golden / "model.json", "--data", self.folder, "--no-test", "--shuffle", "off", "--devices",
                 "pocl:0", "--optimizer", "sgd:lr=0.1", "--loss", "sparse_categorical_crossentropy:from_logits=1"]
        for arguments in (["--epochs", 2, "--save", "two"], ["--epochs", 1, "--save", "one"],
                          ["--epochs", 1, "--init", "one", "--save", "other"]):
            result = run(*train, *arguments, unoptimized=True, cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
        one, two, other = ((self.folder / name).read_bytes() for name in ("one", "two", "other"))
        self.assertIn(b"moving_variance", two)
        self.assertEqual(two, other)
        self.assertNotEqual(one, two)

    def test_check_of_replicas(self):
        two = [*SMALL, "--steps", 6, "--no-test", "--check-replicas", 2]
        self.assertEqual(self.train(*two, "--devices", "pocl:0,pocl:1")["replicas"], 2)
        self.fails(2, "train", *two, says=("check of replicas",))
        self.fails(2, "train", *SMALL, "--check-replicas", 0, says=("--check-replicas '0'",))

    def test_a_diverged_loss_is_told(self):
        weights = self.folder / "w.safetensors"
        self.assertEqual(run("train", *SMALL, "--steps", 1, "--no-test", "--save", weights).returncode, 0)
        weights.write_bytes(weights.read_bytes()[:-4] + struct.pack("<f", float("nan")))  # the last bias
        self.fails(3, "train", *SMALL, "--steps", 20, "--no-test", "--init", weights, says=("'dense_2/bias'", "value 9 is nan"))
        # The sum of the losses exceeds float32.
        weights.write_bytes(weights.read_bytes()[:-4] + struct.pack("<f", 3e38))
        self.fails(1, "train", *SMALL, "--steps", 20, "--no-test", "--init", weights, "--check-numerics",
                   says=("step 1 on pocl:0", "the loss of output 'dense_2'"))
        result = run("train", *SMALL, "--steps", 20, "--no-test", "--init", weights, "--json")
        report = json.loads(result.stdout)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(report["diverged_step"], 1)
        self.assertIsNone(report["epochs"][-1]["loss"])
        self.assertEqual(result.stderr.count("is not finite"), 1)
        self.assertIn("clique: warning: the loss of step 1 is not finite", result.stderr)

    def test_memory_that_is_not_coherent(self):
        """On devices whose kernels and host do not see each other's writes, training gives the same result, through
        copies."""
        logs = [self.folder / name for name in ("plain.jsonl", "stale.jsonl")]
        two = ["train", *SMALL, "--devices", "pocl:0,pocl:1", "--steps", 8, "--no-test", "--log"]
        self.assertEqual(run(*two, logs[0]).stderr, "")
        layer = (BIN.parent / "tests/clq_stale_layer.so").resolve()
        result = run(*two, logs[1], env={**os.environ, "OPENCL_LAYERS": str(layer), "CLQ_TEST_STALE": "never"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("is not coherent"), 2)
        plain, stale = ([json.loads(line) for line in log.read_text().splitlines()] for log in logs)
        self.assertEqual(len(plain), 8)
        for a, b in zip(plain, stale):
            self.assertAlmostEqual(a["loss"], b["loss"], delta=1e-5 * a["loss"])

    def test_log_save_init_eval_predict(self):
        log, weights, out = (self.folder / n for n in ("run.jsonl", "w.safetensors", "p.npy"))
        report = self.train(*SMALL, "--epochs", 2, "--log", log, "--save", weights)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual([row["step"] for row in rows], list(range(1, 21)))
        self.assertEqual(sum(row["samples"] for row in rows), 1280)
        self.assertEqual([row["epoch"] for row in rows], [0] * 10 + [1] * 10)
        mean = sum(row["loss"] * row["samples"] for row in rows[10:]) / 640
        self.assertAlmostEqual(mean, report["epochs"][1]["loss"], delta=1e-6 * mean)
        self.assertTrue(all(row["grad_norm"] > 0 for row in rows))
        common = [*SMALL, "--weights", weights]
        result = json.loads(run("eval", *common, "--json", whole=True).stdout)
        self.assertEqual(result["samples"], TESTED)
        self.assertAlmostEqual(result["loss"], report["epochs"][1]["val_loss"], delta=1e-5)
        self.assertEqual(run("predict", *common, "--out", out, whole=True).returncode, 0)
        self.assertIn(f"({TESTED}, 10)".encode(), out.read_bytes()[:128])
        again = self.train(*SMALL, "--epochs", 1, "--init", weights)
        self.assertLess(again["epochs"][0]["loss"], report["epochs"][0]["loss"])
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["p.npy", "run.jsonl", "w.safetensors"])

    def test_accumulate(self):
        """Two batches of 32 equal one batch of 64, also at the end of an epoch of 616 samples: 32 and 8 samples equal
        40."""
        logs = [self.folder / name for name in ("whole.jsonl", "cut.jsonl")]
        steps = [*SMALL, "--take", 616, "--devices", "pocl:0,pocl:1", "--no-test", "--shuffle", "off", "--steps", 15, "--log"]
        self.assertEqual(self.train(*steps, logs[0], "--batch", 64)["accumulate"], 1)
        self.assertEqual(self.train(*steps, logs[1], "--batch", 32, "--accumulate", 2)["accumulate"], 2)
        whole, cut = ([json.loads(line) for line in log.read_text().splitlines()] for log in logs)
        self.assertEqual([line["samples"] for line in cut], ([64] * 9 + [40]) + [64] * 5)
        for one, other in zip(whole, cut, strict=True):
            for key in ("step", "epoch", "samples", "lr"):
                self.assertEqual(one[key], other[key])
            for key in ("loss", "grad_norm"):
                self.assertLess(abs(one[key] - other[key]), 1e-5 * one[key])
        self.assertIn(", an update for 2 batches\n", run("train", *steps, logs[1], "--batch", 32, "--accumulate", 2).stdout)

    def test_weights_of_samples(self):
        """A weight of 2 for every sample equals twice the learning rate, to the bit, and twice the loss."""
        double, plain, weighted = self.folder / "double.npy", self.folder / "plain", self.folder / "weighted"
        npy(double, (SAMPLES,), "<f4", struct.pack("<f", 2) * SAMPLES)
        common = [*SMALL, "--steps", 4]
        once = self.train(*common, "--optimizer", "sgd:lr=0.125", "--save", plain)
        twice = self.train(*common, "--optimizer", "sgd:lr=0.0625", "--sample-weights", double, "--save", weighted)
        self.assertEqual(plain.read_bytes(), weighted.read_bytes())
        self.assertEqual(twice["epochs"][0]["loss"], 2 * once["epochs"][0]["loss"])
        some = [1] * SAMPLES
        wrong = (("short", (SAMPLES - 1,), "<f4", some[1:], [f"({SAMPLES - 1},)", f"one weight for each of the {SAMPLES} samples"]),
                 ("negative", (SAMPLES,), "<f4", [*some[:7], -1, *some[8:]], ["the weight of sample 7 is -1", "at least 0"]),
                 ("large", (SAMPLES,), "<f8", [*some[:7], 1e300, *some[8:]], ["the weight of sample 7 is inf as float32"]))  # fmt: skip
        for name, shape, dtype, values, says in wrong:
            path = self.folder / f"{name}.npy"
            npy(path, shape, dtype, struct.pack(f"<{len(values)}{'f' if dtype == '<f4' else 'd'}", *values))
            self.fails(3, "train", *common, "--sample-weights", path, says=[path.name, *says])
        double.write_bytes(double.read_bytes()[:1000])
        self.fails(3, "train", *common, "--sample-weights", double, says=["double.npy", "truncated"])
        self.fails(3, "train", *common, "--sample-weights", self.folder / "none.npy", says=["none.npy", "cannot open"])

    def test_regression(self):
        """Values of any sign from .npy files. All samples are 0, so that only the bias learns. With lr 1/4, each step
        reduces the bias's distance from the target to three quarters."""
        layers = [{"class_name": "InputLayer", "config": {"name": "input", "batch_shape": [None, 3]}},
                  {"class_name": "Dense", "config": {"name": "line", "units": 2, "activation": "linear", "use_bias": True}}]
        model, log, weights, out = (self.folder / n for n in ("line.json", "run.jsonl", "w.safetensors", "p.npy"))
        model.write_text(json.dumps({"class_name": "Sequential", "config": {"name": "line", "layers": layers}}))
        data = self.folder / "data"
        data.mkdir()
        for part in ("train", "test"):
            npy(data / f"x_{part}.npy", (16, 3), "<f4", bytes(16 * 3 * 4))
            npy(data / f"y_{part}.npy", (16, 2), "<f4", struct.pack("<2f", -3, 5) * 16)
        common = ["--model", model, "--data", data, "--devices", "pocl:0,pocl:1", "--batch", 16, "--loss", "mse"]
        report = self.train(*common, "--optimizer", "sgd:lr=0.25", "--epochs", 3, "--log", log, "--save", weights, whole=True)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(list(rows[0]), ["step", "epoch", "loss", "grad_norm", "lr", "samples", "ms"])
        self.assertEqual(list(report["epochs"][0]), ["loss", "val_loss", "seconds", "images_per_s"])
        for k in range(3):
            self.assertAlmostEqual(rows[k]["loss"], 17 * 0.75 ** (2 * k), places=5)
            self.assertAlmostEqual(report["epochs"][k]["val_loss"], 17 * 0.75 ** (2 * k + 2), places=5)
        rarer = self.train(*common, "--optimizer", "sgd:lr=0.25", "--epochs", 3, "--validation-freq", 2, whole=True)["epochs"]
        self.assertEqual([epoch["val_loss"] for epoch in rarer], [None, report["epochs"][1]["val_loss"], None])
        common += ["--weights", weights]
        result = run("eval", *common, "--metrics", "mae,root_mean_squared_error", "--json")
        evaluated = json.loads(result.stdout)
        self.assertEqual(list(evaluated), ["loss", "mae", "root_mean_squared_error", "samples", "images_per_s"])
        self.assertAlmostEqual(evaluated["mae"], 4 * 0.75**3, places=5)
        self.assertAlmostEqual(evaluated["root_mean_squared_error"] ** 2, evaluated["loss"], places=5)
        self.assertRegex(result.stderr, r"loss \d+\.\d+  mae 1\.6875  root_mean_squared_error \d+\.\d+  16 samples")
        self.assertEqual(run("predict", *common[:4], *common[-2:], "--out", out).returncode, 0)
        self.assertIn(b"(16, 2)", out.read_bytes()[:128])
        # The program is the same as above.
        plain = run("train", *common[:-2], "--optimizer", "sgd:lr=0.25", "--log", "/dev/null", "--steps", 1, whole=True)
        self.assertRegex(plain.stdout, r"epoch 1  loss \d+\.\d+  test loss \d+\.\d+  \d")
        self.fails(2, "train", *common[:-2], "--metrics", "speed", says=["speed", "accuracy", "precision"])
        self.fails(2, "train", *common[:-2], "--class-weights", "0=2,x", says=["class weights", "CLASS=WEIGHT"])
        self.fails(2, "train", *common[:-2], "--class-weights", "0=2,0=3", says=["class weights", "class 0 is given twice"])
        self.fails(2, "train", *common[:-2], "--class-weights", "1=2,2=3", says=["class 2", "0 to 1"])
        self.fails(2, "train", *common[:-4], "--loss", "mean", says=["mean", "huber"])
        self.fails(2, "train", *common[:-4], "--loss", "huber:delta=0", says=["delta"])
        self.fails(2, "train", *common[:-4], "--loss", "mse:delta=1", says=["delta", "no keys"])
        self.fails(3, "train", *common[:-4], says=["class numbers"])

    def test_confusion_matrix(self):
        weights, table = self.folder / "w.safetensors", self.folder / "epochs.csv"
        common = [*SMALL, "--metrics", "confusion_matrix,accuracy"]
        report = self.train(*common, "--epochs", 2, "--save", weights, "--csv", table)
        for epoch in report["epochs"]:
            self.assertEqual(list(epoch), ["loss", "accuracy", "val_loss", "val_accuracy", "confusion_matrix", "val_confusion_matrix",
                                           "seconds", "images_per_s"])
            for prefix, samples in (("", 640), ("val_", TESTED)):
                matrix = epoch[prefix + "confusion_matrix"]
                self.assertEqual([len(row) for row in matrix], [10] * 10)
                self.assertEqual(sum(map(sum, matrix)), samples)
                self.assertAlmostEqual(sum(matrix[i][i] for i in range(10)) / samples, epoch[prefix + "accuracy"], places=6)
        self.assertEqual(table.read_text().splitlines()[0], "epoch,loss,accuracy,val_loss,val_accuracy,lr")
        rarer = self.train(*common, "--epochs", 1, "--validation-freq", 2, whole=True)["epochs"][0]
        self.assertEqual((rarer["confusion_matrix"], rarer["val_confusion_matrix"]), (report["epochs"][0]["confusion_matrix"], None))
        result = run("eval", *common, "--weights", weights, "--json")
        evaluated = json.loads(result.stdout)
        self.assertEqual(list(evaluated), ["loss", "accuracy", "confusion_matrix", "samples", "images_per_s"])
        self.assertEqual(evaluated["confusion_matrix"], report["epochs"][1]["val_confusion_matrix"])
        lines = result.stderr.splitlines()
        at = lines.index("confusion_matrix, rows: true classes, columns: predicted classes")
        shown = [list(map(int, line.split())) for line in lines[at + 1:at + 12]]
        self.assertEqual(shown, [list(range(10))] + [[i, *row] for i, row in enumerate(evaluated["confusion_matrix"])])
        report = self.train(*common, "--steps", 1, "--no-test")["epochs"][0]
        self.assertEqual((sum(map(sum, report["confusion_matrix"])), report["val_confusion_matrix"]), (64, None))
        plain = run("train", *common, "--steps", 1)
        self.assertRegex(plain.stdout, r"\ntest confusion_matrix, rows.*\n( +\d)+\n  0( +\d+)+\n")
        self.fails(2, "train", *common, "--early-stopping", "monitor=val_confusion_matrix", says=["val_confusion_matrix", "a matrix", "val_loss"])
        self.fails(2, "train", *common[:-2], "--metrics", "confusion_matix", says=["confusion_matix", "'confusion_matrix'"])

    def two_outputs(self):
        """Two Dense layers on one input of zeros. One layer's name needs an escape in JSON. Returns the options that
        name the files."""
        def dense(name, units):
            history = {"config": {"shape": [None, 3], "dtype": "float32", "keras_history": ["input", 0, 0]}, "class_name": "__keras_tensor__"}
            return {"class_name": "Dense", "name": name, "config": {"name": name, "units": units, "activation": "linear", "use_bias": True},
                    "inbound_nodes": [{"args": [history], "kwargs": {}}]}

        first = {"class_name": "InputLayer", "name": "input", "config": {"name": "input", "batch_shape": [None, 3]}, "inbound_nodes": []}
        config = {"name": "pair", "layers": [first, dense("line", 2), dense('si"de', 1)], "input_layers": [["input", 0, 0]],
                  "output_layers": [["line", 0, 0], ['si"de', 0, 0]]}
        data = self.folder / "data"
        data.mkdir()
        for part in ("train", "test"):
            npy(data / f"x_{part}.npy", (16, 3), "<f4", bytes(16 * 3 * 4))
            npy(data / f"y_{part}.npy", (16, 2), "<f4", struct.pack("<2f", -3, 5) * 16)
            npy(data / f"y_{part}_1.npy", (16,), "<i4", struct.pack("<i", 2) * 16)
        return ["--model", self.put("pair.json", {"class_name": "Functional", "config": config}), "--data", data, "--devices", "pocl:0,pocl:1",
                "--batch", 16]

    def test_several_outputs(self):
        """Each output has its own loss, weight and metrics. With lr 1/4, each step reduces the distance of line's bias
        from its target to three quarters, since a loss of two values is their mean. With weight 1.5, the distance of
        side's bias becomes a quarter."""
        common = self.two_outputs()
        log, weights, out = (self.folder / n for n in ("run.jsonl", "w.safetensors", "p.npy"))
        wanted = ["--loss", "mse", "--loss-weight", 'si"de=1.5', "--metrics", 'si"de=mae']
        report = self.train(*common, *wanted, "--optimizer", "sgd:lr=0.25", "--epochs", 2, "--log", log, "--save", weights)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(list(rows[0]), ["step", "epoch", "loss", "line_loss", 'si"de_loss', 'si"de_mae', "grad_norm", "lr", "samples", "ms"])
        for k in range(2):
            line, side = 17 * 0.75 ** (2 * k), 4 * 0.25 ** (2 * k)
            for found, value in (("line_loss", line), ('si"de_loss', side), ('si"de_mae', 2 * 0.25**k), ("loss", line + 1.5 * side)):
                self.assertAlmostEqual(rows[k][found], value, places=5)
                self.assertAlmostEqual(report["epochs"][k][found], value, places=5)
        common += ["--weights", weights]
        result = run("eval", *common, *wanted, "--json")
        evaluated = json.loads(result.stdout)
        self.assertEqual(list(evaluated), ["loss", "line_loss", 'si"de_loss', 'si"de_mae', "samples", "images_per_s"])
        self.assertAlmostEqual(evaluated["loss"], 17 * 0.75**4 + 6 * 0.25**4, places=5)
        self.assertRegex(result.stderr, r'loss \d+\.\d+  line_loss 5\.3789  si"de_loss 0\.0156  si"de_mae 0\.1250  16 samples')
        found = run("predict", *common, "--out", out)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertEqual(found.stdout.splitlines()[1].split(":")[0], str(self.folder / "p_1.npy"))
        for file, shape, distances in (("p.npy", b"(16, 2)", (3 * 0.75**2, -5 * 0.75**2)), ("p_1.npy", b"(16, 1)", (-2 * 0.25**2,))):
            written = (self.folder / file).read_bytes()
            self.assertIn(shape, written[:128])
            targets = (-3, 5) if len(distances) == 2 else (2,)
            values = struct.unpack(f"<{16 * len(targets)}f", written[-64 * len(targets):])
            for i, value in enumerate(values):
                self.assertAlmostEqual(value, targets[i % len(targets)] + distances[i % len(targets)], places=5)
        plan = run("plan", "--model", common[1], "--devices", "pocl:0", "--loss", "line=huber", "--loss", "mse", "--graph")
        self.assertRegex(plan.stdout, r'loss +line_loss +.* = loss\(.*, labels of line\)')
        self.assertRegex(plan.stdout, r'loss +si"de_loss +.* = loss\(.*, labels of si"de\)')

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

    def test_text(self):
        """The text repeats itself, so that a model that uses the preceding tokens reaches a lower loss than
        guessing."""
        book = self.folder / "book.txt"
        book.write_bytes(b"abcdefgh" * 400)
        common = ["--model", "gpt:layers=1,width=16,heads=2,context=8", "--data", f"text:{book}", "--batch", 32,
                  "--devices", "pocl:0", "--metrics", "perplexity"]
        weights = self.folder / "w.safetensors"
        report = self.train(*common, "--epochs", 8, "--optimizer", "adam:lr=0.01", "--save", weights)
        self.assertEqual(report["model"], "gpt:layers=1,width=16,heads=2,context=8")
        last = report["epochs"][-1]
        self.assertLess(last["val_perplexity"], 4)
        tested = json.loads(run("eval", *common, "--weights", weights, "--json").stdout)
        self.assertEqual(tested["samples"], 39)  # of 320 held-back bytes, 319 have a next byte
        self.assertAlmostEqual(tested["perplexity"], last["val_perplexity"], 5)
        self.fails(3, "train", *common[:2], "--data", "text:/no/such/book", says=["/no/such/book"])
        self.fails(2, "train", *common, "--save", book, says=["--save", "--data"])
        book.write_bytes(b"abc" * 7)
        self.fails(3, "train", *common, says=["book.txt", "21 bytes"])
        book.write_bytes(b"abcdefgh" * 10)
        self.fails(3, "train", *common, says=["--no-test", "book.txt (test) has 7 bytes", "takes windows of 8"])
        long = ["--model", "gpt:layers=1,width=16,heads=2,context=64"]
        self.fails(3, "train", *common, *long, says=["book.txt (train) has 71 bytes", "takes windows of 64", "a shorter context"])

    def test_samples_as_labels(self):
        """The same as fit(x, x): the loss is the distance between the model's output and its input, as the model
        receives it."""
        bytes_of = [(7 * i * i + 11 * i) % 256 for i in range(16 * 5)]
        for part in ("train", "test"):
            npy(self.folder / f"x_{part}.npy", (16, 5), "|u1", bytes(bytes_of))
            npy(self.folder / f"y_{part}.npy", (16,), "|u1", bytes(16))
        common = ["--model", "autoencoder:code=2", "--data", self.folder, "--loss", "mse", "--devices", "pocl:0", "--batch", 16]
        weights, out = self.folder / "w.safetensors", self.folder / "p.npy"
        report = self.train(*common, "--labels", "samples", "--epochs", 3, "--no-test", "--save", weights)
        self.assertLess(report["epochs"][-1]["loss"], report["epochs"][0]["loss"])
        tested = json.loads(run("eval", *common, "--labels", "samples", "--weights", weights, "--json").stdout)
        run("predict", *common[:4], *common[6:], "--weights", weights, "--out", out)
        given = struct.unpack("<80f", out.read_bytes()[-320:])
        self.assertAlmostEqual(tested["loss"], sum((y - x / 255) ** 2 for x, y in zip(bytes_of, given)) / 80, 6)
        self.fails(2, "train", *common, "--labels", "sample", says=["--labels 'sample': expected data or samples"])
        self.fails(3, "train", *common, "--no-test", says=["a label has 1 value", "takes 5"])

    def test_named_models_fit_the_data(self):
        for name, data, parameters in (("cnn1", "synthetic:8x8x3/5/64", 32 * (27 + 1) + (3 * 3 * 32 + 1) * 5), ("mlp:units=3", "synthetic:7/2/64", 3 * 8 + 2 * 4),
                                       ("mlp:units=3,classes=4,input=7", "synthetic:7/2/64", 3 * 8 + 4 * 4)):
            plan = json.loads(run("plan", "--model", name, "--data", data, "--devices", "pocl:0", "--batch", 32, "--json").stdout)
            self.assertEqual(sum(v["elements"] for v in plan["variables"]), parameters)
        self.fails(2, "plan", "--model", "mlp:units=0", says=["mlp", "units '0'"])
        self.fails(2, "plan", "--model", "vit-tiny:patch=5", "--data", "/no/such", says=["no whole patches", "shape and classes are assumed", "/no/such"])

    def test_several_outputs_wrong(self):
        common = self.two_outputs()
        weights = self.folder / "none"
        self.fails(2, "train", *common, "--loss", "line=mse", says=["output 'si\"de' of model pair has no loss"])
        self.fails(2, "train", *common, "--loss", "lane=mse", says=["lane", "has no output", "'line', 'si\"de'"])
        self.fails(2, "train", *common, "--loss", "mse", "--metrics", "lane=mae", says=["--metrics", "lane", "'line'"])
        self.fails(2, "train", *common, "--loss", "line=mse", "--loss", "line=mae", says=["--loss 'line=mae'", "'mse' already"])
        self.fails(2, "train", *common, "--loss", "line=guess", "--loss", "mse", says=["output 'line'", "guess"])
        self.fails(2, "train", *common, "--loss", "mse", "--loss-weight", "2", says=["--loss-weight '2'", "OUTPUT="])
        self.fails(2, "train", *common, "--loss", "mse", "--loss-weight", "line=heavy", says=["line=heavy", "number"])
        self.fails(2, "train", *common, *["--loss", "mse"] * 17, says=["--loss", "16 times"])
        self.fails(2, "train", *common, "--loss", "mse", "--metrics", 'si"de=speed', says=["output 'si\"de'", "speed"])
        self.fails(2, "predict", *common, "--weights", weights, says=["--out"])
        self.fails(1, "predict", *common, "--weights", weights, "--out", self.folder / "none/p.npy", says=["none/p.npy"])
        data = self.folder / "data"
        npy(data / "y_train_1.npy", (16, 2), "<f4", bytes(16 * 2 * 4))
        self.fails(3, "train", *common, "--loss", "mse", says=["output 'si\"de'", "2 values", "takes 1"])
        npy(data / "y_train_1.npy", (15,), "<f4", bytes(15 * 4))
        self.fails(3, "train", *common, "--loss", "mse", says=["y_train_1.npy has 15 labels", "16 samples"])
        (data / "y_train_1.npy").unlink()
        self.fails(3, "train", *common, "--loss", "mse", says=["labels for 1 output", "none for 'si\"de'"])

    def test_same_seed_same_run(self):
        runs = []
        for i in range(2):
            log = self.folder / f"{i}.jsonl"
            self.train(*SMALL, "--devices", "pocl:0,pocl:1", "--epochs", 1, "--log", log, whole=True)
            runs.append([{k: v for k, v in json.loads(line).items() if k != "ms"} for line in log.read_text().splitlines()])
        self.assertEqual(runs[0], runs[1])
        other = self.folder / "other.jsonl"
        self.train(*SMALL, "--devices", "pocl:0,pocl:1", "--epochs", 1, "--log", other, "--seed", 5, whole=True)
        self.assertNotEqual(runs[0][0]["loss"], json.loads(other.read_text().splitlines()[0])["loss"])

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

    def simulated(self, *args):
        result = run("plan", "--machines", *args, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

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

    def test_memory_limit(self):
        """No device has memory for the model's parameters, state and activations. Two devices train it by stages, and
        with central storage."""
        command = ("train", *WIDE, "--no-test", "--steps", 3)
        limit = ("--memory-limit", 5_400_000)
        self.fails(4, *command, "--devices", "pocl:0", *limit, says=["of the budget"])
        want = json.loads(run(*command, "--devices", "pocl:0", "--json").stdout)["epochs"][0]["loss"]
        for strategy in ("pipeline", "central"):
            result = run(*command, "--devices", "pocl:0,pocl:1", "--strategy", strategy, *limit, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertAlmostEqual(json.loads(result.stdout)["epochs"][0]["loss"], want, delta=1e-5 * want)

    def test_pipeline(self):
        """Training, evaluation and prediction by stages give the results of one device."""
        weights, out = self.folder / "pipeline.safetensors", self.folder / "pipeline.npy"
        single = ("--devices", "pocl:0")
        one = json.loads(run("train", *WIDE, *single, "--epochs", 1, "--json", "--save", weights).stdout)
        two = ("--devices", "pocl:0,pocl:1", "--strategy", "pipeline")
        many = json.loads(run("train", *WIDE, *two, "--epochs", 1, "--json").stdout)
        for key in ("loss", "val_loss"):
            self.assertAlmostEqual(many["epochs"][0][key], one["epochs"][0][key], delta=1e-5 * one["epochs"][0][key])
        self.assertEqual([d["share"] for d in many["devices"]], [16, 16])
        common = (*WIDE, "--weights", weights, "--json")
        evaluated = json.loads(run("eval", *common, *two).stdout)
        self.assertAlmostEqual(evaluated["loss"], one["epochs"][0]["val_loss"], delta=1e-5)
        self.assertEqual(run("predict", *common[:-1], *two, "--out", out).returncode, 0)
        self.assertTrue(out.stat().st_size > 0)

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

    def test_trace(self):
        trace = self.folder / "trace.json"
        devices = ["--devices", "pocl:0,pocl:1", "--model", "cnn", "--data", SYNTHETIC, "--take", "768", "--batch", 128, "--no-test"]
        self.train(*devices, "--steps", 6, "--bucket-bytes", 1, "--trace", trace)
        events = json.loads(trace.read_text())["traceEvents"]
        threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertEqual(sorted(threads.values()), sorted(["pipeline"] + 2 * ["host", "queue", "exchange"]))
        names = {}
        for e in events:
            if e["ph"] == "X":
                self.assertGreaterEqual(e["dur"], 0)
                names.setdefault(threads[e["pid"], e["tid"]], []).append(e["name"])
        self.assertEqual(names["host"].count("step"), 2 * 6)
        self.assertEqual(names["exchange"], ["all-reduce"] * 2 * 6 * 3)  # one bucket for each layer with weights
        for kernel in ("conv2d + max_pooling2d/forward", "conv2d_1 + max_pooling2d_1/backward", "dense/weight gradient", "update/update"):
            self.assertIn(kernel, names["queue"])
        self.assertEqual([p.name for p in self.folder.iterdir()], ["trace.json"])

    def test_trace_is_bounded(self):
        trace = self.folder / "trace.json"
        self.train(*SMALL, "--no-test", "--steps", 250, "--trace", trace)
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual(sum(e["name"] == "step" for e in events), 200)
        self.assertEqual(sum(e["name"] == "update/update" for e in events), 200)
        self.assertIn("first 200 steps", " ".join(run("train", "--help=all").stdout.split()))

    def test_fewer_bytes(self):
        """The script that draws the cost of compression and local steps."""
        script = pathlib.Path(__file__).resolve().parents[2] / "bench/fewer-bytes"
        options = ["--model", "mlp", "--data", SYNTHETIC, "--take", "256", "--epochs", "1", "--seeds", "1"]
        done = subprocess.run([script, "--clique", BIN / "clique", *options, "-o", self.folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split("|") for line in (self.folder / "fewer-bytes.md").read_text().splitlines()[2:]]
        sent = {row[1].strip(" `"): int(row[5].replace(",", "")) for row in rows}
        arena = 4 * (784 * 128 + 128 + 128 * 10 + 128)  # the last bias is padded to 128 values, too
        self.assertEqual(sent["plain"], arena)
        self.assertEqual(sent["f16"], arena // 2)
        self.assertEqual(sent["topk=0.01"], 8 * 1018)  # 1018 of 101,770 values
        self.assertEqual(sent["local-steps 16"], arena // 16)
        lines = xml.etree.ElementTree.parse(self.folder / "fewer-bytes.svg").getroot().findall("{*}polyline")
        self.assertEqual(len(lines), len(rows))

    def test_parameter_server(self):
        log = self.folder / "log"
        steps = [*SMALL, "--devices", "pocl:0,pocl:1", "--no-test", "--steps", 10]
        keys = ["step", "epoch", "loss", "grad_norm", "lr", "samples", "ms"]
        report = self.train(*steps, "--strategy", "ps", "--staleness", 1, "--log", log)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(list(rows[0]), keys[:5] + ["replica", "staleness"] + keys[5:])
        self.assertEqual([row["step"] for row in rows], list(range(1, 11)))
        self.assertTrue(all(row["replica"] in (0, 1) and row["staleness"] in (0, 1) and row["samples"] == 64 for row in rows))
        server = report["server"]
        self.assertEqual((server["updates"], server["gradients"], server["dropped"]), (10, 10, 0))
        self.assertEqual(server["staleness"], [sum(row["staleness"] == s for row in rows) for s in (0, 1)])
        self.assertEqual([device["share"] for device in report["devices"]], [64, 64])
        self.assertIn("staleness of 10 updates", run("train", *steps, "--strategy", "ps", "--log", log).stdout)
        report = self.train(*steps, "--strategy", "central", "--log", log)
        self.assertEqual(list(json.loads(log.read_text().splitlines()[0])), keys)
        self.assertEqual((report["server"]["updates"], report["server"]["gradients"], report["server"]["staleness"]), (10, 20, []))
        self.assertNotIn("server", self.train(*steps))

    # ---- refused commands ----

    def test_checkpoints(self):
        """A run that was split in two has the same weights and log as an uninterrupted run."""
        common = [*SMALL, "--optimizer", "adamw:weight_decay=0.01", "--clip", "global_norm=0.5", "--no-decay", "bias",
                  "--optimizer-of", "*bias=sgd:lr=0.01"]  # fmt: skip
        whole, parts = self.folder / "whole.safetensors", self.folder / "parts.safetensors"
        logs, kept = [self.folder / "whole.jsonl", self.folder / "parts.jsonl"], self.folder / "kept"
        self.train(*common, "--epochs", 2, "--log", logs[0], "--save", whole, whole=True)
        first = self.train(*common, "--steps", 7, "--log", logs[1], "--checkpoint", kept, "--checkpoint-every", 5, whole=True)
        self.assertEqual(first["checkpoints"]["last_step"], 7)
        self.fails(2, "train", *common, "--checkpoint", kept, says=["resume"])
        second = self.train(*common, "--epochs", 2, "--log", logs[1], "--checkpoint", kept, "--resume", "--save", parts, whole=True)
        self.assertEqual(second["checkpoints"]["resumed_from"], 7)
        self.assertEqual(whole.read_bytes(), parts.read_bytes())
        lines = [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]
        for one in lines:
            for line in one:
                del line["ms"]
        self.assertEqual(*lines)
        other = [*common[:1], "cnn1", *common[2:]] if common[0] == "--model" else ["--model", "cnn1", *common]
        self.fails(3, "train", *other, "--epochs", 2, "--checkpoint", kept, "--resume", says=["conv2d"])

    def test_resume_with_other_options(self):
        """A lost table begins anew. A log need not be a regular file. A schedule replaces a learning rate that was set
        by hand."""
        kept, table = ["--checkpoint", self.folder / "kept"], self.folder / "epochs.csv"
        first = self.train(*SMALL, "--epochs", 2, *kept, "--csv", table, "--log", "/dev/null",
                           "--reduce-lr", "monitor=loss,min_delta=100,patience=1")  # fmt: skip
        self.assertEqual(first["checkpoints"]["last_step"], 20)
        header = table.read_text().splitlines()[0]
        table.unlink()
        result = run("train", *SMALL, "--epochs", 3, *kept, "--resume", "--csv", table, "--log", "/dev/null")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("epochs.csv: lines of earlier epochs are missing", result.stderr)
        lines = table.read_text().splitlines()
        self.assertEqual((lines[0], [line.split(",")[0] for line in lines[1:]]), (header, ["1", "2"]))
        # The third epoch, which is reported again, and two more. The rate falls after the fourth epoch, and the fifth's
        # checkpoint contains it.
        self.train(*SMALL, "--epochs", 5, *kept, "--resume", "--reduce-lr", "monitor=loss,min_delta=100,patience=1")
        result = run("train", *SMALL, "--epochs", 6, *kept, "--resume", "--schedule", "constant:warmup=5")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("was set by hand and is left out: the training has a schedule", result.stderr)

    def test_resume_with_other_layers_frozen(self):
        """The optimizer has state only for trained variables. So frozen layers must stay frozen, unless the optimizer
        has no state."""
        for first, then, says in ((["--freeze", "dense"], [], "variable dense/kernel was frozen, and is trained now"),
                                  ([], ["--freeze", "dense"], "variable dense/kernel was trained, and is frozen now")):
            kept = ["--checkpoint", self.folder / f"kept{len(first)}"]
            self.train(*MLP, "--steps", 1, *kept, *first)
            self.fails(3, "train", *MLP, "--steps", 2, *kept, "--resume", *then, says=[says, "freeze the same layers"])
            again = self.train(*MLP, "--steps", 2, *kept, "--resume", *first)
            self.assertEqual(again["checkpoints"]["resumed_from"], 1)
        kept = ["--optimizer", "sgd", "--checkpoint", self.folder / "stateless"]
        self.train(*MLP, "--steps", 1, *kept)
        again = self.train(*MLP, "--steps", 2, *kept, "--resume", "--freeze", "dense")
        self.assertEqual(again["checkpoints"]["resumed_from"], 1)

    def test_resume_with_edited_files(self):
        """Another program has saved the table and the log: with other line ends, a comment, other spaces, and no
        newline at the end."""
        kept, table, log = self.folder / "kept", self.folder / "epochs.csv", self.folder / "log.jsonl"
        common = [*SMALL, "--checkpoint", kept, "--resume", "--csv", table, "--log", log]
        self.train(*common, "--epochs", 2)
        table.write_bytes(b"# first run\n" + table.read_bytes().replace(b"\n", b"\r\n"))
        lines = log.read_text().splitlines()
        later = lines[-1].replace(f'"step": {len(lines)}', f'"step": {len(lines) + 7}')
        log.write_text("\n".join(["# first run", *lines[:-1], lines[-1].replace(": ", ":").replace(", ", ","), later, "# end"]))
        self.train(*common, "--epochs", 3)
        rows = table.read_bytes().split(b"\r\n")
        self.assertEqual((rows[0][:16], rows[-1], [row.split(b",")[0] for row in rows[1:-1]]), (b"# first run\nepoc", b"", [b"0", b"1", b"2"]))
        after = log.read_text().splitlines()
        self.assertEqual(after[0], "# first run")
        steps = [json.loads(line)["step"] for line in after[1:]]
        self.assertEqual(steps, list(range(1, steps[-1] + 1)))
        self.assertEqual(steps[-1], 3 * len(lines) // 2)
        log.write_text("\n".join(after))  # complete, except for its last newline
        self.train(*common, "--epochs", 4)
        self.assertEqual([json.loads(line)["step"] for line in log.read_text().splitlines()[1:]], list(range(1, 4 * len(lines) // 2 + 1)))

    def test_limited_file_size(self):
        """A checkpoint that is too large for ulimit -f causes a warning. A log that is too large causes a failure.
        Neither causes a signal."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        self.train(*SMALL, "--steps", 1)  # builds the kernels, and keeps them
        result = run("train", *SMALL, "--epochs", 1, "--checkpoint", self.folder / "kept", "--checkpoint-every", 2, preexec_fn=limit)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("File too large; training goes on", result.stderr)
        weights = self.folder / "w.safetensors"
        result = run("train", *SMALL, "--steps", 1, "--save", weights, preexec_fn=limit)
        self.assertEqual((result.returncode, weights.exists()), (1, False), result.stderr)
        self.assertIn("File too large", result.stderr)

    def test_last_checkpoint_fails(self):
        """A file has the name of the checkpoint's folder."""
        kept, saved = self.folder / "kept", self.folder / "saved.safetensors"
        kept.mkdir()
        (kept / "step-000000000010").write_text("")
        self.fails(1, "train", *SMALL, "--epochs", 1, "--checkpoint", kept, "--save", saved, says=["last checkpoint", "step 10"])
        self.assertTrue(saved.exists())
        self.assertEqual(self.train(*SMALL, "--epochs", 2, "--checkpoint", kept)["checkpoints"]["last_step"], 20)

    def test_stopped_early(self):
        """A training that stops early keeps a last checkpoint. From it, the same command reaches the same end."""
        stopping = [*SMALL, "--epochs", 9, "--early-stopping", "monitor=loss,min_delta=100,patience=2",
                    "--checkpoint", self.folder / "kept", "--csv", self.folder / "epochs.csv"]  # fmt: skip
        first = self.train(*stopping)
        self.assertEqual(first["checkpoints"]["last_step"], 30)
        table = (self.folder / "epochs.csv").read_text()
        again = self.train(*stopping, "--resume")
        self.assertEqual((again["checkpoints"]["resumed_from"], again["checkpoints"]["last_step"]), (30, 30))
        self.assertTrue(again["early_stopping"]["stopped"])
        self.assertEqual((self.folder / "epochs.csv").read_text(), table)

    def test_callbacks(self):
        """Only an epoch that is better by 100 counts as an improvement, so the first epoch is the only one."""
        best, table = self.folder / "best.safetensors", self.folder / "epochs.csv"
        told = run("train", *SMALL, "--epochs", 6, "--early-stopping", "monitor=loss,min_delta=100,patience=1,restore_best=1").stdout
        self.assertRegex(told, r"\nstopped early: epoch 1 was the best, with \d\.\d{4}: its weights are put back\n")
        stopped = self.train(*SMALL, "--epochs", 6, "--early-stopping", "monitor=loss,min_delta=100,patience=2",
                             "--reduce-lr", "monitor=loss,min_delta=100,patience=1,factor=0.5",
                             "--save-best", best, "--monitor", "loss", "--csv", table)  # fmt: skip
        self.assertEqual(len(stopped["epochs"]), 3)
        self.assertEqual((stopped["early_stopping"]["stopped"], stopped["early_stopping"]["best_epoch"]), (True, 0))
        lines = [line.split(",") for line in table.read_text().splitlines()]
        self.assertEqual(len(lines), 4)
        rates = [float(line[lines[0].index("lr")]) for line in lines[1:]]
        self.assertEqual([round(rate / rates[0], 6) for rate in rates], [1, 1, 0.5])
        self.assertIn("loss", json.loads(run("eval", *SMALL, "--weights", best, "--json").stdout))
        self.assertIsNone(self.train(*SMALL, "--steps", 1)["early_stopping"])
        self.fails(2, "train", *SMALL, "--early-stopping", "patence=2", says=["patence", "patience"])
        self.fails(2, "train", *SMALL, "--early-stopping", "monitor=speed", "--steps", 1, says=["speed"])
        self.fails(2, "train", *SMALL, "--reduce-lr", "factor=2", says=["factor"])
        self.fails(2, "train", *SMALL, "--monitor", "loss", says=["--save-best"])
        both = [["--reduce-lr", "patience=1", "--schedule", "constant:warmup=3"], ["--ema", 0.9, "--early-stopping", "restore_best=1"]]
        for pair in both:
            self.fails(2, "train", *SMALL, *pair, says=[pair[0], pair[2], "exclude each other"])
        for ema in ("1", "-0.1", "often"):
            self.fails(2, "train", *SMALL, "--ema", ema, says=["--ema", ema])
        self.fails(1, "train", *SMALL, "--csv", self.folder / "none" / "a.csv", says=["a.csv"])

    def test_average(self):
        """After one update the average equals the weights. After two updates it lies between."""
        files = [self.folder / f"{i}.safetensors" for i in range(4)]
        for path, *options in ((files[0], "--steps", 1), (files[1], "--steps", 1, "--ema", 0.9),
                               (files[2], "--steps", 2), (files[3], "--steps", 2, "--ema", 0.9)):  # fmt: skip
            self.train(*SMALL, *options, "--save", path)
        first, average, last, between = (path.read_bytes() for path in files)
        self.assertEqual(first, average)
        self.assertNotIn(between, (first, last))

    def test_wrong_usage(self):
        self.fails(2)
        self.fails(2, "fly", says=["fly"])
        self.fails(2, "train", "--frobnicate", says=["--frobnicate"])
        self.fails(2, "train", "--batch", says=["--batch"])
        self.fails(2, "train", "extra", says=["extra"])
        self.fails(2, "train", *SMALL, "--batch", "0", says=["--batch"])
        self.fails(2, "train", *SMALL, "--batch", "12x", says=["12x"])
        self.fails(2, "train", "--model", "resnet9000", says=["resnet9000", "mlp"])
        self.fails(2, "train", *SMALL, "--optimizer", "adam:lr=fast", says=["lr"])
        self.fails(2, "train", *SMALL, "--optimizer", "adam:speed=1", says=["speed"])
        self.fails(2, "train", *SMALL, "--loss", "guess", says=["guess", "huber"])
        self.fails(2, "train", *SMALL, "--strategy", "telepathy", says=["telepathy"])
        for server, says in ((["--staleness", -1], "from 0, which is synchronous"), (["--staleness", 0, "--backup", 1], "leave none"),
                             (["--backup", 1], "staleness of 0, and it is 4"), (["--accumulate", 2], "staleness of 0")):
            self.fails(2, "train", *SMALL, "--strategy", "ps", *server, says=[says])
        self.fails(2, "train", *SMALL, "--strategy", "central", "--staleness", 4, says=["--staleness is an option of strategy ps", "central"])
        self.fails(2, "train", *SMALL, "--backup", 1, says=["--backup is an option of strategy ps"])
        self.fails(2, "train", *SMALL, "--shuffle", "x", says=["--shuffle"])
        self.fails(2, "train", *SMALL, "--bucket-bytes", "0", says=["--bucket-bytes"])
        self.fails(2, "train", *SMALL, "--accumulate", "0", says=["--accumulate '0'", "from 1 to 65536"])
        self.fails(2, "train", *SMALL, "--accumulate", "65537", says=["--accumulate"])
        self.fails(2, "train", *SMALL, "--batch", 65536, "--accumulate", 65536, says=["too large for an update"])
        self.fails(2, "train", *SMALL, "--compress", "topk=2", says=["compression 'topk=2'", "f16", "at most 1"])
        self.fails(2, "train", *SMALL, "--compress", "f16", says=["use strategy mirrored in place of single"])
        self.fails(2, "train", *SMALL, "--local-steps", "0", says=["--local-steps", "at least 1"])
        for way in ("f16", "f16:between"):
            both = ["--local-steps", 2, "--compress", way, "--devices", "pocl:0,pocl:1"]
            self.fails(2, "train", *SMALL, *both, says=["leave out local steps, or compression"])
        self.fails(2, "train", *SMALL, "--tune", "hard", says=["tuning 'hard'", "quick"])
        self.fails(2, "train", *SMALL, "--matmul-precision", "low", says=["matmul precision 'low'", "high"])
        self.fails(2, "tune", "--budget", "0", says=["--budget"])
        self.fails(2, "train", *SMALL, "--strategy", "pipeline:stages=2", says=["2 stages", "there are 1"])
        self.fails(2, "train", *SMALL, "--micro-batches", 4, says=["micro-batches", "strategy pipeline"])
        self.fails(2, "train", *SMALL, "--strategy", "pipeline", "--batch", 8, "--micro-batches", 9, says=["9", "8 samples"])
        self.fails(2, "train", *SMALL, "--memory-limit", "1.5e9", says=["--memory-limit", "whole number"])
        self.fails(2, "train", *SMALL, "--tensorboard", self.folder, says=["--tensorboard"])
        self.fails(2, "train", *SMALL, "--resume", says=["--resume needs --checkpoint,"])
        self.fails(2, "train", *SMALL, "--keep", 2, says=["--keep needs --checkpoint,"])
        self.fails(2, "train", *SMALL, "--checkpoint", self.folder / "c", "--keep", 0, says=["--keep"])
        self.fails(2, "train", *SMALL, "--clip", "norms=1", says=["norms=1", "global_norm=X"])
        self.fails(2, "train", *SMALL, "--clip", "norm=-1", says=["-1"])
        self.fails(2, "train", *SMALL, "--no-decay", "gamma", says=["gamma"])
        for given, said in (("sgd", "'dense*=sgd:lr=0.1'"), ("dense=sdg", "'sgd'"), ("none=sgd", "'none'")):
            self.fails(2, "train", *SMALL, "--optimizer-of", given, says=[said])
        self.fails(2, "train", *SMALL, "--schedule", "cosine", says=["decay_steps has to be given"])
        self.fails(2, "train", *SMALL, "--schedule", "piecewise:boundaries=3,values=1", says=["one number more", "1 and 1"])
        self.fails(2, "train", *SMALL, "--optimizer", "adam:beta1=1", says=["from 0 to below 1"])
        self.fails(2, "train", *SMALL, "--optimizer", "adam:amsgrad=2", says=["amsgrad=2 is not 0 or 1"])
        self.fails(2, "train", *SMALL, "--optimizer", "rmsprop:roh=0.5", says=["roh", "rho"])
        self.fails(2, "train", *SMALL, "--devices", "pocl:0*3", "--batch", 2, says=["replicas"])
        self.fails(2, "train", *SMALL, "--devices", "pocl:0*x", says=["pocl:0*x"])

    def test_no_such_device(self):
        self.fails(4, "train", *SMALL, "--devices", "99", says=["99"])
        self.fails(4, "train", *SMALL, "--devices", "nvidia", says=["nvidia"])

    def test_too_little_memory(self):
        self.fails(4, "train", *MLP, "--memory-limit", "400000", says=["parameters", "would fit", "--recompute auto", "--memory-limit"])
        weights = self.folder / "weights.safetensors"
        self.train(*MLP, "--epochs", 1, "--save", weights)
        line = self.fails(4, "eval", *MLP, "--weights", weights, "--memory-limit", "400000", says=["would fit"])
        self.assertNotIn("--recompute", line)

    def test_bad_data(self):
        self.fails(3, "train", *SMALL, "--data", self.folder / "nowhere", says=["nowhere"])
        self.fails(3, "train", *SMALL, "--data", self.folder)
        self.fails(3, "train", *SMALL, "--model", self.folder / "none.json", says=["none.json"])
        self.fails(3, "train", *SMALL, "--init", self.folder / "none.safetensors", says=["none.safetensors"])

    def data_folder(self, images, labels):
        folder = self.folder / "data"
        folder.mkdir(exist_ok=True)
        (folder / "train-images-idx3-ubyte.gz").write_bytes(images)
        (folder / "train-labels-idx1-ubyte").write_bytes(labels)
        return folder

    def idx(self, dims, data):
        return struct.pack(">HBB", 0, 8, len(dims)) + b"".join(struct.pack(">I", d) for d in dims) + data

    def test_bad_idx(self):
        images = gzip.compress(self.idx([64, 28, 28], bytes(64 * 784)))
        labels = self.idx([64], bytes([0, 1, 2, 3] * 16))
        common = ["train", "--model", LEAST, "--devices", "pocl:0", "--no-test", "--epochs", 1, "--data"]
        self.assertEqual(run(*common, self.data_folder(images, labels)).returncode, 0)
        self.fails(3, *common, self.data_folder(images[:-9], labels), says=["train-images"])
        self.fails(3, *common, self.data_folder(images, labels[:-1]), says=["train-labels"])
        self.fails(3, *common, self.data_folder(images, labels + b"x"), says=["train-labels"])
        self.fails(3, *common, self.data_folder(b"", labels), says=["train-images"])
        self.fails(3, *common, self.data_folder(images, self.idx([3], bytes(3))), says=["3", "64"])
        self.fails(3, *common, self.data_folder(images, self.idx([64], bytes(63) + bytes([10]))), says=["10"])
        self.fails(3, *common, self.data_folder(gzip.compress(self.idx([64, 20, 20], bytes(64 * 400))), labels), says=["400", "784"])
        self.fails(3, *common, self.data_folder(gzip.compress(self.idx([2**31, 2**31, 28], bytes(8))), labels))

    def test_bad_weights(self):
        good = self.folder / "good.safetensors"
        self.train(*SMALL, "--steps", 1, "--save", good)
        content, bad = good.read_bytes(), self.folder / "bad.safetensors"
        for damage in (content[:-1], content[:7], content[:100], b"", content + b"x", struct.pack("<Q", 2**60) + content[8:]):
            bad.write_bytes(damage)
            self.fails(3, "eval", *SMALL, "--weights", bad, says=["bad.safetensors"])
        self.fails(3, "eval", "--model", "cnn", "--data", SYNTHETIC, "--devices", "pocl:0", "--weights", good, says=["tensor"])

    def test_nothing_half_written(self):
        target = self.folder / "missing" / "w.safetensors"
        self.fails(1, "train", *SMALL, "--steps", 10**9, "--save", target, says=["--save", "w.safetensors"])
        target = self.folder / "missing" / "trace.json"
        self.fails(1, "train", *SMALL, "--steps", 10**9, "--trace", target, says=["--trace", "trace.json"])
        if os.path.exists("/dev/full"):
            self.fails(1, "train", *SMALL, "--steps", 1, "--log", "/dev/full", says=["/dev/full"])
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
