"""Tests clique launch with the launchers of MPIs: check_launch.py BIN_FOLDER openmpi|mpich. All hosts are this machine.
tests/cli/check_launch.py tests what needs no MPI."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from launch import ENVIRONMENT, SILENT, Started, check_code, errors_in, free_port, processes

CLIQUE, MPI = pathlib.Path(sys.argv.pop(1)).resolve() / "clique", sys.argv.pop(1)
for name in ("TF_CONFIG", "OMPI_MCA_plm_rsh_agent", "HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC"):
    ENVIRONMENT.pop(name, None)
TRAIN = ["clique", "train", "--model", "mlp", "--data", "synthetic:28x28/10/1280", "--disable-paths", "one launch", "--devices", "pocl:0",
         "--share-devices"]
TWO = ["--mpi", MPI, "--hosts", "localhost:2"]
LIMIT_S = 120
TASK = {"type": "worker", "index": 0}


class Launch(Started, unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(lambda: self.assertEqual(self.processes(), [], "left running"))

    def start(self, *words, config=None):
        environment = ENVIRONMENT | ({"TF_CONFIG": config if isinstance(config, str) else json.dumps(config)} if config else {})
        return self.started([CLIQUE, "launch", *words], environment)

    def run_it(self, *words, config=None):
        return self.end(self.start(*words, config=config))

    def refused(self, code, words, *arguments, config=None):
        done, out, said = self.run_it(*arguments, config=config)
        self.assertEqual((done, out), (code, ""), said)
        self.assertEqual(len(errors_in(said)), 1, said)
        self.assertIn(words, errors_in(said)[0])

    def processes(self):
        """The ranks of this test: the processes that are not clique launch."""
        return processes("clique", self.folder, lambda entry: (entry / "cmdline").read_bytes().split(b"\0")[1:2] == [b"train"])

    def wait_for(self, what, run):
        end = time.monotonic() + LIMIT_S
        while not what() and run.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    def steps(self):
        log = self.folder / "log"
        return log.read_text().count("\n") if log.exists() else 0

    # ---- runs ----

    def test_two_ranks(self):
        code, out, said = self.run_it(*TWO, "--", *TRAIN, "--epochs", 2, "--json")
        self.assertEqual(code, 0, said)
        report = json.loads(out)
        self.assertEqual((report["replicas"], report["ranks"]), (2, 2))

    def test_exit_codes(self):
        self.refused(3, "none.json", *TWO, "--", *TRAIN, "--model", "none.json")
        self.refused(1, "--save", *TWO, "--", *TRAIN, "--save", "/nowhere/weights")
        self.assertEqual(self.run_it(*TWO, "--", *TRAIN, "--epochs", "x")[0], 2)
        self.assertEqual(self.run_it(*TWO, "--", "sh", "-c", "exit 7")[0], 7)

    def test_signals(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            with self.subTest(number):
                name = f"c{code}"
                (self.folder / "log").unlink(missing_ok=True)
                run = self.start(*TWO, "--restarts", 3, "--", *TRAIN, "--epochs", 100000, "--checkpoint", name, "--log", "log")
                self.wait_for(lambda: self.steps() > 100, run)
                run.send_signal(number)
                done, _, said = self.end(run)
                self.assertEqual(done, code, said)
                self.assertEqual(len(errors_in(said)), 1, said)
                self.assertEqual(len(list((self.folder / name).glob("step-*/manifest.json"))), 1)

    # Several tests compare with the same training.
    undisturbed = None

    def restarted(self, number):
        if not Launch.undisturbed:
            Launch.undisturbed = json.loads(self.run_it(*TWO, "--", *TRAIN, "--epochs", 60, "--json")[1])["epochs"][-1]
        right = Launch.undisturbed
        run = self.start(*TWO, "--restarts", 1, "--", *TRAIN, "--epochs", 60, "--checkpoint", "c", "--checkpoint-every", 20, "--log", "log",
                         "--json")
        self.wait_for(lambda: self.steps() > 100, run)
        os.kill(self.processes()[1], number)
        code, out, said = self.end(run)
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count("going on from the newest checkpoint, restart 1 of 1"), 1, said)
        report = json.loads(out)
        self.assertGreater(report["checkpoints"]["resumed_from"], 0)
        for key in ("loss", "val_loss", "accuracy", "val_accuracy"):
            self.assertEqual(report["epochs"][-1][key], right[key], key)
        return said

    def test_killed(self):
        self.restarted(signal.SIGKILL)

    def test_stopped(self):
        said = self.restarted(signal.SIGSTOP)
        self.assertRegex(said, rf"{SILENT} \(as rank")

    def test_no_restart_for_nothing(self):
        self.refused(3, "none.json", *TWO, "--restarts", 3, "--", *TRAIN, "--model", "none.json", "--checkpoint", "c")

    # ---- started on every host ----

    def config(self, kind, index, port):
        return {"cluster": {"chief": [f"localhost:{port}"], "worker": [f"localhost:{port + 1}"]}, "task": {"type": kind, "index": index}}

    def test_others_wait(self):
        for command, wanted in ((["--epochs", 2], 0), (["--model", "none.json"], 3)):
            port = free_port()
            waits = self.start("--wait", 60, "--", *TRAIN, *command, config=self.config("worker", 0, port))
            time.sleep(1)
            self.assertIsNone(waits.poll())
            code, _, said = self.run_it("--mpi", MPI, "--wait", 60, "--", *TRAIN, *command, config=self.config("chief", 0, port))
            self.assertEqual(code, wanted, said)
            code, out, said = self.end(waits)
            self.assertEqual((code, out, len(errors_in(said))), (wanted, "", wanted != 0), said)

    def test_ps_of_tf_config(self):
        """TF_CONFIG's ps entries become ranks of strategy ps. Other strategies ignore them, with a warning."""
        def config(*ps):
            return {"cluster": {"chief": [f"localhost:{free_port()}"], "ps": list(ps)}, "task": {"type": "chief", "index": 0}}

        own = f"{socket.gethostname()}:2222"
        code, out, said = self.run_it("--mpi", MPI, "--", *TRAIN, "--epochs", 2, "--strategy", "ps", "--json", config=config(own))
        self.assertEqual(code, 0, said)
        report = json.loads(out)
        self.assertEqual((report["ranks"], report["ps_ranks"], report["server"]["updates"]), (1, 1, 40))
        code, out, said = self.run_it("--mpi", MPI, "--", *TRAIN, "--epochs", 1, "--json", config=config(own, own))
        self.assertEqual((code, json.loads(out)["replicas"]), (0, 1), said)
        self.assertIn("warning: TF_CONFIG: the 2 entries of cluster.ps take no part", said)
        dry, out, said = self.run_it("--mpi", MPI, "--dry-run", "--", *TRAIN, "--strategy", "ps", config=config(own, own))
        self.assertEqual(dry, 0, said)
        self.assertIn(" -n 3 ", out)
        self.assertTrue(out.endswith(" --ps-ranks 2\n"), out)
        self.refused(2, "cluster.ps", "--mpi", MPI, "--", *TRAIN, "--strategy", "ps", "--ps-ranks", 1, config=config(own))
        self.refused(3, "which trains, too", "--mpi", MPI, "--", *TRAIN, "--strategy", "ps", config=config("localhost:3"))

    def test_strangers(self):
        """Strangers may connect and send anything."""
        port = free_port()
        run = self.start("--mpi", MPI, "--", *TRAIN, "--epochs", 30, config=self.config("chief", 0, port))
        link = None
        while link is None and run.poll() is None:
            try:
                link = socket.create_connection(("localhost", port), timeout=5)
                link.sendall(b"\0" * 100000)
            except ConnectionRefusedError:
                time.sleep(0.02)
        self.assertEqual(self.end(run)[0], 0)
        link.close()

    # ---- inside a launcher ----

    def in_launcher(self, *configs):
        line = {"openmpi": ["mpirun.openmpi", "--bind-to", "none", "--oversubscribe"], "mpich": ["mpirun.mpich"]}[MPI]
        for i, config in enumerate(configs):
            line += [":"] * (i > 0) + ["-n", "1", "env", "TF_CONFIG=" + json.dumps(config), str(CLIQUE), *TRAIN[1:], "--epochs", "1"]
        return subprocess.run(line, env=ENVIRONMENT, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S)

    def test_tf_config_in_a_launcher(self):
        def config(count, index):
            return {"cluster": {"worker": [f"h{i}:1" for i in range(count)]}, "task": {"type": "worker", "index": index}}

        for configs in ((config(2, 0), config(2, 1)), (config(2, 0), config(2, 0))):
            done = self.in_launcher(*configs)
            self.assertEqual(done.returncode, 0, done.stderr)
        for configs, words in (((config(3, 0), config(3, 0)), "names 3 processes"), ((config(2, 1), config(2, 0)), "is rank 1"),
                               ((config(2, 0), {"task": TASK}), "cluster is missing"), ((config(2, 0),), "started one")):
            done = self.in_launcher(*configs)
            check_code(self, MPI, done.returncode, (3,), done.stderr)
            self.assertEqual(len(errors_in(done.stderr)), 1, done.stderr)
            self.assertIn(words, errors_in(done.stderr)[0])

    def test_alone(self):
        environment = ENVIRONMENT | {"TF_CONFIG": json.dumps({"cluster": {"worker": ["host0:1", "host1:1"]}, "task": TASK})}
        done = subprocess.run([CLIQUE, *TRAIN[1:], "--epochs", "1"], env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(re.search("^clique: warning: TF_CONFIG names 2 processes", done.stderr, re.M), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
