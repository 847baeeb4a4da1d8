#!/usr/bin/env python3
"""Tests clique bench peers beside programs that pretend to be Open MPI, PyTorch, TensorFlow and OpenBLAS, whose answers
are right, wrong, late or missing. No real peer is needed, and no measured time is compared with a limit.

usage: check_peers.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import csv
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time
import unittest

import support

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin")
CLIQUE = str(BIN / "clique")
PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"

# Stands in for mpicc, mpirun, python, cc and the output of cc, depending on the name by which it is called. FAKE_<PEER>
# says how a peer behaves. <PEER> is MPI, TORCH, TENSORFLOW or BLAS. Each fake writes its arguments to FAKE_LOG, and
# reports a fault if another one runs at the same time.
FAKE = r"""#!PYTHON
import json, os, pathlib, shutil, subprocess, sys, time
name, args = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
peer = {"fakepython": "TENSORFLOW" if args and "tensorflow" in args[0] else "TORCH", "fakecc": "BLAS", "peer_blas": "BLAS"}.get(name, "MPI")
how = os.environ.get("FAKE_" + peer, "good")
lock = pathlib.Path(os.environ["FAKE_LOG"] + ".lock")
lock.mkdir()
def end(code):
    lock.rmdir()
    sys.stdout.flush()
    os._exit(code)
with open(os.environ["FAKE_LOG"], "a") as log:
    print(json.dumps([name, *args]), file=log)
if name in ("mpicc", "fakecc"):
    if how == "uncompiled":
        print("mpi.h: No such file or directory\n-----", file=sys.stderr)
        end(1)
    out = args[args.index("-o") + 1]
    shutil.copy(args[args.index("-o") + 2], os.environ["FAKE_LOG"] + ".c")
    shutil.copy(sys.argv[0], out)
    end(0)
if name == "fakepython":
    compile(open(args[0]).read(), args[0], "exec")
if args[-1] == "probe":
    if how == "unprobed":
        print("no libfoo.so\n\x1b[0m", file=sys.stderr)
        end(1)
    print(json.dumps({"installed": how != "absent"}))
    end(0)
if how.startswith("good once") and any(str(4096) == a for a in args):
    how = "good"
elif how.startswith("good once"):
    how = how.split(",")[1]
if how == "silent":
    end(0)
if how == "failing":
    print("a first line\n  the reason \x1b[31mat last\n-------\n", file=sys.stderr)
    end(7)
if how == "killed":
    print("about to fall", file=sys.stderr, flush=True)
    lock.rmdir()
    os.kill(os.getpid(), 9)
if how == "hanging":
    lock.rmdir()
    child = subprocess.Popen(["sleep", "1000"])
    print(child.pid, file=open(os.environ["FAKE_LOG"] + ".pid", "w"), flush=True)
    time.sleep(1000)
print("some greeting")
time.sleep(0.05)
if how == "nonsense":
    print("{\"time_us\": [")
    print("not today", file=sys.stderr)
    end(0)
inverted = how == "impossible"
if "train" in args:
    answer = {"images_per_s": 0.5, "images_per_s_least": 0.25, "images_per_s_most": 0.125 if inverted else 1}
else:
    answer = {"in_place": peer == "TORCH", "time_us": {"min": -1 if inverted else 5e5, "p50": 1e6, "p99": 2e6}}
