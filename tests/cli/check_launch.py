#!/usr/bin/env python3
"""Tests clique launch without an MPI: check_launch.py BIN_FOLDER. The launchers are scripts, and all hosts are this
machine. tests/world/check_launch.py tests real MPIs."""
import json
import os
import pathlib
import shlex
import signal
import socket
import sys
import tempfile
import time
import unittest
import unittest.mock

import support  # noqa: F401 (Ctrl-C)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "world"))
from launch import Started, errors_in, free_port  # noqa: E402

CLIQUE = pathlib.Path(sys.argv.pop(1)).resolve() / "clique"
LIMIT_S = 120
TRAIN = ["clique", "train", "--share-devices", "--checkpoint", "c"]
MPIS = {"openmpi": ("mpirun.openmpi", "mpirun (Open MPI) 4.1.4", "--host"), "mpich": ("mpirun.mpich", "HYDRA build details:", "-hosts")}
# Notes its command line, and does what $ACT says. $ID is the run's id, $RUN the number of calls.
LAUNCHER = """#!/bin/bash
[ "$1" = --version ] && { echo "%s"; exit; }
printf '%%s\\n' "$*" >>calls
ID=$(echo "$*" | sed -E 's/.*CLIQUE_LAUNCH[= ]([^ ]+).*/\\1/') RUN=$(wc -l <calls)
say() { echo "clique: launch $ID: $*" >&2; }
eval "$ACT"
"""

