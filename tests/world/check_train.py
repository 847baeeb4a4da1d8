"""Tests clique train under a launcher of MPI: check_train.py BIN_FOLDER openmpi|mpich. All processes are on this
machine."""
import array
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from launch import ENVIRONMENT, HOST, by_one_mpi, cache_to_lose, check_code, check_missed, check_refused, errors, finish, line, processes

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from support import npy

CLIQUE, MPI = pathlib.Path(sys.argv.pop(1)).resolve() / "clique", sys.argv.pop(1)
DATA = ["--model", "mlp", "--data", "synthetic:28x28/10/1280", "--disable-paths", "one launch"]
NEAR = 1e-4


class Train(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def line(self, ranks, *options, of_rank=None, more=()):
        own = {r: ["--devices", f"pocl:{r}", *(of_rank or {}).get(r, []), *options] for r in range(ranks)}
        return line(MPI, ranks, CLIQUE, "train", *DATA, of_rank=own, more=more)

    def run_ranks(self, ranks, *options, variables=None, **more):
        return finish(self.line(ranks, *options, **more), self.folder, **(variables or {}))

    def run_alone(self, *options):
        done = subprocess.run([CLIQUE, "train", *DATA, *map(str, options)], env=ENVIRONMENT, cwd=self.folder, capture_output=True,
                              text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def report(self, ranks, *options, **more):
        done = self.run_ranks(ranks, *options, "--json", **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def log(self, name):
        return {row["step"]: row for row in map(json.loads, (self.folder / name).read_text().splitlines())}

    def weights(self, name):
        """The numbers in a file of weights, after its header."""
        data = (self.folder / name).read_bytes()
        return array.array("f", data[8 + struct.unpack("<Q", data[:8])[0]:])

    def assert_near(self, epochs, right):
        for epoch, other in zip(epochs, right, strict=True):
            for key in ("loss", "accuracy", "val_loss", "val_accuracy"):
                self.assertAlmostEqual(epoch[key], other[key], delta=NEAR * max(abs(other[key]), 1), msg=key)

    def test_equal_to_one_process(self):
        alone = self.run_alone("--devices", "pocl:0", "--log", "alone", "--csv", "alone.csv", "--json", "--save", "alone.w")
        for ranks in (2, 3):
            files = ["--log", f"log{ranks}", "--csv", f"csv{ranks}", "--save", f"w{ranks}", "--save-best", f"best{ranks}"]
            report = self.report(ranks, *files, "--strategy", "multiworker")
            self.assertEqual((report["replicas"], report["ranks"], report["global_batch"]), (ranks, ranks, 64))
            self.assertEqual([d["rank"] for d in report["devices"]], list(range(ranks)))
            self.assertEqual(sum(d["share"] for d in report["devices"]), 64)
            self.assert_near(report["epochs"], alone["epochs"])
            log, right = self.log(f"log{ranks}"), self.log("alone")
            self.assertEqual(list(log), list(right))
            for step, row in log.items():
                self.assertAlmostEqual(row["loss"], right[step]["loss"], delta=NEAR * max(right[step]["loss"], 1))
                self.assertAlmostEqual(row["grad_norm"], right[step]["grad_norm"], delta=NEAR * max(right[step]["grad_norm"], 1))
                self.assertEqual(row["samples"], right[step]["samples"])
            self.assertEqual((self.folder / f"csv{ranks}").read_text().count("\n"), 1 + 3)
            weights, wanted = self.weights(f"w{ranks}"), self.weights("alone.w")
            self.assertEqual(len(self.weights(f"best{ranks}")), len(weights))
            for value, other in zip(weights, wanted, strict=True):
                self.assertAlmostEqual(value, other, delta=1e-5)  # 2e-7 was found

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_ways_of_exchanging(self):
        for way in (["--local-steps", 3], ["--shard-optimizer", "--clip", "global_norm=1"], ["--shares", "1,2,3,4"],
                    ["--strategy", "pipeline:stages=2", "--check-replicas", 5]):
            alone = self.run_alone("--devices", "pocl:0,pocl:1,pocl:2,pocl:3", "--strategy", "mirrored", "--epochs", 2, "--json", *way)
            report = self.report(2, "--epochs", 2, *way, of_rank={0: ["--devices", "pocl:0,pocl:1"], 1: ["--devices", "pocl:2,pocl:3"]})
            self.assertEqual((report["replicas"], report["ranks"]), (4, 2))
            self.assertEqual([d["share"] for d in report["devices"]], [d["share"] for d in alone["devices"]])
            self.assert_near(report["epochs"], alone["epochs"])

    def put_samples(self, name, rows):
        """Writes the same samples for training and test."""
        folder = self.folder / name
        folder.mkdir()
        for part in ("train", "test"):
            npy(folder / f"x_{part}.npy", (len(rows), 28, 28, 1), "|u1", b"".join(image for image, _ in rows))
            npy(folder / f"y_{part}.npy", (len(rows),), "|u1", bytes(label for _, label in rows))

    # The files of each process hold the rows that it would take from the complete set. One process has additional rows.
    def test_own_files(self):
        chance = random.Random(3)
        rows = [(chance.randbytes(784), chance.randrange(10)) for _ in range(5 * 64)]
        more = [(chance.randbytes(784), chance.randrange(10)) for _ in range(50)]
        self.put_samples("whole", rows)
        self.put_samples("whole and more", rows + more)
        self.put_samples("part 0 of 2", [row for i, row in enumerate(rows) if i % 64 < 32])
        self.put_samples("part 1 of 2", [row for i, row in enumerate(rows) if i % 64 >= 32] + more)
        plan = ["--shuffle", "off", "--epochs", "2"]
        alone = self.run_alone("--devices", "pocl:0", "--data", "whole", *plan, "--json", "--save", "alone.w")
        own = ["--data", "part {rank} of {ranks}", "--shard", "file", *plan]
        done = self.run_ranks(2, *own, "--json", "--save", "own.w", "--checkpoint", "c")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall("50 of all 370 samples are left out", done.stderr)), 1, done.stderr)
        report = json.loads(done.stdout)
        for epoch, other in zip(report["epochs"], alone["epochs"], strict=True):
            self.assertAlmostEqual(epoch["loss"], other["loss"], delta=NEAR)
        for value, other in zip(self.weights("own.w"), self.weights("alone.w"), strict=True):
            self.assertAlmostEqual(value, other, delta=1e-5)
        # All test samples count once, including those that were not used in training.
        tested = self.run_alone("--devices", "pocl:0", "--data", "whole and more", "--init", "own.w", "--steps", 1,
                                "--optimizer", "sgd:lr=0", "--json")
        for key in ("val_loss", "val_accuracy"):
            self.assertAlmostEqual(report["epochs"][-1][key], tested["epochs"][0][key], delta=NEAR)
        # One process uses its own file, too.
        (self.folder / "part 0 of 1").symlink_to("part 0 of 2")
        one = finish([CLIQUE, "train", *DATA, "--devices", "pocl:0", *own, "--steps", "99", "--checkpoint", "c", "--resume"], self.folder)
        self.assertEqual((one.returncode, len(errors(one))), (3, 1), one.stderr)
        self.assertIn("it is of 2 processes with files of their own (shard file), and now there is 1", one.stderr)
        self.refused(3, ["give shares as numbers"], 2, *own, "--shares", "auto")

    def test_store_ranks(self):
        plan = ["--strategy", "ps", "--epochs", 2]
        whole = self.run_alone("--devices", "pocl:0,pocl:1", "--strategy", "mirrored", "--epochs", 2, "--json")
        report = self.report(3, *plan, "--staleness", 0)
        self.assertEqual((report["replicas"], report["ranks"], report["ps_ranks"]), (2, 2, 1))
        self.assert_near(report["epochs"], whole["epochs"])
        self.assertEqual((report["server"]["updates"], report["server"]["gradients"]), (40, 80))
        # Every update is made once. Another number of processes can resume.
        report = self.report(4, *plan, "--ps-ranks", 2, "--log", "log", "--checkpoint", "c", "--checkpoint-every", 7)
        self.assertEqual((report["server"]["updates"], sum(report["server"]["staleness"])), (40, 40))
        self.assertEqual(len(report["server"]["staleness"]), 4 + 1)
        log = self.log("log")
        self.assertEqual(list(log), list(range(1, 41)))
        self.assertTrue({row["replica"] for row in log.values()} <= {0, 1})
        self.assertLessEqual(max(row["staleness"] for row in log.values()), 4)
        report = self.report(3, "--strategy", "ps", "--epochs", 3, "--checkpoint", "c", "--resume")
        self.assertEqual((report["checkpoints"]["resumed_from"], report["server"]["updates"]), (40, 20))
        self.assertGreater(report["epochs"][-1]["accuracy"], 0.95)
        done = self.run_ranks(3, *plan)
        self.assertIn("on 2 replicas of 2 processes", done.stdout)
        self.assertIn(f"rank 2 on {HOST} keeps all of the variables", done.stdout)

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_store_ranks_are_refused(self):
        self.refused(2, ["leaves none to train: use at most 1"], 2, "--strategy", "ps", "--ps-ranks", 2)
        self.refused(2, ["is an option of --strategy ps"], 2, "--ps-ranks", 1)
        self.refused(3, ["backup replicas are of one machine"], 3, "--strategy", "ps", "--staleness", 0, "--backup", 1)
        self.refused(3, ["use one (--ps-ranks 1)"], 4, "--strategy", "ps", "--ps-ranks", 2, "--clip", "global_norm=1")
        self.refused(3, ["none.json"], 3, "--strategy", "ps", "--model", "none.json")
        self.refused(3, ["with a staleness of 4 a batch is one replica's"], 3, "--strategy", "ps", "--shard", "off")
        self.refused(2, ["splits batches evenly"], 3, "--strategy", "ps", "--shares", "auto")
        self.refused(2, ["does not shard"], 3, "--strategy", "ps", "--shard-optimizer")
        self.refused(2, ["scales the loss"], 3, "--strategy", "ps", "--precision", "mixed")
        another = f"rank 1 on {HOST} has another number of store ranks"
        self.refused(3, [another], 3, of_rank={0: ["--strategy", "ps"], 1: ["--strategy", "mirrored"], 2: ["--strategy", "ps"]})
        self.refused(3, [another], 3, "--strategy", "ps", of_rank={1: ["--ps-ranks", 2]})
        done = subprocess.run([CLIQUE, "train", *DATA, "--strategy", "ps", "--ps-ranks", "1"], env=ENVIRONMENT, capture_output=True, text=True,
                              timeout=240)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("this process is alone", done.stderr)

    # All processes get a signal, as launchers send it.
    def test_interrupted_with_a_store_rank(self):
        plan = ["--strategy", "ps", "--checkpoint", "c"]

        def stop():
            for pid in self.processes():
                os.kill(pid, signal.SIGTERM)

        said, code = self.act_behind_100_steps(3, stop, *plan, "--epochs", 100000)
        self.assertIn(code, (130, 143, signal.SIGKILL) if MPI == "mpich" else (130, 143))
        self.assertEqual(len(re.findall("^clique: error: .*interrupted", said, re.M)), 1, said)
        done = self.run_ranks(2, *plan, "--steps", 10, "--resume", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["checkpoints"]["resumed_from"], 0)

    # The store rank is stopped. The first training process knows most about it.
    def test_stopped_store_rank(self):
        said, code = self.act_behind_100_steps(3, lambda: os.kill(self.processes()[2], signal.SIGSTOP), "--epochs", 100000, "--strategy", "ps",
                                               "--checkpoint", "c", "--checkpoint-every", 10)
        self.assertIn(code, (1, signal.SIGKILL) if MPI == "mpich" else (1,))
        self.assertEqual(check_missed(self, said, lost=2), {0, 1}, said)

    def test_the_same_bits_again(self):
        for name in ("a", "b"):
            self.assertEqual(self.run_ranks(2, "--save", name).returncode, 0)
        self.assertEqual((self.folder / "a").read_bytes(), (self.folder / "b").read_bytes())

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_batch_of_each_replica(self):
        report = self.report(2, "--batch-per-replica", 24, "--epochs", 1)
        self.assertEqual((report["global_batch"], report["shares"]), (48, [{"step": 1, "shares": [24, 24]}]))

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_early_stopping(self):
        alone = self.run_alone("--devices", "pocl:0", "--epochs", 9, "--early-stopping", "patience=0,min_delta=1e9", "--json")
        report = self.report(2, "--epochs", 9, "--early-stopping", "patience=0,min_delta=1e9")
        self.assertEqual(len(report["epochs"]), len(alone["epochs"]))
        self.assertEqual(report["early_stopping"]["stopped"], True)

    def test_stdout_is_rank_0s(self):
        done = self.run_ranks(3, "--epochs", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"^epoch 2 ", done.stdout.replace("\r", "\n"), re.M)), 1)
        self.assertIn("on 3 replicas of 3 processes", done.stdout)
        self.assertIn(f"of rank 2 on {HOST}, 20 of each batch", done.stdout)

    def refused(self, code, words, ranks, *options, **more):
        check_refused(self, MPI, self.run_ranks(ranks, *options, variables=cache_to_lose(self.folder), **more), code, words)

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_bad_input(self):
        other = f"rank 1 on {HOST}"
        self.refused(2, ["--batch 'x'"], 2, "--batch", "x")
        self.refused(2, [other, "--batch 'x'"], 2, of_rank={1: ["--batch", "x"]})
        self.refused(3, ["none.json"], 2, "--model", "none.json")
        self.refused(3, [other, "none.json"], 2, of_rank={1: ["--model", "none.json"]})
        self.refused(3, [other, "another model or settings"], 2, of_rank={1: ["--seed", 9]})
        self.refused(3, [other, "another data set than rank 0"], 2, of_rank={1: ["--take", 640]})
        self.refused(3, [other, "another plan"], 2, of_rank={1: ["--epochs", 2]})
        self.refused(3, ["use strategy mirrored"], 3, "--strategy", "central")
        self.refused(3, ["topk"], 2, "--compress", "topk=0.1")
        self.refused(3, ["equally many devices"], 2, "--shard-optimizer", of_rank={1: ["--devices", "pocl:1,pocl:2"]})
        self.refused(2, ["2 weights are given for 3 replicas"], 3, "--shares", "3,1")
        self.refused(2, ["smaller than the 3 replicas"], 3, "--batch", 2)
        self.refused(1, ["--save"], 2, of_rank={0: ["--save", "/nowhere/weights"]})
        self.refused(3, [other, "another set of options"], 2, of_rank={1: ["--checkpoint", "c"]})
        self.run_alone("--devices", "pocl:0", "--steps", 1, "--save", "trained", "--json")
        self.refused(3, [other, "another set of initial weights"], 2, of_rank={1: ["--init", "trained"]})
        (self.folder / "weights").write_text("no weights")
        self.refused(3, [other, "weights"], 2, of_rank={1: ["--init", "weights"]})

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_two_on_one_device(self):
        for options, warnings in (((), 1), (("--share-devices",), 0)):
            done = self.run_ranks(2, "--epochs", 1, "--devices", "pocl:0", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count("share the cores of"), warnings, done.stderr)

    def act_behind_100_steps(self, ranks, act, *options):
        log = self.folder / "log"
        run = subprocess.Popen(self.line(ranks, *options, "--log", "log"), env=ENVIRONMENT, cwd=self.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            end = time.monotonic() + 120
            while (not log.exists() or log.read_text().count("\n") < 100) and time.monotonic() < end and run.poll() is None:
                time.sleep(0.02)
            act()
            return run.communicate(timeout=120)[1], run.returncode
        finally:
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)
            run.kill()

    def processes(self):
        return processes("clique", self.folder)

    # The log equals that of an undisturbed training, bit for bit.
    def test_interrupted_and_resumed(self):
        plan = ["--epochs", 40, "--checkpoint-every", 7]
        self.assertEqual(self.run_ranks(2, *plan, "--checkpoint", "undisturbed", "--log", "right").returncode, 0)
        said, code = self.act_behind_100_steps(2, lambda: os.kill(self.processes()[1], signal.SIGTERM), *plan,
                                               "--checkpoint", "c")
        check_code(self, MPI, code, (130, 143), said)
        self.assertEqual(len(re.findall("^clique: error: .*interrupted", said, re.M)), 1, said)
        done = self.run_ranks(2, *plan, "--checkpoint", "c", "--resume", "--log", "log", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["checkpoints"]["resumed_from"], 0)
        log, right = self.log("log"), self.log("right")
        self.assertEqual([row["loss"] for row in log.values()], [row["loss"] for row in right.values()])
        # Three processes resume, and then one.
        done = self.run_ranks(3, "--epochs", 41, "--checkpoint", "c", "--resume", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        alone = self.run_alone("--devices", "pocl:0", "--epochs", 42, "--checkpoint", "c", "--resume", "--json")
        self.assertEqual(alone["checkpoints"]["resumed_from"], 41 * 20)

    # The other ranks name a stopped rank, and end. The checkpoint is complete.
    def test_stopped_rank(self):
        said, code = self.act_behind_100_steps(3, lambda: os.kill(self.processes()[1], signal.SIGSTOP), "--epochs", 100000,
                                               "--checkpoint", "c", "--checkpoint-every", 10)
        check_code(self, MPI, code, (1,), said)
        self.assertEqual(check_missed(self, said, lost=1), {0, 2}, said)
        done = self.run_ranks(2, "--steps", 10, "--checkpoint", "c", "--resume", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