print(json.dumps({"version": None if how == "unversioned" else peer.lower() + " 1.2", **answer}))
print("a farewell")
end(0)
"""


class Peers(support.InFolder):
    def setUp(self):
        super().setUp()
        for name in ("mpicc", "mpirun", "fakepython", "fakecc"):
            path = self.folder / name
            path.write_text(FAKE.replace("PYTHON", sys.executable, 1))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.log, self.scratch = self.folder / "log", self.folder / "scratch"
        self.scratch.mkdir()
        self.json, self.csv = self.folder / "peers.json", self.folder / "peers.csv"

    def tearDown(self):
        self.assertEqual(list(self.scratch.iterdir()), [], "the temporary folder is removed")

    def command(self, *args):
        return [CLIQUE, "bench", "peers", "--devices", "pocl:0,pocl:1", "--mpirun", str(self.folder / "mpirun"), "--python",
                str(self.folder / "fakepython"), "--cc", str(self.folder / "fakecc"), "-n", "2", "-w", "0", *map(str, args)]

    def environment(self, fakes):
        return {**os.environ, "TMPDIR": str(self.scratch), "FAKE_LOG": str(self.log), **{"FAKE_" + key: value for key, value in fakes.items()}}

    def run_peers(self, *args, code=0, **fakes):
        result = subprocess.run(self.command(*args), capture_output=True, text=True, timeout=240, env=self.environment(fakes))
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def measure(self, *args, **fakes):
        result = self.run_peers(*args, "--json", self.json, "--csv", self.csv, **fakes)
        self.assertEqual(result.stdout, "")
        return self.rows(), result.stderr

    def rows(self, complete=True):
        document = json.loads(self.json.read_text())
        self.assertEqual((document["schema"], document["bench"], document["complete"]), ("clique-bench/1", "peers", complete))
        self.assertEqual([d["label"] for d in document["devices"]], ["pocl:0", "pocl:1"])
        rows = document["rows"]
        self.assertEqual(len(list(csv.DictReader(self.csv.read_text().splitlines()))), len(rows))
        for row in rows:
            self.assertEqual(list(row), list(rows[0]))
            self.assertEqual(row["ranks"], 1 if row["what"] == "gemm" else 2)
            self.check_row(row)
        return rows

    def check_row(self, row):
        """Compares a row with the numbers that the fakes print."""
        times, trains, reduces = (row["what"] != "train"), row["what"] == "train", row["what"] == "all_reduce"
        self.assertEqual(row["unit"], "us" if times else "images/s")
        self.assertEqual([row[k] is None for k in ("bytes", "model", "batch", "shape")], [not reduces, not trains, not trains, trains or reduces])
        self.assertTrue(0 < row["ours_least"] <= row["ours"] <= row["ours_most"])
        parts = [row[k] for k in ("peer_least", "peer", "peer_most")]
        ratios = [row[k] for k in ("ratio_least", "ratio", "ratio_most")]
        if row["reason"] is not None:
            self.assertEqual(parts + ratios, [None] * 6)
            return
        self.assertEqual(parts, [5e5, 1e6, 2e6] if times else [0.25, 0.5, 1])
        ours = [row[k] for k in ("ours_least", "ours", "ours_most")]
        for ratio, mine, other in zip(ratios, ours[::-1] if times else ours, parts if times else parts[::-1]):
            want = other / mine if times else mine / other
            self.assertAlmostEqual(ratio, want, delta=1e-9 * want)
        if reduces:  # with two ranks, busbw equals algbw
            self.assertAlmostEqual(row["busbw_gbps"], row["bytes"] / row["ours"] / 1e3, delta=1e-9 * row["busbw_gbps"])
            self.assertAlmostEqual(row["peer_busbw_gbps"], row["bytes"] / 1e9, delta=1e-15)
        else:
            self.assertEqual((row["busbw_gbps"], row["peer_busbw_gbps"]), (None, None))

    def started(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def test_good(self):
        rows, talk = self.measure("-b", 4096, "-e", 16384, "-f", 4, "--rounds", 2, "--models", "mlp", "--samples", 150, "--epochs", 2)
        self.assertNotIn("left out", talk)
        names = ["openmpi", "pytorch-gloo"] * 2 + ["pytorch", "pytorch-ddp", "tensorflow", "tensorflow-mirrored"]
        self.assertEqual([r["peer_name"] for r in rows], names)
        self.assertEqual([r["bytes"] or r["model"] for r in rows], [4096] * 2 + [16384] * 2 + ["mlp"] * 4)
        self.assertEqual({(r["peer_name"].split("-")[0], r["peer_version"]) for r in rows},
                         {("openmpi", "mpi 1.2"), ("pytorch", "torch 1.2"), ("tensorflow", "tensorflow 1.2")})
        cores = len(os.sched_getaffinity(0))
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        runs = []
        for name, *args in self.started()[3:]:  # after mpicc and the probes
            program = args.pop(args.index(next(a for a in args if "peer_" in a)))
            runs.append([pathlib.Path(program).stem, *args])
        wanted = []
        for size in ("4096", "16384"):
            wanted += 2 * [["peer_mpi", "-n", "2", "--oversubscribe", *root, size, "2", "0"], ["peer_torch", "all_reduce", "2", size, "2", "0"]]
        for_all, each = str(cores), str(max(cores // 2, 1))
        train = ["mlp", "64", "128", "2"]
        wanted += 2 * [["peer_torch", "train", "1", *train, for_all], ["peer_torch", "train", "2", *train, each],
                       ["peer_tensorflow", "train", "1", *train, for_all], ["peer_tensorflow", "train", "2", *train, for_all]]
        self.assertEqual(runs, wanted, "in turn")
        self.assertEqual(pathlib.Path(str(self.log) + ".c").read_text(), (PEERS / "peer_mpi.c").read_text())
        self.compare_and_report()

    def compare_and_report(self):
        """Other commands read a result. Another version of a peer does not separate the rows."""
        other = self.folder / "other.json"
        other.write_text(self.json.read_text().replace(" 1.2", " 1.3"))
        compared = json.loads(subprocess.run([CLIQUE, "compare", self.json, other, "--json"], capture_output=True, check=True).stdout)
        self.assertEqual({(r["measure"], r["ratio"], r["beyond_noise"]) for r in compared["rows"]}, {("ratio", 1.0, False)})
        self.assertEqual((len(compared["rows"]), compared["only_a"]), (8, []))
        self.assertEqual(subprocess.run([CLIQUE, "report", self.json, "-o", self.folder / "page.html"], capture_output=True).returncode, 0)

    def test_models_of_keras(self):
        """Every system gets the file by its path. Clique also gets data of the model's shape. Rows have the file's base
        name."""
        path = pathlib.Path(support.put_least(self.folder)).rename(self.folder / "a model.json")
        model = json.loads(path.read_text())
        model["config"]["layers"][0]["config"]["batch_shape"] = [None, 20, 24, 3]
        path.write_text(json.dumps(model))
        rows, _ = self.measure("--collectives", "none", "--models", f"{path},mlp", "--batch", 64, "--samples", 150, "--epochs", 1, "--rounds", 1)
        names = ["pytorch", "pytorch-ddp", "tensorflow", "tensorflow-mirrored"]
        self.assertEqual([(r["model"], r["peer_name"], r["reason"]) for r in rows],
                         [(m, name, None) for m in ("a model.json", "mlp") for name in names])
        trained = [args[args.index("train"):] for args in self.started() if "train" in args]
        self.assertEqual([args[2:5] for args in trained], 4 * [[str(path), "64", "128"]] + 4 * [["mlp", "64", "128"]])
        self.fails(3, "--models", self.folder / "none.json", says=["none.json"])
        path.write_text("[]")
        self.fails(3, "--models", path, says=["a model.json"])

    def test_gemm(self):
        """Compares with OpenBLAS, with as many threads as the first device has cores. No other peer takes part."""
        rows, talk = self.measure("--collectives", "none", "--models", "none", "--gemm", "3x4x5,6x7x8:tn", "--rounds", 2)
        self.assertNotIn("left out", talk)
        self.assertEqual([(r["what"], r["shape"], r["peer_name"], r["peer_version"], r["unit"], r["reason"]) for r in rows],
                         [("gemm", shape, "openblas", "blas 1.2", "us", None) for shape in ("3x4x5", "6x7x8:tn")])
        compiled, *runs = [args for args in self.started() if args[0] in ("fakecc", "peer_blas")]
        self.assertEqual((compiled[1:3], compiled[-2:]), (["-O2", "-o"], ["-lopenblas", "-lm"]))
        self.assertEqual(runs, 2 * [["peer_blas", "3", "4", "5", "nn", "2", "0", "1"]] + 2 * [["peer_blas", "6", "7", "8", "tn", "2", "0", "1"]])
        self.assertEqual(pathlib.Path(str(self.log) + ".c").read_text(), (PEERS / "peer_blas.c").read_text())
        rows, talk = self.measure("--collectives", "none", "--models", "none", "--gemm", "3x4x5", "--rounds", 1, BLAS="failing")
        self.assertEqual([r["reason"] for r in rows], ["exit status 7: the reason ?[31mat last"])
        result = self.run_peers("--collectives", "none", "--models", "none", "--gemm", "3x4x5", BLAS="uncompiled")
        self.assertIn("OpenBLAS is left out: " + str(self.folder / "fakecc"), result.stdout)
        self.assertIn("install libopenblas-dev", result.stdout)
        result = self.run_peers("--collectives", "none", "--models", "none", "--gemm", "3x4x5", "--cc", "no-such-cc")
        self.assertIn("no-such-cc is not installed; install a C compiler, or give --cc", result.stdout)

    SMALL = ["-b", 4096, "-e", 4096, "--rounds", 1, "--models", "none"]

    def test_one_that_fails_has_a_row_with_the_reason(self):
        for how, reason in (("silent", "printed no result"), ("failing", "exit status 7: the reason ?[31mat last"),
                            ("killed", "ended by signal 9: about to fall"), ("nonsense", "printed no result: not today"),
                            ("impossible", "printed figures that cannot be"), ("unversioned", "printed figures that cannot be")):
            with self.subTest(how):
                rows, talk = self.measure(*self.SMALL, MPI=how)
                self.assertEqual([(r["peer_name"], r["reason"]) for r in rows], [("openmpi", reason), ("pytorch-gloo", None)])
                self.assertIn(reason, talk)

    def test_one_that_fails_fails_alone(self):
        rows, _ = self.measure("-b", 4096, "-e", 8192, "-f", 2, "--rounds", 1, "--models", "mlp", "--samples", 64, "--epochs", 1,
                               TORCH="good once,failing")
        self.assertEqual([(r["peer_name"], r["reason"] is None) for r in rows],
                         [("openmpi", True), ("pytorch-gloo", True), ("openmpi", True), ("pytorch-gloo", False), ("pytorch", False),
                          ("pytorch-ddp", False), ("tensorflow", True), ("tensorflow-mirrored", True)])

    def test_one_that_hangs_is_stopped(self):
        rows, _ = self.measure(*self.SMALL, "--limit", 5, MPI="hanging")
        self.assertEqual([r["reason"] for r in rows], ["took longer than 5 s (--limit)", None])
        self.assert_gone()

    def test_build_deadline(self):
        """Each run on Clique is a separate process, and gets the option."""
        layer = (BIN.parent / "tests" / "clq_hang_layer.so").resolve()
        hangs = {"OPENCL_LAYERS": str(layer), "CLQ_HANG": "build", "CLQ_HANG_OF": " void product_", "CLQ_HANG_EXIT": "1"}
        # Separate from PoCL's cache, which holds programs of other tests.
        caches = {"CLIQUE_CACHE_DIR": str(self.folder / "cache")}
        command = self.command("--collectives", "none", "--models", "none", "--gemm", "3x4x5", "--build-deadline", 4.5)
        result = subprocess.run(command, capture_output=True, text=True, timeout=240, env=self.environment({}) | hangs | caches)
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("did not end within the build deadline of 4.5 s", result.stderr)

    def assert_gone(self):
        pid = int(pathlib.Path(str(self.log) + ".pid").read_text())
        for _ in range(500):  # it was killed; another process may reap it
            try:
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except FileNotFoundError:
                return
            if state == "Z":
                return
            time.sleep(0.01)
        self.fail(f"process {pid} of the peer's group is left")

    def test_missing(self):
        result = self.run_peers(*self.SMALL, "--mpirun", "no-such-mpirun", "--python", self.folder / "none")
        notes = [line for line in result.stdout.splitlines() if "left out" in line]
        self.assertEqual([note.split()[1] for note in notes], ["Open", "PyTorch", "TensorFlow"])
        for note, words in zip(notes, (["no-such-mpirun", "openmpi-bin", "libopenmpi-dev"], ["none", "torch"], ["none", "tensorflow"])):
            for word in words:
                self.assertIn(word, note)
        self.assertFalse(self.log.exists(), "nothing was started")
        rows, talk = self.measure(*self.SMALL, TORCH="absent", TENSORFLOW="unprobed")
        self.assertEqual([r["peer_name"] for r in rows], ["openmpi"])
        self.assertIn("has no package torch; pip install torch", talk)
        self.assertIn("TensorFlow is left out: " + str(self.folder / "fakepython") + ": exit status 1: ", talk)
        rows, talk = self.measure(*self.SMALL, MPI="uncompiled", TENSORFLOW="absent")
        self.assertEqual([r["peer_name"] for r in rows], ["pytorch-gloo"])
        self.assertIn("mpi.h: No such file or directory", talk)

    def test_interrupted(self):
        args = ["-b", 4096, "-e", "64K", "-f", 4, "--rounds", 1, "--models", "none", "--json", self.json, "--csv", self.csv]
        process = subprocess.Popen(self.command(*args), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env=self.environment({"MPI": "good once,hanging"}))
        with process:
            pid = pathlib.Path(str(self.log) + ".pid")
            for _ in range(20000):
                if process.poll() is not None or pid.exists() and pid.read_text():
                    break
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            talk = process.communicate(timeout=100)[1]
        self.assertEqual(process.returncode, 130, talk)
        self.assertEqual([(r["bytes"], r["peer_name"]) for r in self.rows(complete=False)], [(4096, "openmpi"), (4096, "pytorch-gloo")])
        errors = [line for line in talk.splitlines() if line.startswith("clique: error: ")]
        self.assertEqual(errors, ["clique: error: interrupted after 2 rows"])
        self.assert_gone()

    def fails(self, code, *args, says=()):
        result = self.run_peers(*args, code=code)
        errors = [line for line in result.stderr.splitlines() if line.startswith("clique: error: ")]
        self.assertEqual(len(errors), 1, result.stderr)
        for word in says:
            self.assertIn(word, errors[0])

    def test_wrong_usage(self):
        for wrong in (["-b", 3], ["-e", "8G"], ["--collectives", "reduce"], ["--models", "mlp,"], ["--models", ""], ["--models", "resnet9000"],
                      ["--rounds", 0], ["--batch", 0], ["--samples", "x"], ["--epochs", 65], ["--limit", 0], ["-n", 0], ["--gemm", "3x4"], ["--gemm", "none"]):
            self.fails(2, *wrong, says=wrong[:1])
        self.fails(2, "--models", "mlp,none", says=["none"])
        self.fails(2, "--devices", "pocl:0*x", says=["pocl:0*x"])
        self.fails(4, "--devices", "nvidia", says=["nvidia"])
        few = ["--samples", 2, "--epochs", 1]  # one replica trains; two do not get enough samples
        self.fails(2, *self.SMALL[:-1], "mlp", "--collectives", "none", "--batch", 1, *few, says=["batch"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