# Cluster and task of TF_CONFIG, and the launcher's hosts. The forms come from TensorFlow's documents and its users.
GOOD = [
    ({"worker": ["100.102.32.179:8080", "100.102.33.40:8080"]}, ("worker", 0), "100.102.32.179:1,100.102.33.40:1"),
    ({"chief": ["host0.example.com:2222"], "worker": ["host1.example.com:2222", "host2.example.com:2222"]}, ("chief", 0),
     "host0.example.com:1,host1.example.com:1,host2.example.com:1"),
    ({"worker": ["host1:2222", "host2:2222"], "chief": ["host0:2222"]}, ("chief", 0), "host0:1,host1:1,host2:1"),
    ({"master": ["host0:2222"], "worker": ["host3:2222"]}, ("master", 0), "host0:1,host3:1"),
    ({"chief": ["host0:1"], "worker": ["host3:1"], "ps": ["host1:1", "host2:1"]}, ("chief", 0), "host0:1,host3:1"),
    ({"worker": ["host0:1"], "evaluator": ["host9:1"]}, ("worker", 0), "host0:1"),
    ({"worker": ["host0:1", "host1:1"], "ps": []}, ("worker", 0), "host0:1,host1:1"),
    ({"worker": ["host0", "host1"]}, ("worker", 0), "host0:1,host1:1"),
]
TASK = {"type": "worker", "index": 0}
WORKERS = {"worker": ["host0:1", "host1:1"]}
# The complete TF_CONFIG, the exit code, and the words that the error line must have.
BAD = [
    ('{"cluster"', 3, "TF_CONFIG: line 1"),
    ("[]", 3, "cluster is missing"),
    ({"task": TASK}, 3, "cluster is missing"),
    ({"cluster": {}, "task": TASK}, 3, "neither a chief nor workers"),
    ({"cluster": {"ps": ["a:1"]}, "task": TASK}, 3, "neither a chief nor workers"),
    ({"cluster": WORKERS}, 3, "task is missing"),
    ({"cluster": WORKERS, "task": {"index": 0}}, 3, "task.type is missing"),
    ({"cluster": WORKERS, "task": {"type": "worker"}}, 3, "task.index is missing"),
    ({"cluster": WORKERS, "task": {"type": "worker", "index": "0"}}, 3, "task.index is missing, or no whole number"),
    ({"cluster": WORKERS, "task": {"type": "worker", "index": 2}}, 3, "task.index is 2"),
    ({"cluster": WORKERS, "task": {"type": "worker", "index": -1}}, 3, "task.index is -1"),
    ({"cluster": WORKERS, "task": {"type": "chief", "index": 0}}, 3, "cluster.chief has 0 entries"),
    ({"cluster": WORKERS, "task": {"type": "wroker", "index": 0}}, 3, "did you mean 'worker'"),
    ({"cluster": WORKERS, "task": {"type": "evaluator", "index": 0}}, 3, "evaluator"),
    ({"cluster": {"workers": ["host0:1"]}, "task": TASK}, 3, "'workers'"),
    ({"cluster": {"worker": "host0:1"}, "task": TASK}, 3, "cluster.worker is no list"),
    ({"cluster": {"worker": {"0": "host0:1"}}, "task": TASK}, 3, "cluster.worker is no list"),
    ({"cluster": {"worker": ["host0:1", 7]}, "task": TASK}, 3, "cluster.worker[1]"),
    ({"cluster": {"worker": ["host0:1", ""]}, "task": TASK}, 3, "cluster.worker[1]"),
    ({"cluster": {"worker": ["host0:port"]}, "task": TASK}, 3, "cluster.worker[0]"),
    ({"cluster": {"worker": ["host0:1", "host1:0"]}, "task": TASK}, 3, "cluster.worker[1]: port 0"),
    ({"cluster": {"worker": ["host0:99999"]}, "task": TASK}, 3, "cluster.worker[0]: port 99999"),
    ({"cluster": {"worker": ["-oProxyCommand=x"]}, "task": TASK}, 3, "cluster.worker[0]"),
    ({"cluster": {"worker": ["host0;reboot:1"]}, "task": TASK}, 3, "cluster.worker[0]"),
    ({"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}}, 3, "cluster.chief has 2 entries"),
    ({"cluster": {"chief": ["a:1"], "master": ["b:1"]}, "task": {"type": "chief", "index": 0}}, 3, "a chief and a master"),
    ({"cluster": {"worker": ["localhost:4792", "localhost:4793"]}, "task": TASK}, 2, "names 'localhost' 2 times"),
]


class Launch(Started, unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for program, version, _ in MPIS.values():
            self.script(program, LAUNCHER % version)
        # The host `gone` does not answer. Commands for the other hosts run here.
        self.script("agent", '#!/bin/sh\nh=$1; shift\n[ "$h" = gone ] && { echo "no route to $h" >&2; exit 255; }\nexec sh -c "$*"\n')

    def script(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def start(self, *words, config=None, act="exit 0"):
        environment = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}", "ACT": act}
        for name in ("TF_CONFIG", "OMPI_MCA_plm_rsh_agent", "HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC"):
            environment.pop(name, None)
        if config is not None:
            environment["TF_CONFIG"] = config if isinstance(config, str) else json.dumps(config)
        return self.started([CLIQUE, "launch", *words], environment)

    def run_it(self, *words, **more):
        return self.end(self.start(*words, **more))

    def refused(self, code, words, *arguments, config=None):
        done, out, said = self.run_it(*arguments, config=config)
        self.assertEqual((done, out), (code, ""), said)
        self.assertEqual(len(errors_in(said)), 1, said)
        self.assertIn(words, errors_in(said)[0])

    def calls(self):
        """The hosts of each call of the launcher, and whether the call resumes."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [(line.split()[1], line.endswith(" --resume")) for line in lines]

    # ---- the command line of the launcher ----

    def hosts_of(self, line, mpi="openmpi"):
        words = shlex.split(line)
        return words[words.index(MPIS[mpi][2]) + 1], words[words.index("-n") + 1]

    def test_tf_config(self):
        for mpi in MPIS:
            for cluster, (kind, index), hosts in GOOD:
                config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud", "model_dir": "/m",
                          "rpc_layer": "grpc"}
                code, out, said = self.run_it("--mpi", mpi, "--dry-run", "--agent", "a", "--", "clique", "train", config=config)
                self.assertEqual(code, 0, said)
                self.assertEqual(self.hosts_of(out, mpi), (hosts, str(hosts.count(":"))))
                self.assertEqual("cluster.ps" in said, bool(cluster.get("ps")), said)

    def test_store_ranks_of_tf_config(self):
        """Store ranks are the last ranks, in any order of the jobs."""
        cluster = {"ps": ["host1:1", "host2:1"], "worker": ["host3:1"], "chief": ["host0:1"]}
        config = {"cluster": cluster, "task": {"type": "chief", "index": 0}}
        for mpi in MPIS:
            code, out, said = self.run_it("--mpi", mpi, "--dry-run", "--agent", "a", "--", "clique", "train", "--strategy", "ps", config=config)
            self.assertEqual((code, said), (0, ""))
            self.assertEqual(self.hosts_of(out, mpi), ("host0:1,host3:1,host1:1,host2:1", "4"))
            self.assertTrue(out.endswith("--strategy ps --ps-ranks 2\n"), out)
        # These are options of the command itself.
        for words, ranks in ((["--strat", "ps"], "4"), (["--strategy=ps"], "4"), (["--strategy", "ps", "--strategy", "mirrored"], "2"),
                             (["--save", "--strategy=ps"], "2"), (["--strategy", "mirrored", "--strategy", "ps"], "4")):
            code, out, said = self.run_it("--mpi", "openmpi", "--dry-run", "--agent", "a", "--", "clique", "train", *words, config=config)
            self.assertEqual((code, self.hosts_of(out)[1]), (0, ranks), said)

    def test_bad_tf_config(self):
        for config, code, words in BAD:
            with self.subTest(config):
                self.refused(code, words, "--mpi", "openmpi", "--dry-run", "--agent", "a", "--", "clique", "train", config=config)
        config = {"cluster": {"worker": ["localhost:1"], "ps": ["localhost:2"]}, "task": TASK}
        self.refused(3, "cluster.ps", "--", "clique", "train", "--strategy", "ps", config=config)
        config = {"cluster": {"worker": ["localhost:1", "locahost.invalid:1"]}, "task": TASK}
        self.refused(3, "unknown host 'locahost.invalid'", "--mpi", "openmpi", "--", "clique", "train", config=config)

    def test_bad_options(self):
        end = ["--", "clique", "train"]
        self.refused(2, "no hosts", *end)
        self.refused(2, "no command", "--hosts", "localhost:2")
        self.refused(2, "stands there twice", "--hosts", "a,b,a", *end)
        for hosts in ("", "a,", "a:0", "a:x", "-a", "a b", "a:1:2"):
            self.refused(2, "is no host", f"--hosts={hosts}", *end)
        self.refused(2, "--mpi 'lam'", "--hosts", "localhost", "--mpi", "lam", *end)
        self.refused(2, "--restarts", "--hosts", "localhost:2", "--restarts", 1, *end)
        self.refused(2, "--restarts", "--hosts", "localhost:2", "--restarts", 1, "--", "other", "--checkpoint", "c")
        self.refused(2, "--restarts", "--hosts", "localhost:2", "--restarts", 1, "--", "clique", "train", "--save", "--checkpoint")
        self.refused(2, "option '--savee'", "--hosts", "localhost:2", "--", "clique", "train", "--savee", "x")
        self.refused(2, "--restarts '-1'", "--hosts", "localhost:2", "--restarts=-1", *end)
        self.refused(2, "word ':'", "--hosts", "localhost", "--", "echo", "a", ":", "b")
        self.refused(2, "begins with '-x'", "--hosts", "localhost", "--", "-x", "a")
        self.refused(3, "cannot be reached", "--mpi", "openmpi", "--hosts", "elsewhere", "--agent", "/bin/false", *end)

    def test_dry_run(self):
        for mpi, (program, _, _) in MPIS.items():
            code, out, said = self.run_it("--mpi", mpi, "--dry-run", "--agent", "an agent", "--hosts", "a,b:2", "--", "clique", "train",
                                          "--data", "it's", "--epochs", 3)
            self.assertEqual((code, said, out.count("\n")), (0, "", 1))
            words = shlex.split(out)
            self.assertEqual(self.hosts_of(out, mpi), ("a:1,b:2", "3"))
            self.assertIn(program, words)
            self.assertEqual(words[-6:], [str(CLIQUE), "train", "--data", "it's", "--epochs", "3"])
            self.assertIn({"openmpi": "OMPI_MCA_plm_rsh_agent=an agent", "mpich": "HYDRA_LAUNCHER_EXEC=an agent"}[mpi], words)
            if mpi == "openmpi":
                self.assertEqual(words[words.index("--bind-to") + 1], "none")
                self.assertIn("CLIQUE_CACHE_DIR", words)
        # This machine comes first, because the ranks of Open MPI's launcher begin there.
        code, out, said = self.run_it("--mpi", "openmpi", "--dry-run", "--agent", "x", "--hosts", "elsewhere.invalid,localhost", "--", "clique",
                                      "train")
        self.assertEqual(self.hosts_of(out)[0], "localhost:1,elsewhere.invalid:1", said)

    # ---- runs ----

    def launch(self, act, *options, command=TRAIN, hosts="localhost,n2,n3"):
        return self.run_it("--mpi", "openmpi", "--hosts", hosts, "--agent", self.folder / "agent", *options, "--", *command, act=act)

    def test_exit_codes(self):
        for launcher, code in ((0, 0), (1, 1), (3, 3), (4, 4), (9, 1), (137, 1), (130, 130), (143, 143)):
            done, _, said = self.launch(f"exit {launcher}")
            self.assertEqual((done, len(errors_in(said))), (code, code in (1, 3, 4)), said)
        self.assertEqual(self.launch("exit 9", command=["other"])[0], 9)
        # A rank's own report has priority. Launchers interrupt the remaining ranks: their reports of this do not count.
        for act, code in (("say end 3; exit 1", 3), ("say end 143; say end 4 lost 1; exit 143", 4), ("say end 0; exit 1", 0)):
            self.assertEqual(self.launch(act)[::2], (code, ""))

    def test_reports_of_other_programs(self):
        """A clique command in a script does not report for the run: its success is not the run's end."""
        script = f"CLIQUE_LAUNCH=$ID PMI_RANK=0 PMI_SIZE=1 {CLIQUE} plan --help >/dev/null; sleep 0.5; exit 7"
        self.assertEqual(self.launch(script, command=["sh", "-c", "true"])[0], 7)

    def test_output_that_nobody_takes(self):
        """Signals work while the reader of stdout does not read."""
        run = self.start("--mpi", "openmpi", "--hosts", "localhost", "--", *TRAIN, act="touch ready; exec cat /dev/zero")
        while not (self.folder / "ready").exists() and run.poll() is None:
            time.sleep(0.02)
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(timeout=LIMIT_S), 130)

    def test_output_without_a_reader(self):
        run = self.start("--mpi", "openmpi", "--hosts", "localhost", "--", *TRAIN, act="exec yes")
        run.stdout.close()
        said = run.stderr.read()
        self.assertEqual(run.wait(timeout=LIMIT_S), 1)
        self.assertEqual([line.split(":")[2] for line in errors_in(said)], [" standard output cannot be written"], said)

    def test_hangup(self):
        run = self.start("--mpi", "openmpi", "--hosts", "localhost", "--", *TRAIN, act="touch ready; exec sleep 100")
        while not (self.folder / "ready").exists() and run.poll() is None:
            time.sleep(0.02)
        run.send_signal(signal.SIGHUP)
        self.assertEqual(self.end(run)[0], 143)

    def test_agent_with_arguments(self):
        """Open MPI's variable is split at blanks. In a list, the first agent counts."""
        self.script("agent", '#!/bin/sh\n[ "$1 $2" = "-p 22" ] || exit 255\nshift 3; exec sh -c "$*"\n')
        act = "exit 0"
        with unittest.mock.patch.dict(os.environ, {"PRTE_MCA_plm_ssh_agent": f"{self.folder}/agent -p 22 : rsh"}):
            self.assertEqual(self.run_it("--mpi", "openmpi", "--hosts", "localhost,n2", "--", *TRAIN, act=act)[0], 0)

    def test_variable_of_two_lines(self):
        with unittest.mock.patch.dict(os.environ, {"CLIQUE_X": "a\nNOTHERE=1"}):
            out = self.run_it("--mpi", "openmpi", "--dry-run", "--hosts", "localhost", "--", *TRAIN)[1]
        self.assertIn("-x CLIQUE_X ", out)
        self.assertNotIn("NOTHERE", out)

    def test_streams(self):
        act = "echo one; printf 'a %s\\n' b; printf three; echo four >&2; printf 'five ' >&2; say open; exit 0"
        self.assertEqual(self.launch(act), (0, "one\na b\nthree", "four\nfive "))
        banner = "echo; printf '=%.0s' $(seq 83); echo; echo BAD TERMINATION; exit 0"
        code, out, said = self.launch("echo {}; " + banner)
        self.assertEqual((code, out), (0, "{}\n\n"))
        self.assertIn("BAD TERMINATION", said)

    def test_restarts(self):
        code, _, said = self.launch("[ $RUN = 1 ] && { say end 1 lost 1; exit 1; }; exit 0", "--restarts", 2)
        self.assertEqual((code, self.calls()), (0, [("localhost:1,n2:1,n3:1", False), ("localhost:1,n3:1", True)]), said)
        self.assertIn("going on from the newest checkpoint without n2, restart 1 of 2", said)

    def test_restarts_count(self):
        self.assertEqual(self.launch("say end 1; exit 1", "--restarts", 2)[0], 1)
        self.assertEqual(self.calls(), [("localhost:1,n2:1,n3:1", r > 0) for r in range(3)])

    def test_first_host_stays(self):
        """The first host stays, since it has the checkpoints."""
        self.assertEqual(self.launch("[ $RUN = 1 ] && { say end 1 lost 0; say end 4 lost 3; exit 1; }; exit 0", "--restarts", 1,
                                     hosts="localhost:2,n2:2")[0], 0)
        self.assertEqual(self.calls(), [("localhost:2,n2:2", False), ("localhost:2", True)])

    def test_host_that_is_gone(self):
        self.script("agent", '#!/bin/sh\n[ "$1" = n3 ] && [ -e calls ] && { sleep 100; exit 255; }\nshift; exec sh -c "$*"\n')
        self.assertEqual(self.launch("[ $RUN = 1 ] && exit 1; exit 0", "--restarts", 1)[0], 0)
        self.assertEqual(self.calls()[1][0], "localhost:1,n2:1")

    def test_nothing_to_repeat(self):
        for act in ("say end 2; exit 2", "say end 3; exit 3", "exit 143"):
            (self.folder / "calls").unlink(missing_ok=True)
            self.launch(act, "--restarts", 5)
            self.assertEqual(len(self.calls()), 1, act)

    def test_launcher_that_does_not_end(self):
        """Open MPI's launcher behaves so if a host is cut off: it ignores SIGTERM. Its child processes end with it."""
        child = "setsid sh -c 'echo $$ >child; trap \"\" TERM; while :; do sleep 1; done' & "
        code, _, said = self.launch(f"trap '' TERM; {child} say end 1 lost 2; while :; do sleep 1; done")
        self.assertEqual(code, 1, said)
        self.assertFalse(pathlib.Path("/proc", (self.folder / "child").read_text().strip()).exists())

    def test_launcher_that_does_not_end_in_order(self):
        self.assertEqual(self.launch("say end 0; exec sleep 100")[0], 0)

    def test_rank_of_the_run_ends(self):
        """A process with the run's id is ended, even if the launcher has lost it."""
        code, _, said = self.launch("CLIQUE_LAUNCH=$ID setsid sh -c 'echo $$ >child; exec sleep 100' & while [ ! -s child ]; do sleep 0.1; done; exit 1")
        self.assertEqual(code, 1, said)
        self.assertFalse(pathlib.Path("/proc", (self.folder / "child").read_text().strip()).exists())

    def test_second_signal(self):
        run = self.start("--mpi", "openmpi", "--hosts", "localhost", "--", *TRAIN, act="trap '' INT; touch ready; while :; do sleep 0.2; done")
        while not (self.folder / "ready").exists() and run.poll() is None:
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)  # there is no rank to receive it
        self.assertEqual(self.end(run)[0], 130)

    # ---- started on every host ----

    def config(self, kind, index, port):
        return {"cluster": {"chief": [f"localhost:{port}"], "worker": [f"localhost:{port + 1}"]}, "task": {"type": kind, "index": index}}

    def test_who_waits_in_vain(self):
        port = free_port()
        self.refused(4, "--wait", "--wait", 1, "--", *TRAIN, config=self.config("worker", 0, port))
        with socket.create_server(("127.0.0.1", port)) as other:
            waits = self.start("--", *TRAIN, config=self.config("worker", 0, port))
            link = other.accept()[0]
            link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            code, _, said = self.end(waits)
            self.assertEqual((code, len(errors_in(said))), (3, 1), said)
            link.close()
            waits = self.start("--", *TRAIN, config=self.config("worker", 0, port))
            other.accept()[0].close()
            code, _, said = self.end(waits)
            self.assertEqual((code, len(errors_in(said))), (1, 1), said)
            waits = self.start("--", *TRAIN, config=self.config("worker", 0, port))
            link = other.accept()[0]
            waits.send_signal(signal.SIGTERM)
            self.assertEqual(self.end(waits)[0], 143)
            link.close()
            # A process that does not send the greeting is not the launching host.
            self.refused(4, "--wait", "--wait", 1, "--", *TRAIN, config=self.config("worker", 0, port))

    def test_short_run(self):
        """A waiting host looks for the launching host at intervals. It does not miss a run that ends at once."""
        port = free_port()
        waits = self.start("--wait", 60, "--", *TRAIN, config=self.config("worker", 0, port))
        time.sleep(0.7)  # between two attempts
        code, _, _ = self.run_it("--mpi", "openmpi", "--", *TRAIN, config=self.config("chief", 0, port), act="exit 4")
        self.assertEqual((code, self.end(waits)[0]), (4, 4))

    def test_who_can_wait(self):
        """If a launching host is alone, only an evaluator may wait for it. TF_CONFIG need not name the evaluator. The
        launcher's exit code tells whether the launching host listens."""
        port = free_port()
        config = {"cluster": {"worker": [f"localhost:{port}"]}, "task": {"type": "worker", "index": 0}}
        for command, code in ([CLIQUE, "train"], 0), ([CLIQUE, "train", "--checkpoint", "c"], 4):
            done, _, said = self.run_it("--mpi", "openmpi", "--", *command, config=config,
                                        act=f"(exec 3<>/dev/tcp/localhost/{port}) 2>/dev/null && exit 4; exit 0")
            self.assertEqual(done, code, said)

    def test_strangers_take_no_place(self):
        """Strangers connect and close before the waiting host comes. The waiting host still learns the end."""
        port = free_port()
        run = self.start("--mpi", "openmpi", "--", *TRAIN, config=self.config("chief", 0, port), act="touch ready; while [ ! -e go ]; do sleep 0.1; done; exit 4")
        while not (self.folder / "ready").exists() and run.poll() is None:
            time.sleep(0.02)
        for _ in range(5):
            socket.create_connection(("127.0.0.2", port), timeout=5).close()  # any address of this machine
        waits = self.start("--wait", 60, "--", *TRAIN, config=self.config("worker", 0, port))
        time.sleep(0.5)
        (self.folder / "go").touch()
        self.assertEqual(self.end(run)[0], 4)
        code, _, said = self.end(waits)
        self.assertEqual(code, 4)
        self.assertEqual(errors_in(said), ["clique: error: the run that localhost launched ended with exit code 4; the reason is in that host's output"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
