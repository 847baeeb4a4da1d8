#!/usr/bin/env python3
"""Tests options of trainings by comparing what trainings with and without them compute.

Not with sanitizers: check_cli.py runs the same host code of the commands under sanitizers, and refuses wrong values of the
same options. Tests in train/ run the options' other code.

usage: check_trainings.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import json
import os
import pathlib
import shlex
import shutil
import struct
import subprocess
import unittest
import xml.etree.ElementTree

import support
from commands import BIN, CLIQUE, Commands, MLP, SAMPLES, SMALL, SYNTHETIC, TESTED, WIDE, run
from support import npy


class Trainings(Commands):
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
            result = run(*train, *arguments, cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
        one, two, other = ((self.folder / name).read_bytes() for name in ("one", "two", "other"))
        self.assertIn(b"moving_variance", two)
        self.assertEqual(two, other)
        self.assertNotEqual(one, two)

    def test_check_of_replicas(self):
        two = [*SMALL, "--steps", 6, "--no-test", "--check-replicas", 2]
        self.assertEqual(self.train(*two, "--devices", "pocl:0,pocl:1")["replicas"], 2)

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

    def test_same_seed_same_run(self):
        runs = []
        for i in range(2):
            log = self.folder / f"{i}.jsonl"
            self.train(*SMALL, "--devices", "pocl:0,pocl:1", "--epochs", 1, "--log", log)
            runs.append([{k: v for k, v in json.loads(line).items() if k != "ms"} for line in log.read_text().splitlines()])
        self.assertEqual(runs[0], runs[1])
        other = self.folder / "other.jsonl"
        self.train(*SMALL, "--devices", "pocl:0,pocl:1", "--epochs", 1, "--log", other, "--seed", 5)
        self.assertNotEqual(runs[0][0]["loss"], json.loads(other.read_text().splitlines()[0])["loss"])

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

    def test_fewer_bytes(self):
        """The script that draws the cost of compression and local steps."""
        script = pathlib.Path(__file__).resolve().parents[2] / "bench/fewer-bytes"
        options = ["--model", "mlp", "--data", SYNTHETIC, "--take", "256", "--epochs", "1", "--seeds", "1"]
        apart = self.folder / "apart"  # kernels are launched one by one, like those of the traced trainings
        apart.write_text(f"#!/bin/sh\nexec '{CLIQUE}' \"$@\" {shlex.join(support.APART)}\n")
        apart.chmod(0o755)
        done = subprocess.run([script, "--clique", apart, *options, "-o", self.folder], capture_output=True, text=True)
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

    def test_average(self):
        """After one update the average equals the weights. After two updates it lies between."""
        files = [self.folder / f"{i}.safetensors" for i in range(4)]
        for path, *options in ((files[0], "--steps", 1), (files[1], "--steps", 1, "--ema", 0.9),
                               (files[2], "--steps", 2), (files[3], "--steps", 2, "--ema", 0.9)):  # fmt: skip
            self.train(*SMALL, *options, "--save", path)
        first, average, last, between = (path.read_bytes() for path in files)
        self.assertEqual(first, average)
        self.assertNotIn(between, (first, last))


if __name__ == "__main__":
    unittest.main(verbosity=1)
