#!/usr/bin/env python3
"""Tests weights of checkpoints: eval and predict with --checkpoint, eval --follow during a training, and the evaluator
of clique launch: check_follow.py BIN_FOLDER."""
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import unittest

from support import APART, InFolder, put_least

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "world"))
from launch import Started, errors_in, free_port  # noqa: E402

CLIQUE = pathlib.Path(sys.argv.pop(1)).resolve() / "clique"
# Ends as $ACT says.
LAUNCHER = """#!/bin/bash
[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }
eval "$ACT"
"""


class Follow(Started, InFolder):
    def setUp(self):
        super().setUp()
        self.common = ["--model", put_least(self.folder), "--data", "synthetic:28x28/10/1200", "--devices", "pocl:0", *APART]
        self.plan = [*self.common, "--shuffle", "off", "--progress", "off"]

    def start(self, *words, **variables):
        environment = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}"} | variables
        environment = {name: value for name, value in environment.items() if name != "TF_CONFIG" or "TF_CONFIG" in variables}
        return self.started([CLIQUE, *words], environment)

    def run_it(self, *words):
        return self.end(self.start(*words))

    def run_well(self, *words):
        code, out, said = self.run_it(*words)
        self.assertEqual(code, 0, said)
        return out

    def refused(self, code, words, *arguments):
        done, out, said = self.run_it(*arguments)
        self.assertEqual((done, out, len(errors_in(said))), (code, "", 1), said)
        self.assertIn(words, errors_in(said)[0])

    def evaluate(self, *options):
        return json.loads(self.run_well("eval", *self.common, *options, "--json"))

    def assert_as_trained(self, line, in_order=True):
        """Compares a step's values with those of the weights that a training up to that step saves. in_order: the sums
        were added in the same order, so that they are equal to the bit. Else the loss differs by rounding."""
        saved = f"step {line['step']}"
        self.run_well("train", *self.plan, "--no-test", "--steps", line["step"], "--save", saved)
        right = self.evaluate("--weights", saved)
        for key in ("loss", "accuracy", "samples"):
            self.assertAlmostEqual(line[key], right[key], delta=0 if in_order or key != "loss" else 1e-6 * right[key], msg=line)

    # ---- one checkpoint ----

    def test_newest_checkpoint(self):
        report = json.loads(self.run_well("train", *self.plan, "--epochs", 2, "--checkpoint", "c", "--checkpoint-every", 5, "--save", "w",
                                          "--json"))
        by_file, by_folder = self.evaluate("--weights", "w"), self.evaluate("--checkpoint", "c")
        self.assertEqual(by_folder, by_file | {"step": report["checkpoints"]["last_step"], "images_per_s": by_folder["images_per_s"]})
        line = self.run_well("eval", *self.common, "--checkpoint", "c")
        self.assertRegex(line, rf"^step {by_folder['step']}  loss \d\.\d{{6}}  accuracy ")
        self.assertAlmostEqual(by_folder["loss"], report["epochs"][-1]["val_loss"], delta=1e-6)
        for source in (["--weights", "w"], ["--checkpoint", "c"]):
            self.run_well("predict", *self.common, *source, "--out", f"{source[0][2:]}.npy")
        self.assertEqual((self.folder / "weights.npy").read_bytes(), (self.folder / "checkpoint.npy").read_bytes())
        # A folder without a manifest does not count as a checkpoint. A damaged checkpoint is reported.
        newest, *_ = sorted((self.folder / "c").iterdir(), reverse=True)
        (newest / "manifest.json").rename(self.folder / "kept")
        self.assertNotEqual(self.evaluate("--checkpoint", "c")["loss"], by_file["loss"])
        (self.folder / "kept").rename(newest / "manifest.json")
        tensors = newest / "tensors.safetensors"
        tensors.write_bytes(tensors.read_bytes()[:-1] + b"?")
        self.refused(3, "damaged", "eval", *self.common, "--checkpoint", "c")
        shutil.rmtree(newest)
        self.refused(3, "none.json", "eval", *self.common, "--model", "none.json", "--checkpoint", "c")
        self.refused(3, "tensor", "eval", *self.common, "--model", "mlp", "--checkpoint", "c")

    def test_data_of_a_process_that_is_alone(self):
        for command in (["eval"], ["predict", "--out", "o"]):
            self.refused(3, "part 0 of 1", *command, *self.common, "--weights", "w", "--data", self.folder / "part {rank} of {ranks}")

    def test_shard_of_a_process_that_is_alone(self):
        """--shard has no effect, so that it may change."""
        for way in (["--shard", "file", "--steps", 3], ["--steps", 6, "--resume"], ["--shard", "off", "--steps", 9, "--resume"]):
            code, _, said = self.run_it("train", *self.plan, "--no-test", "--checkpoint", "c", *way)
            self.assertEqual((code, said), (0, ""))

    def test_bad_options(self):
        self.refused(2, "--checkpoint DIR", "eval", *self.common)
        self.refused(2, "--follow needs", "eval", *self.common, "--follow")
        self.refused(2, "exclude each other", "eval", *self.common, "--weights", "w", "--checkpoint", "c")
        self.refused(2, "--follow needs", "eval", *self.common, "--weights", "w", "--follow")
        self.refused(3, "no whole checkpoint", "eval", *self.common, "--checkpoint", "none")

    # ---- during a training ----

    def follow_training(self, *options):
        """The training continues until two checkpoints are evaluated. Returns the output, and the training's last
        checkpoint."""
        follower = self.start("eval", *self.common, "--checkpoint", "c", "--follow", *options)
        training = self.start("train", *self.plan, "--epochs", 1000000, "--no-test", "--checkpoint", "c", "--checkpoint-every", 7)
        lines = [follower.stdout.readline(), follower.stdout.readline()]
        training.send_signal(signal.SIGINT)
        code, _, said = self.end(training)
        self.assertEqual(code, 130, said)
        code, out, said = self.end(follower)
        self.assertEqual((code, said), (0, ""))
        newest = max(path.name for path in (self.folder / "c").iterdir())
        return lines + out.splitlines(keepends=True), int(newest.split("-")[1])

    def test_follow(self):
        lines, newest = self.follow_training("--json")
        lines = [json.loads(line) for line in lines]
        steps = [line["step"] for line in lines]
        self.assertEqual((steps, steps[-1]), (sorted(set(steps)), newest))
        for line in lines[:2]:
            self.assert_as_trained(line)

    def test_follow_for_people(self):
        lines, newest = self.follow_training()
        for line in lines:
            self.assertRegex(line, r"^step \d+  loss \d\.\d{6}  accuracy \d\.\d{4}  200 samples  \d+ images/s\n$")
        self.assertTrue(lines[-1].startswith(f"step {newest}  "), lines)

    def test_follow_of_a_training_that_goes_back(self):
        """The newest checkpoint is gone. The one before was already evaluated, so only later checkpoints are new."""
        steps = []
        self.run_well("train", *self.plan, "--no-test", "--steps", 6, "--checkpoint", "c", "--checkpoint-every", 3)
        follower = self.start("eval", *self.common, "--checkpoint", "c", "--follow", "--json")
        steps.append(json.loads(follower.stdout.readline())["step"])
        (self.folder / "c" / "step-000000000006").rename(self.folder / "gone")
        self.run_well("train", *self.plan, "--no-test", "--steps", 8, "--checkpoint", "c", "--resume")
        steps.append(json.loads(follower.stdout.readline())["step"])
        follower.send_signal(signal.SIGTERM)
        self.end(follower)
        self.assertEqual(steps, [6, 8])

    def test_follow_is_interrupted(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            self.run_well("train", *self.plan, "--no-test", "--steps", 3, "--checkpoint", f"c{code}")
            follower = self.start("eval", *self.common, "--checkpoint", f"c{code}", "--follow")
            self.assertTrue(follower.stdout.readline().startswith("step 3  "))
            follower.send_signal(number)
            done, _, said = self.end(follower)
            self.assertEqual((done, said), (code, "clique: error: interrupted\n"))

    # ---- the evaluator of a launched training ----

    def evaluator(self, act, *options):
        """Returns how the evaluator ended, and how the launching host ended. The launcher does what `act` says."""
        program = self.folder / "mpirun.openmpi"
        program.write_text(LAUNCHER)
        program.chmod(0o755)
        cluster = {"worker": [f"localhost:{free_port()}"]}
        runs = []
        for kind in ("evaluator", "worker"):
            config = json.dumps({"cluster": cluster, "task": {"type": kind, "index": 0}})
            runs.append(self.start("launch", "--mpi", "openmpi", "--", "clique", "train", *self.plan, "--checkpoint", "c", "--shares", "1,2",
                                   "--epochs", 9, "--batch", 128, *options, TF_CONFIG=config, ACT=act))
        return [self.end(run) for run in runs]

    def training(self, *options):
        words = ["train", *self.plan, "--checkpoint", "c", "--checkpoint-every", 10, "--keep", 1000, *options]
        return " ".join(f"'{word}'" for word in map(str, [CLIQUE, *words]))

    def test_evaluator(self):
        (code, out, said), (launched, _, reason) = self.evaluator(self.training("--steps", 40), "--json", "--strategy", "pipeline:stages=2",
                                                                "--micro-batches", 4)
        self.assertEqual((code, launched), (0, 0), said + reason)
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(lines[-1]["step"], 40)
        self.assert_as_trained(lines[-1], in_order=False)

    def test_evaluator_has_the_runs_code(self):
        (code, out, said), (launched, _, _) = self.evaluator(self.training("--steps", 10) + "; exit 4")
        self.assertEqual((code, launched), (4, 4), said)
        self.assertTrue(out.splitlines()[-1].startswith("step 10  "), out)
        self.assertEqual(errors_in(said), ["clique: error: the run that localhost launched ended with exit code 4; the reason is in that host's output"])

    def test_evaluator_has_data_of_its_own(self):
        (code, _, said), _ = self.evaluator("exit 0", "--data", "part {rank} of {ranks}")
        self.assertEqual((code, len(errors_in(said))), (3, 1), said)
        self.assertIn("part evaluator of 1", said)

    def test_evaluator_in_vain(self):
        config = json.dumps({"cluster": {"worker": [f"localhost:{free_port()}"]}, "task": {"type": "evaluator", "index": 0}})
        words = ["launch", "--wait", 1, "--", "clique", "train", *self.plan]
        code, _, said = self.end(self.start(*words, "--checkpoint", "c", TF_CONFIG=config))
        self.assertEqual((code, len(errors_in(said))), (4, 1), said)
        for command in (words, ["launch", "--", "other", "--checkpoint", "c"]):
            code, _, said = self.end(self.start(*command, TF_CONFIG=config))
            self.assertEqual((code, len(errors_in(said))), (3, 1), said)
            self.assertTrue(re.search("must be clique train, with --checkpoint DIR", said), said)
        code, out, _ = self.end(self.start("launch", "--dry-run", "--", "clique", "train", "--checkpoint", "c", TF_CONFIG=config))
        self.assertEqual((code, out), (0, "evaluates for localhost\n"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
