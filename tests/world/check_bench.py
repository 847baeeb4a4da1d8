"""Tests clique bench under a launcher of MPI: check_bench.py BIN_FOLDER openmpi|mpich. All processes are on this
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

from launch import (ENVIRONMENT, HOST, LAUNCHERS, by_one_mpi, cache_to_lose, check_code, check_refused, end_process, errors, finish, line,
                    own_part, processes)

CLIQUE, MPI = pathlib.Path(sys.argv.pop(1)).resolve() / "clique", sys.argv.pop(1)
ENGINE = {"openmpi": "Open MPI", "mpich": "MPICH"}[MPI]
FEW = ["-b", 4096, "-e", 65536, "-f", 16, "-n", 3, "-w", 1]
# Bytes over the bus for each byte of the size, with n ranks, as nccl-tests defines them (doc/PERFORMANCE.md).
BUS = {"all_reduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n, "all_gather": lambda n: (n - 1) / n,
       "broadcast": lambda n: 1, "reduce": lambda n: 1, "send_recv": lambda n: 1}


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def line(self, ranks, name, *options, of_rank=None, devices=1):
        own = {}
        for rank in range(ranks):
            spec = ",".join(f"pocl:{rank * devices + d}" for d in range(devices))
            own[rank] = ["--devices", spec, *(of_rank or {}).get(rank, [])]
        return line(MPI, ranks, CLIQUE, "bench", name, *options, of_rank=own)

    def run_ranks(self, *arguments, variables=None, **more):
        return finish(self.line(*arguments, **more), self.folder, **(variables or {}))

    def result(self, *arguments, **more):
        """The result of a successful run. Rank 1 does not write its own result file."""
        done = self.run_ranks(*arguments, "--json", "result.json", of_rank={1: ["--json", "/nowhere/result.json"]}, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.folder / "result.json").read_text())

    def test_collectives(self):
        for turn, (name, factor) in enumerate(BUS.items()):
            for ranks, devices in own_part(MPI, CLIQUE.parent, [(2, 2), (3, 1)], turn % 2):
                result = self.result(ranks, name, *FEW, devices=devices)
                n = ranks * devices
                self.assertEqual((result["bench"], result["complete"]), (name, True))
                self.assertEqual([(d["rank"], d["host"]) for d in result["devices"]],
                                 [(r, HOST) for r in range(ranks) for _ in range(devices)])
                self.assertEqual(len(result["rows"]), 4)
                for row in result["rows"]:
                    self.assertEqual((row["ranks"], row["processes"], row["engine"], row["wrong"]), (n, ranks, ENGINE, 0))
                    busbw = row["bytes"] / row["time_us"]["p50"] * 1e-3 * factor(n)
                    self.assertAlmostEqual(row["busbw_gbps"], busbw, delta=1e-6 * busbw)
                    # In send/recv, rank 1 is in the process of rank 0, or in another one.
                    self.assertEqual(row["limit_gbps"] is None, (name, devices) == ("send_recv", 2))

    def test_beside_the_engine(self):
        for row in self.result(2, "all_reduce", *FEW)["rows"]:
            ratio = row["engine_time_us"]["p50"] / row["time_us"]["p50"]
            self.assertAlmostEqual(row["ratio"], ratio, delta=1e-6 * ratio)
            self.assertEqual(row["algo"], "doubling" if row["bytes"] <= 32768 else "ring")
        for options in own_part(MPI, CLIQUE.parent, [["-d", "f64"], ["-o", "max"]]):
            row = self.result(2, "all_reduce", *FEW, *options)["rows"][0]
            self.assertIsNone(row["ratio"])
            self.assertEqual(row["engine_time_us"], {"min": None, "p50": None, "p99": None})

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_operations(self):
        once = ["-b", 3000, "-e", 3000, "-n", 1, "-w", 0]
        for name, op, dtype in (("all_reduce", "prod", "f64"), ("reduce", "avg", "bf16"), ("reduce_scatter", "min", "i8")):
            rows = self.result(3, name, *once, "-o", op, "-d", dtype, "-m", 2)["rows"]
            self.assertEqual([row["wrong"] for row in rows], [0, 0], (name, op, dtype))
        for name, root in (("broadcast", 3), ("reduce", 1), ("send_recv", 1), ("send_recv", 3)):
            rows = self.result(2, name, *once, "--root", root, devices=2)["rows"]
            self.assertEqual([row["wrong"] for row in rows], [0, 0], (name, root))

    def test_table(self):
        done = self.run_ranks(2, "all_reduce", *FEW)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(rf", of rank \d on {HOST}$", done.stdout, re.M)), 2)
        self.assertEqual(done.stdout.count("# Wrong values: 0 OK"), 1)
        rows = [text.split() for text in done.stdout.splitlines() if re.match(r" +\d", text)]
        self.assertEqual([row[0] for row in rows], ["4096", "65536"])
        for row in rows:
            self.assertEqual(len(row), 5 + 2 * 7)

    def test_p2p(self):
        result = self.result(3, "p2p", "-b", "1M", "-n", 3, "-w", 1)
        self.assertEqual([(d["label"], d["host"]) for d in result["devices"]], [(f"rank {r}", HOST) for r in range(3)])
        pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
        for what, size in (("one-way", 1 << 20), ("latency", 16)):
            rows = [row for row in result["rows"] if row["what"] == what]
            self.assertEqual([(row["from"], row["to"]) for row in rows], pairs)
            for row in rows:
                self.assertEqual((row["path"], row["bytes"], row["wrong"], row["reason"]), (ENGINE, size, 0, None))
                if what == "one-way":
                    self.assertAlmostEqual(row["gbps"], size / row["time_us"]["p50"] * 1e-3, delta=1e-6 * row["gbps"])
                else:
                    self.assertIsNone(row["gbps"])
        # With many ranks, each sends only to the next one.
        result = self.result(9, "p2p", "-b", 4096, "-n", 1, "-w", 0)
        self.assertEqual([(row["from"], row["to"]) for row in result["rows"] if row["what"] == "latency"],
                         [(r, (r + 1) % 9) for r in range(9)])

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_report_and_compare(self):
        self.result(2, "all_reduce", *FEW)
        for command in (["report", "result.json", "-o", "page.html"], ["compare", "result.json", "result.json"]):
            done = subprocess.run([CLIQUE, *command], cwd=self.folder, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)

    def refused(self, code, words, *arguments, **more):
        check_refused(self, MPI, self.run_ranks(*arguments, variables=cache_to_lose(self.folder), **more), code, words)

    @by_one_mpi(MPI, CLIQUE.parent)
    def test_bad_input(self):
        other, another = f"rank 1 on {HOST}", "another benchmark or set of options than rank 0"
        self.refused(2, ["-b 'x'"], 2, "all_reduce", "-b", "x")
        self.refused(2, [other, "-b 'x'"], 2, "all_reduce", of_rank={1: ["-b", "x"]})
        self.refused(3, [other, another], 2, "all_reduce", of_rank={1: ["-n", 7]})
        self.refused(3, [other, another], 2, "all_reduce", of_rank={1: ["-o", "max"]})
        self.refused(4, [other, "nothing"], 2, "all_reduce", of_rank={1: ["--devices", "nothing:0"]})
        self.refused(2, ["--root 2", "2 ranks"], 2, "broadcast", "--root", 2)
        self.refused(2, ["--transport"], 2, "p2p", "--transport", "staged")
        self.refused(1, ["/nowhere/result.json"], 2, "all_reduce", "--json", "/nowhere/result.json")
        self.refused(3, ["reduce-scatter needs equally many ranks"], 2, "reduce_scatter", of_rank={1: ["--devices", "pocl:1,pocl:2"]})
        for name in ("train", "memory"):
            self.refused(3, [f"clique bench {name} is of one process"], 2, name)

    def test_failing_rank(self):
        """One rank's device has too little memory. The error is reported, and the other rank, which waits, ends."""
        parts = list(LAUNCHERS[MPI])
        for rank, before in enumerate(([], ["env", "POCL_MEMORY_LIMIT=1"])):
            parts += [":"] * rank + ["-n", "1", *before, str(CLIQUE), "bench", "all_reduce", "-n", "2", "-b", "1100M", "-e", "1100M",
                                     "--devices", f"pocl:{rank}"]
        done = finish(parts, self.folder)
        check_code(self, MPI, done.returncode, (4,), done.stderr)
        # Open MPI's launcher sends SIGTERM to the other rank, which may still fill its memory.
        lines = [text for text in errors(done) if not text.endswith("interrupted before the first measurement")]
        self.assertIn(f"rank 1 on {HOST}", lines[0])
        self.assertRegex(lines[0], "needs [0-9.]+ [GM]iB")
        self.assertEqual(len(lines), 1, done.stderr)

    def begin(self, *options):
        """Starts a long run, and waits for its first rows. Returns the run and its processes, in their order."""
        plan = ["-b", 4096, "-e", "4M", "-i", 4096, "-n", 1, "--csv", "rows.csv"]
        run = subprocess.Popen(self.line(2, "all_reduce", *plan, *options), env=ENVIRONMENT, cwd=self.folder, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        until = time.monotonic() + 120
        for text in run.stdout:
            if re.match(" +8192 ", text):
                break
            self.assertLess(time.monotonic(), until)
        found = processes("clique-bench", self.folder)
        self.assertEqual(len(found), 2)
        for process in found:
            self.addCleanup(end_process, process)
        return run, found

    def test_interrupted(self):
        run, processes = self.begin()
        os.kill(processes[1], signal.SIGTERM)
        said = run.communicate(timeout=60)[1]
        check_code(self, MPI, run.returncode, (130, 143), said)
        self.assertEqual(len(re.findall("^clique: error: .*interrupted after", said, re.M)), 1, said)
        rows = (self.folder / "rows.csv").read_text().splitlines()[1:]
        self.assertGreaterEqual(len(rows), 4)
        self.assertEqual(len(rows) % 2, 0)  # out of place and in place

    # The error also comes while the others wait in an MPI call that does not return.
    def test_stopped_rank(self):
        # With two ranks, no other rank reports.
        silent = rf"rank 1 on {HOST}: nothing heard for 5 s \(as rank 0 on {HOST} knows it\)"
        late = rf"{ENGINE}'s own all-reduce is not done within 10 s: a rank is late, or gone"
        for options, words in ((["-d", "f64"], silent), ([], f"({silent}|{late})")):
            run, processes = self.begin(*options)
            os.kill(processes[1], signal.SIGSTOP)
            said = run.communicate(timeout=60)[1]
            self.assertRegex(said, f"(?m)^clique: error: {words}$")
            self.assertNotEqual(run.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=1)
