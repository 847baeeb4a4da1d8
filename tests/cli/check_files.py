#!/usr/bin/env python3
"""Tests what commands do to files: no output overwrites an input or another output, and no file is emptied before the
new content exists.

usage: check_files.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import unittest

import support

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin").resolve()
MODEL = support.sequential("small", [("Flatten", {}), ("Dense", {"units": 10, "activation": "softmax"})])
TRAIN = ["train", *support.APART, "--model", "m.json", "--data", "synthetic:28x28/10/64", "--devices", "pocl:0", "--no-test", "--steps", 1]


class Files(support.InFolder):
    def setUp(self):
        super().setUp()
        self.put("m.json", MODEL)

    def run_in(self, *args, **more):
        program = "clique-bench" if args[0] == "bench" else "clique"
        return subprocess.run([str(BIN / program), *map(str, args[1:] if args[0] == "bench" else args)], cwd=self.folder,
                              capture_output="stdout" not in more, text=True, timeout=240, **more)

    def refused(self, *args, says=(), **more):
        before = self.contents()
        result = self.run_in(*args, **more)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in says:
            self.assertIn(word, result.stderr)
        self.assertEqual(self.contents(), before)

    def contents(self):
        return {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def test_two_outputs(self):
        (self.folder / "link").symlink_to("new")
        (self.folder / "folder").symlink_to(".")
        self.put("there", "kept\n")
        os.link(self.folder / "there", self.folder / "hard")
        pairs = [("new", "new"), ("new", "./new"), ("new", "link"), ("link", "new"), ("new", "folder/new"), ("there", "hard"),
                 ("there", self.folder / "there")]
        options = ["--save", "--save-best", "--csv", "--log", "--trace"]
        for i, (first, second) in enumerate(pairs):
            a, b = options[i % 5], options[(i + 1 + i // 5) % 5]
            self.refused(*TRAIN, a, first, b, second, says=[a, b, "the same file"])
        self.refused("bench", "launch", "--json", "new", "--csv", "link", says=["--json", "--csv"])

    def test_inputs(self):
        self.put("w", "weights")
        self.put("weights.npy", "numbers")
        (self.folder / "soft").symlink_to("w")
        os.link(self.folder / "w", self.folder / "hard")
        for output in ("--save", "--save-best", "--csv", "--log", "--trace"):
            self.refused(*TRAIN, output, "m.json", says=[output, "--model", "m.json"])
            for name in ("w", "soft", "hard"):
                self.refused(*TRAIN, "--init", "w", output, name, says=[output, "--init"])
            self.refused(*TRAIN, "--sample-weights", "weights.npy", output, "./weights.npy", says=[output, "--sample-weights"])
        for name in ("w", "soft", "hard"):
            self.refused("predict", "--model", "m.json", "--weights", "w", "--out", name, says=["--out", "--weights"])
        self.refused("predict", "--model", "m.json", "--weights", "w", "--out", "m.json", says=["--out", "--model"])
        self.refused("bench", "train", "--models", "mlp,m.json", "--json", "m.json", says=["--json", "--models"])

    def test_data(self):
        data = self.folder / "data"
        data.mkdir()
        self.put("elsewhere", "labels")
        (data / "x_train.npy").write_text("samples")
        (data / "y_train.npy").symlink_to("../elsewhere")
        for name in ("data/x_train.npy", "data/y_train.npy", "elsewhere", "data/x_test.npy", "data/y_train_1.npy",
                     "data/train-images-idx3-ubyte", "data/data_batch_1.bin"):
            self.refused("train", "--model", "m.json", "--data", "data", "--save", name, says=["--save", "--data"])
            self.refused("predict", "--model", "m.json", "--data", "data", "--weights", "w", "--out", name, says=["--out", "--data"])
        # Files that are not data may be in the folder: here the data themselves are wrong.
        result = self.run_in("train", "--model", "m.json", "--data", "data", "--save", "data/w.safetensors")
        self.assertEqual(result.returncode, 3, result.stderr)

    def test_outputs_of_predict(self):
        """The outputs' files must differ from each other."""
        layers = [{"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 28, 28]}, "name": "x", "inbound_nodes": []}]
        for name, units, source in (("flat", 0, "x"), ("a", 10, "flat"), ("b", 2, "flat")):
            kind, config = ("Dense", {"units": units}) if units else ("Flatten", {})
            tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": [source, 0, 0]}}
            layers.append({"class_name": kind, "config": {"name": name, **config}, "name": name, "inbound_nodes": [{"args": [tensor], "kwargs": {}}]})
        self.put("two.json", json.dumps({"class_name": "Functional", "config": {
            "name": "two", "layers": layers, "input_layers": [["x", 0, 0]], "output_layers": [["a", 0, 0], ["b", 0, 0]]}}))
        self.put("w", "weights")
        predict = ["predict", "--model", "two.json", "--weights", "w", "--data", "synthetic:28x28/10/64", "--devices", "pocl:0", "--out", "out.npy"]
        (self.folder / "out_1.npy").symlink_to("out.npy")
        self.refused(*predict, says=["--out", "the same file", "out_1.npy"])
        self.put("out.npy", "earlier")
        self.refused(*predict, says=["--out", "the same file", "out_1.npy"])
        (self.folder / "out_1.npy").unlink()
        (self.folder / "out_1.npy").symlink_to("w")
        self.refused(*predict, says=["--out", "--weights"])

    def test_checkpoints(self):
        """Nothing overwrites a checkpoint's files, by any name or link."""
        done = self.run_in(*TRAIN, "--checkpoint", "ck")
        self.assertEqual(done.returncode, 0, done.stderr)
        (step,) = (self.folder / "ck").iterdir()
        inside = f"ck/{step.name}"
        (self.folder / "link").symlink_to(f"{inside}/tensors.safetensors")
        (self.folder / "folder").symlink_to(inside)
        os.link(step / "manifest.json", self.folder / "hard")
        (self.folder / "ck" / "skipped-000000000001-0").mkdir()
        going_on = [*TRAIN, "--checkpoint", "ck", "--resume"]
        names = [f"{inside}/tensors.safetensors", f"{inside}/manifest.json", f"{inside}/new", "folder/new", "link", "hard",
                 "ck/step-000000000007", "ck/skipped-000000000001-0/new", "ck/skipped-000000000001-1"]
        for i, name in enumerate(names):
            option = ("--save", "--save-best", "--csv", "--log", "--trace")[i % 5]
            self.refused(*going_on, option, name, says=[option, "--checkpoint", name])
        result = self.run_in(*going_on, "--save", "ck/w.safetensors")  # other names in the folder are allowed
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_redirected(self):
        with open(self.folder / "all", "w") as out:
            result = subprocess.run([str(BIN / "clique"), *map(str, TRAIN), "--json", "--csv", "all"], cwd=self.folder, stdout=out,
                                    stderr=subprocess.PIPE, text=True, timeout=240)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--csv", result.stderr)

    def test_allowed(self):
        """Devices are not files, and neither is the name of a built-in model."""
        self.put("mlp", "not a model")
        result = self.run_in(*TRAIN, "--log", "/dev/null", "--csv", "/dev/null", "--save", "w", "--checkpoint", "run")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = self.run_in(*TRAIN, "--model", "mlp", "--log", "mlp")
        self.assertEqual(result.returncode, 0, result.stderr)

    def make_pipe(self, name):
        os.mkfifo(self.folder / name)
        return self.folder / name

    def read_line_of(self, path, lines):
        """In a thread, since opening a pipe waits for the other end."""
        def read():
            with open(path) as pipe:
                lines.append(pipe.readline())
        reader = threading.Thread(target=read)
        reader.start()
        self.addCleanup(reader.join)

    def test_pipes(self):
        """A pipe receives all lines. If its reader has gone, the write fails, whatever the pipe's capacity."""
        pipe, lines = self.make_pipe("pipe"), []
        reader = threading.Thread(target=lambda: lines.extend(pipe.read_text().splitlines()))
        reader.start()
        result = self.run_in(*TRAIN[:-1], 30, "--log", pipe)
        reader.join()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([json.loads(line)["step"] for line in lines], list(range(1, 31)))

        for option, first in (("--log", '{"step": 1,'), ("--csv", "epoch,loss")):
            lines = []
            self.read_line_of(pipe, lines)
            result = self.run_in(*TRAIN[:-1], 2000, option, pipe)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn(f"{option[2:]} {pipe}: ", result.stderr)
            self.assertIn("Broken pipe", result.stderr)
            self.assertTrue(lines[0].startswith(first), lines)

        command = [str(BIN / "clique"), *map(str, TRAIN[:-1]), "2000", "--log", "/dev/stdout", "--progress", "off"]
        with subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            process.stdout.close()
            error = process.stderr.read()
            self.assertEqual(process.wait(240), 1, error)
        self.assertIn("--log /dev/stdout: Broken pipe", error)

    def test_nothing_to_write(self):
        self.put("log", "earlier\n")
        self.put("csv", "earlier\n")
        before = self.contents()
        outputs = ["--log", "log", "--csv", "csv"]
        failing = [(2, ["--cross-device-ops", "nonsense"]), (2, ["--monitor", "loss"]), (2, ["--csv", "csv", "--early-stopping", "monitor=nothing"])]
        for code, options in failing:
            result = self.run_in(*TRAIN, *outputs, *options)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertEqual(self.contents(), before, options)
        result = self.run_in(*TRAIN, *outputs)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([json.loads(line)["step"] for line in (self.folder / "log").read_text().splitlines()], [1])
        self.assertEqual(len((self.folder / "csv").read_text().splitlines()), 2)

    def test_keras_files(self):
        """A .keras file is trained in part and saved as a .keras file. Another training and eval use its weights."""
        golden = pathlib.Path(os.environ["CLQ_TEST_SOURCE"]) / "tests/golden/keras_files/images.keras"
        data = ["--data", "synthetic:6x6x2/3/64", "--devices", "pocl:0"]
        train = ["train", *data, "--no-test", "--steps", 1, *support.APART]
        done = self.run_in(*train, "--model", golden, "--freeze", "yak,b*,ant,newt", "--save", "tuned.keras", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_in("eval", *data, "--model", "tuned.keras")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.put("map", "layers/dense/vars/* ->\nlayers/dense_1/vars/0 -> dense_1/kernel reshaped\nlayers/*/vars/0 -> *\n")
        done = self.run_in(*train, "--model", golden, "--init", "tuned.keras", "--init-map", "map")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("map: line 3: model images has no variable 'batch_normalization'", done.stderr)
        self.refused(*train, "--model", golden, "--init-partial", says=["--init-partial needs --init FILE"])
        self.refused(*train, "--model", golden, "--freeze", "yack", says=["'yack'", "did you mean 'yak'?"])
        self.put("m.json", support.sequential("other", [("Flatten", {}), ("Dense", {"units": 3, "activation": "softmax"})]))
        done = self.run_in("train", "--data", "synthetic:28x28/3/64", "--devices", "pocl:0", "--no-test", "--steps", 1, *support.APART,
                           "--model", "m.json", "--init", "tuned.keras", "--init-map", self.put("map", "layers/dense_1/vars/1 -> dense_2/bias\n"), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("init tuned.keras: 1 of 2 variables; 1 with their initial values: dense_2/kernel; ", done.stderr)
        self.assertEqual(json.loads(done.stdout)["init"]["loaded"], ["dense_2/bias"])
        # The command without the program for Keras's files, as in a build without HDF5.
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(BIN / "clique", alone)
        done = subprocess.run([alone / "clique", "plan", "--model", golden], capture_output=True, text=True, timeout=240)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (3, 1), done.stderr)
        self.assertIn("install libhdf5-dev and libzip-dev, and build Clique again", done.stderr)


if __name__ == "__main__":
    unittest.main()
