#!/usr/bin/env python3
"""Tests the command line against docs/command-line.md and docs/contract.md: outputs, exit codes, one clear line per
failure, nothing left behind.

usage: check_cli.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import gzip
import json
import os
import resource
import struct
import unittest

from commands import Commands, LEAST, MLP, SAMPLES, SMALL, SYNTHETIC, TESTED, WIDE, run
from support import npy


class CommandLine(Commands):
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
        self.fails(2, "train", *SMALL, "--disable-paths", "overlap,one lunch", says=["'one lunch' is unknown", "expected one launch, "])
        self.fails(2, "train", *SMALL, "--check-replicas", 2, says=("check of replicas",))
        self.fails(2, "train", *SMALL, "--check-replicas", 0, says=("--check-replicas '0'",))
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

    def test_settings_are_refused_before_drivers_are_loaded(self):
        """Without a driver, a wrong setting is the error."""
        env = {**os.environ, "OCL_ICD_VENDORS": str(self.folder)}
        common = ["train", *SMALL, "--strategy", "single"]
        for wrong, code in (["--optimizer", "adam:lr=fast"], 2), ([], 4):
            result = run(*common, *wrong, env=env)
            self.assertEqual((result.returncode, result.stderr.count("clique: error: ")), (code, 1), result.stderr)

    def test_wrong_weights_of_samples(self):
        common, some = [*SMALL, "--steps", 4], [1] * SAMPLES
        wrong = (("short", (SAMPLES - 1,), "<f4", some[1:], [f"({SAMPLES - 1},)", f"one weight for each of the {SAMPLES} samples"]),
                 ("negative", (SAMPLES,), "<f4", [*some[:7], -1, *some[8:]], ["the weight of sample 7 is -1", "at least 0"]),
                 ("large", (SAMPLES,), "<f8", [*some[:7], 1e300, *some[8:]], ["the weight of sample 7 is inf as float32"]))  # fmt: skip
        for name, shape, dtype, values, says in wrong:
            path = self.folder / f"{name}.npy"
            npy(path, shape, dtype, struct.pack(f"<{len(values)}{'f' if dtype == '<f4' else 'd'}", *values))
            self.fails(3, "train", *common, "--sample-weights", path, says=[path.name, *says])
        path.write_bytes(path.read_bytes()[:1000])
        self.fails(3, "train", *common, "--sample-weights", path, says=["large.npy", "truncated"])
        self.fails(3, "train", *common, "--sample-weights", self.folder / "none.npy", says=["none.npy", "cannot open"])

    def test_wrong_labels(self):
        self.fails(2, "train", *SMALL, "--labels", "sample", says=["--labels 'sample': expected data or samples"])
        self.fails(3, "train", *SMALL, "--loss", "mse", "--no-test", says=["a label has 1 value", "takes 10"])

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
        self.fails(3, "eval", *MLP, "--weights", good, says=["tensor"])

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
