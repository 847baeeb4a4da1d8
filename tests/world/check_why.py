"""Tests clique why under a launcher of MPI: check_why.py BIN_FOLDER openmpi|mpich. All processes are on this
machine."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import support
from launch import ENVIRONMENT, HOST, by_last_mpi, by_one_mpi, cache_to_lose, check_refused, end_process, errors_in, finish, line, processes

CLIQUE, MPI = pathlib.Path(sys.argv.pop(1)).resolve() / "clique", sys.argv.pop(1)
# There are fewer samples than 4 shares, so that no step is probed at a batch that no other test compiles.
SMALL = ["--model", "mlp", "--data", "synthetic:28x28/10/120"]
# No other test keeps predictions for this option.
OWN = ["--memory-limit", "987654321"]
PARTS = ["input", "host", "launches", "fixed", "compute", "sharing", "waiting", "communication"]
GRADIENT = 4 * (784 * 128 + 128 + 128 * 10 + 10)


class Why(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def line(self, ranks, *options, of_rank=None):
        own = {rank: ["--devices", f"pocl:{rank}", *(of_rank or {}).get(rank, [])] for rank in range(ranks)}
        return line(MPI, ranks, CLIQUE, "why", *SMALL, *options, of_rank=own)

    def run_ranks(self, *arguments, variables=None, **more):
        return finish(self.line(*arguments, **more), self.folder, **(variables or {}))

    def answer(self, *arguments, **more):
        done = self.run_ranks(*arguments, "--json", **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_row(self, row, machines, batch):
        self.assertEqual(row["machines"], machines)
        self.assertEqual(list(row["parts_ms"]), PARTS)
        self.assertAlmostEqual(sum(row["parts_ms"].values()), row["step_ms"], delta=1e-9 * row["step_ms"])
        self.assertAlmostEqual(row["images_per_s"] * row["step_ms"], 1e3 * batch, delta=1e-6 * batch)

    # A report takes seconds of measuring. With two MPIs, each makes one of two reports.
    @by_one_mpi(MPI, CLIQUE.parent)
    def test_batch(self):
        self.check_report([96, 96], "--batch", 96)

    @by_last_mpi(MPI, CLIQUE.parent)
    def test_batch_per_replica(self):
        """Fewer machines have a smaller batch."""
        self.check_report([32, 96], "--batch-per-replica", 32, "--shard", "data")

    def check_report(self, batches, *options):
        """Two processes, one of which has two devices: samples are divided by devices. batches: by the number of
        machines."""
        why = self.answer(2, *options, of_rank={1: ["--devices", "pocl:1,pocl:2"]})
        self.assertEqual((why["model"], why["global_batch"], why["processes"]), ("mlp", 96, 2))
        self.assertEqual([(r["rank"], r["host"], len(r["devices"]), r["share"]) for r in why["ranks"]],
                         [(0, HOST, 1, 32), (1, HOST, 2, 64)])
        for rank in why["ranks"]:
            self.assertGreater(rank["alone_ms"], 0)
            self.assertGreater(rank["together_ms"], 0)
        self.assertEqual([(link["from"], link["to"]) for link in why["links"]["neighbors"]], [(0, 1), (1, 0)])
        rates = sorted(link["gbps"] for link in why["links"]["neighbors"])
        latencies = sorted(link["latency_us"] for link in why["links"]["neighbors"])
        self.assertTrue(rates[0] <= why["links"]["median"]["gbps"] <= rates[1])
        self.assertTrue(latencies[0] <= why["links"]["median"]["latency_us"] <= latencies[1])
        self.assertGreater(rates[0], 0)
        self.assertEqual(len(why["predictions"]), 2)
        for n, row in enumerate(why["predictions"], 1):
            self.check_row(row, n, batches[n - 1])
        self.check_exchange(why["links"]["neighbors"], why["predictions"])
        self.assertEqual(why["slowest"], why["predictions"][1]["slowest"])
        self.assertIn(why["best"], why["predictions"])
        self.assertEqual(why["best"]["images_per_s"], max(row["images_per_s"] for row in why["predictions"]))
        measured, gain = why["measured"], why["predictions"][1]["images_per_s"] / why["predictions"][0]["images_per_s"]
        self.assertAlmostEqual(measured["images_per_s"] * measured["step_ms"], 96e3, delta=1e-6 * 96e3)
        self.assertTrue(why["verdict"].startswith(f"2 machines make {gain:.2f} times the rate of one; "), why["verdict"])
        reached = measured["images_per_s"] / why["predictions"][1]["images_per_s"]
        self.assertEqual("doubt it" in why["verdict"], not 0.8 <= reached <= 1.25, why["verdict"])
        for advice in why["advice"]:
            self.assertGreaterEqual(advice["gain"], 1.05)
            gain = advice["images_per_s"] / why["predictions"][1]["images_per_s"]
            self.assertAlmostEqual(advice["gain"], gain, delta=1e-9 * gain)

    def check_exchange(self, links, rows):
        """One process exchanges nothing. Two processes take the bytes' time over the slower link by the formula of a
        ring, plus the additions."""
        self.assertEqual((rows[0]["exchange_ms"], rows[0]["algorithm"], rows[0]["parts_ms"]["communication"]), (0, None, 0))
        least = 2 * (1e-3 * max(l["latency_us"] for l in links) + 1e-6 * GRADIENT / 2 / min(l["gbps"] for l in links))
        self.assertGreaterEqual(rows[1]["exchange_ms"], 0.999 * least)
        self.assertLessEqual(rows[1]["exchange_ms"], 1.01 * least + 1e-6 * GRADIENT * 0.25)
        self.assertIsNone(rows[1]["bucket_bytes"])

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_settings(self):
        """Several batches per update, whose gradients are exchanged as 16-bit floats; and the requested algorithm."""
        why = self.answer(2, "--accumulate", 3, "--compress", "f16", "--cross-device-ops", "doubling")
        for n, row in enumerate(why["predictions"], 1):
            self.check_row(row, n, 2 * 64)  # an epoch has two batches
        self.assertAlmostEqual(why["measured"]["images_per_s"] * why["measured"]["step_ms"], 2 * 64e3, delta=1e-6 * 64e3)
        two, links = why["predictions"][1], why["links"]["neighbors"]
        self.assertEqual(two["algorithm"], "doubling")
        bytes_ms = 1e-6 * GRADIENT / 2 / min(link["gbps"] for link in links)  # all bytes there and back
        self.assertGreaterEqual(two["exchange_ms"], 0.999 * bytes_ms)
        self.assertLessEqual(two["exchange_ms"], 1.01 * (bytes_ms + 1e-3 * max(link["latency_us"] for link in links)) + 1e-6 * GRADIENT / 2 * 0.25)
        # Not offered with 16-bit floats.
        self.assertFalse(any("--local-steps" in advice["options"] for advice in why["advice"]))

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_measured(self):
        """The measured rate with many batches per update equals the rate of the training itself."""
        many = ["--data", "synthetic:28x28/10/8192", "--accumulate", 16]
        why = self.answer(2, *many)
        train = self.line(2, *many, "--steps", 100, "--no-test", "--json")
        done = finish(["train" if word == "why" else word for word in train], self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        rates = [epoch["images_per_s"] for epoch in json.loads(done.stdout)["epochs"]]
        self.assertLess(min(rates) / 3, why["measured"]["images_per_s"])
        self.assertLess(why["measured"]["images_per_s"], 3 * max(rates))

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_for_people(self):
        cache = str(support.borrow_cache(self.folder))
        done = finish(self.line(2, *OWN), self.folder, CLIQUE_CACHE_DIR=cache)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[2].split(), ["rank", "host", "share", "alone", "together", "devices"])
        self.assertEqual([lines[i].split()[:3] for i in (3, 4)], [["0", HOST, "32"], ["1", HOST, "32"]])
        self.assertRegex(lines[5], rf"^slowest: rank [01] on {HOST}, [0-9.]+ times the mean of the others$")
        self.assertRegex(lines[7], rf"^between neighbors, median: [0-9.]+ us, [0-9.]+ GB/s; worst, between rank [01] on {HOST} and "
                                   rf"rank [01] on {HOST}: [0-9.]+ us, [0-9.]+ GB/s$")
        self.assertEqual(lines[9].split(), ["machines", "images/s", "step", *PARTS, "limit"])
        self.assertEqual([lines[i].split()[0] for i in (10, 11, 12)], ["1", "2", "2"])
        self.assertRegex(lines[12], r" measured: [0-9.]+ of the predicted rate$")
        self.assertEqual(len(re.findall("^verdict: 2 machines make ", done.stdout, re.M)), 1)

        self.check_nothing_kept(cache)

    def check_nothing_kept(self, cache):
        """Choices and predictions for several processes do not apply to a training of one process."""
        train = [CLIQUE, "train", *SMALL, *OWN, "--devices", "pocl:0", "--epochs", "1", "--no-test", "--json"]
        one = subprocess.run(train, env=ENVIRONMENT | {"CLIQUE_CACHE_DIR": cache}, capture_output=True, text=True, timeout=120)
        self.assertEqual(one.returncode, 0, one.stderr)
        told = json.loads(one.stdout)
        self.assertNotIn("predicted", told["verdict"])
        self.assertEqual(told["chosen"]["by"], "rule")

    def refused(self, code, words, *arguments, **more):
        check_refused(self, MPI, self.run_ranks(*arguments, variables=cache_to_lose(self.folder), **more), code, words)

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_bad_input(self):
        other, another = f"rank 1 on {HOST}", "another model, data set or set of options than rank 0"
        self.refused(3, [other, another], 2, of_rank={1: ["--batch", 32]})
        self.refused(4, [other, "nothing"], 2, of_rank={1: ["--devices", "nothing:0"]})
        self.refused(3, ["leave --strategy out"], 2, "--strategy", "pipeline")
        self.refused(3, ["leave --strategy out"], 3, "--strategy", "ps")
        self.refused(3, ["is of one process"], 2, "--trace", "trace.json")
        # Fails before the data are read.
        self.refused(3, ["leave --shard file out"], 2, "--shard", "file", "--data", "nowhere")
        self.refused(2, [f"leaves none for rank 2 on {HOST}"], 3, "--batch", 4)

    def test_failing_rank(self):
        """The memory of one rank's device is too small for its share."""
        done = self.run_ranks(2, of_rank={1: ["--memory-limit", 100000]}, variables=cache_to_lose(self.folder))
        lines = errors_in(done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn(f"rank 1 on {HOST}", lines[0])

    def begin(self):
        run = subprocess.Popen(self.line(2), env=ENVIRONMENT | cache_to_lose(self.folder), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        until = time.monotonic() + 60
        found = []
        while len(found) < 2:
            self.assertLess(time.monotonic(), until)
            self.assertIsNone(run.poll())
            found = processes("clique", self.folder, lambda entry: "libpocl" in (entry / "maps").read_text())  # devices are open
            time.sleep(0.02)
        for pid in found:
            self.addCleanup(end_process, pid)
        return run, found

    def test_interrupted(self):
        """Nothing is printed, and no process remains."""
        run, processes = self.begin()
        os.kill(processes[0], signal.SIGTERM)
        out, said = run.communicate(timeout=60)
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn("processes, measured in", out + said)
        self.assertNotIn("interrupted", said)  # nobody pressed Ctrl-C
        until = time.monotonic() + 10
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in processes):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)


if __name__ == "__main__":
    unittest.main(verbosity=1)
