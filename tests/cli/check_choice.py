#!/usr/bin/env python3
"""Tests --devices auto and --strategy auto against docs/command-line.md: what is chosen, kept, used and ignored.

usage: check_choice.py BIN_FOLDER     (the environment chooses the OpenCL drivers)
"""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import unittest

import support

BIN = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "build/bin")
CLIQUE = str(BIN / "clique")
# check_why.py compiles the same model.
SMALL = ["--model", "mlp", "--data", "synthetic:28x28/10/192"]
TRAIN = ["train", *SMALL, "--no-test", "--epochs", "1"]


def drivers():
    """The libraries that the vendor files name, by the file's name."""
    vendors = pathlib.Path(os.environ["OCL_ICD_VENDORS"])
    return {file.stem: file.read_text().strip() for file in vendors.glob("*.icd")}


class Machine:
    """A machine below CLIQUE_MACHINE_ROOT, whose cores are idle or busy with other programs. Both idle and busy time
    pass many times faster than real time, so that the process's own use of the cores does not matter. /proc/stat is a
    pipe, so that the counters belong to the moment in which they are read, even if this thread is late."""

    FASTER = 30

    def __init__(self, root):
        self.file = root / "proc" / "stat"
        self.file.parent.mkdir(parents=True)
        self.put_pipe()
        self.busy, self.used, self.idle, self.ends = False, 0.0, 0.0, False
        self.thread = threading.Thread(target=self.go)
        self.thread.start()

    def put_pipe(self):
        part = self.file.with_suffix(".part")
        os.mkfifo(part)
        part.rename(self.file)

    def go(self):
        last = time.monotonic()
        while True:
            with open(self.file, "wb", buffering=0) as pipe:  # waits for a reader
                if self.ends:
                    return
                self.put_pipe()  # for the next read, which must not see the end of this one
                now = time.monotonic()
                if self.busy:
                    self.used += self.FASTER * (now - last)
                else:
                    self.idle += self.FASTER * (now - last)
                last = now
                pipe.write(self.text().encode())

    def text(self):
        """Readers stop at the first line that does not belong to a core."""
        rows = [f"cpu{i} {int(100 * self.used)} 0 0 {int(100 * self.idle)} 0 0 0 0 0 0\n" for i in range(os.cpu_count())]
        return "".join(["cpu  0 0 0 0 0 0 0 0 0 0\n", *rows, "intr 0\n"])

    def end(self):
        self.ends = True
        os.close(os.open(self.file, os.O_RDONLY))
        self.thread.join()


class Choice(support.InFolder):
    def setUp(self):
        """Two PoCL devices, with a driver that a test can exchange. Caches are shared with the other tests, except the
        choices."""
        super().setUp()
        vendors, cache = self.folder / "vendors", support.borrow_cache(self.folder)
        vendors.mkdir()
        self.vendor_file = vendors / "driver.icd"
        self.drive(next(library for name, library in drivers().items() if "pocl" in name))
        self.choices = cache / "choices"
        self.environment = os.environ | {"OCL_ICD_VENDORS": str(vendors), "CLIQUE_CACHE_DIR": str(cache), "POCL_DEVICES": "basic basic"}

    def drive(self, library):
        """The vendor file keeps its size, whichever library it names."""
        self.vendor_file.write_text(library + "\n" * (512 - len(library)))
        os.utime(self.vendor_file, (1e9, 1e9))

    def run_it(self, *args, code=0, says=(), **more):
        """Returns the output. says: words of the one expected warning. Without says, no warning may be printed."""
        done = subprocess.run([CLIQUE, *map(str, args)], capture_output=True, text=True, timeout=240, env=self.environment | more)
        self.assertEqual(done.returncode, code, done.stderr)
        warnings = [line for line in done.stderr.splitlines() if "warning" in line]
        self.assertEqual(len(warnings), 1 if says else 0, done.stderr)
        for word in says:
            self.assertIn(word, warnings[0])
        return done.stdout

    def train(self, *args, **more):
        return json.loads(self.run_it(*TRAIN, *args, "--json", **more))

    def test_chosen_kept_and_used(self):
        rule = self.train()["chosen"]
        self.assertEqual(rule, {"by": "rule", "devices": "0", "strategy": "single", "images_per_s": None, "doubt": None, "anew": None})
        self.assertIn("--devices 0 --strategy single", self.run_it(*TRAIN))

        why = json.loads(self.run_it("why", *SMALL, "--json"))
        chosen, rows = why["chosen"], why["alternatives"]
        self.assertEqual([row["devices"] for row in rows], ["0", "0,1"][:1 if len(os.sched_getaffinity(0)) < 2 else 2])
        self.assertEqual(rows[0]["state"], "measured")
        winner = next(row for row in rows if row["devices"] == chosen["devices"])
        self.assertEqual((chosen["by"], chosen["strategy"], chosen["images_per_s"]), ("measured", winner["strategy"], winner["images_per_s"]))
        self.assertGreaterEqual(winner["images_per_s"], 0.95 * max(row["images_per_s"] or 0 for row in rows))
        self.assertEqual(chosen["doubt"], winner["doubt"])
        self.assertIsNone(chosen["doubt"]["others"])  # the tests' machine does not report it
        for row in rows:
            self.assertEqual(row["doubt"] is None, row["images_per_s"] is None)
            if row["doubt"]:
                low, high = row["doubt"]["images_per_s"]
                self.assertTrue(low <= row["images_per_s"] <= high)
                self.assertAlmostEqual(high / low, (1 + row["doubt"]["spread"] / 2) ** 2, delta=1e-9)
        self.assertEqual(why["predictions"][-1]["replicas"], winner["replicas"])

        # Two runs after it, and a run with the same choice given explicitly: all have the same bits.
        named = ["--devices", chosen["devices"], "--strategy", chosen["strategy"]]
        files = [self.folder / f"{i}.safetensors" for i in range(3)]
        for file, words in zip(files, ([], [], named)):
            found = self.train("--save", file, *words)
            self.assertEqual(found["chosen"], None if words else chosen | {"by": "kept"})
            self.assertEqual(found["replicas"], winner["replicas"])
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())
        self.assertEqual(files[0].read_bytes(), files[2].read_bytes())
        self.assertIn(f"  chosen: --devices {chosen['devices']} --strategy {chosen['strategy']}, ", self.run_it(*TRAIN))
        # eval uses the choice, too.
        self.run_it("eval", *SMALL, "--weights", files[0])

        # There is no choice for other settings: another batch, or other candidate devices.
        self.assertEqual(self.train("--batch", 32)["chosen"]["by"], "rule")
        self.assertEqual(self.train("--batch-per-replica", 64)["chosen"]["by"], "rule")
        self.assertEqual(self.train(POCL_DEVICES="basic")["chosen"]["by"], "rule")
        self.assertEqual(self.train("--strategy", "single")["chosen"]["by"], "rule")

        # quick does not choose again; full does.
        self.assertEqual(self.train("--tune", "quick")["chosen"], chosen | {"by": "kept"})

        for file in self.choices.iterdir():
            file.write_bytes(file.read_bytes()[:-1] + b"?")
        self.assertEqual(self.train(says=["damaged"])["chosen"], rule)

    def without_programs(self):
        """Another cache folder: a copy of this one without the programs."""
        other = self.folder / "no programs"
        other.mkdir()
        for kept in pathlib.Path(self.environment["CLIQUE_CACHE_DIR"]).glob("*"):
            if kept.name != "programs":
                (other / kept.name).symlink_to(kept.resolve())
        return str(other)

    def make_machine(self):
        root = self.folder / "machine"
        machine = Machine(root)
        self.addCleanup(machine.end)
        self.environment["CLIQUE_MACHINE_ROOT"] = str(root)
        return machine

    def said(self, *args):
        """The lines of a training's output that say that it chooses again."""
        return [line for line in self.run_it(*TRAIN, *args).splitlines() if "anew" in line]

    def test_measured_while_others_were_busy(self):
        """A choice with a grave doubt is reported and kept. The first training that finds the cores idle chooses again,
        and says so."""
        machine = self.make_machine()
        machine.busy = True
        # A choice depends on the machine's layers, too.
        self.environment["OPENCL_LAYERS"] = str(BIN.parent / "tests" / "clq_hang_layer.so")
        # Takes long, because doubtful parts are measured again.
        text = self.run_it("why", *SMALL, "--strategy", "single")
        self.assertRegex(text, r"\? compute|\? [a-z ]+\n")
        self.assertIn("\n?: measured while other programs used up to ", text)
        found = self.train("--strategy", "single")["chosen"]
        self.assertEqual((found["by"], found["anew"]), ("kept", None))
        self.assertGreater(found["doubt"]["others"], 0.9)
        # Still busy: the old choice is used.
        self.assertIn(" while other programs used ", self.run_it(*TRAIN, "--strategy", "single"))
        self.assertEqual(self.said("--strategy", "single"), [])
        doubtful = {file: file.read_bytes() for file in self.choices.iterdir()}  # measuring it again would take long

        machine.busy = False
        self.run_it("plan", "--model", "mlp", "--strategy", "single", "--json")  # only trainings choose again
        self.assertEqual(self.train("--strategy", "single", "--resume", "--checkpoint", self.folder / "c")["chosen"]["by"], "kept")
        found = self.train("--strategy", "single")["chosen"]
        self.assertEqual((found["by"], found["anew"], found["doubt"]["others"]), ("measured", "doubtful", 0))
        found = self.train("--strategy", "single")["chosen"]
        self.assertEqual((found["by"], found["anew"], found["doubt"]["others"]), ("kept", None, 0))
        self.assertEqual(self.said("--strategy", "single"), [])

        # If the comparison fails, the earlier choice stays.
        for file, content in doubtful.items():
            file.write_bytes(content)
        # The step, then its separate launches.
        refused = {"CLQ_HANG": "refuse", "CLQ_HANG_OF": "product_", "CLQ_HANG_REFUSALS": "4"}
        done = subprocess.run([CLIQUE, *TRAIN, "--strategy", "single", "--json"], capture_output=True, text=True, timeout=240,
                              env=self.environment | refused | {"CLIQUE_CACHE_DIR": self.without_programs()})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "clique: warning: devices are not chosen anew: .* does not build ")
        found = json.loads(done.stdout)["chosen"]
        self.assertEqual((found["by"], found["anew"]), ("kept", None))

        # A training that does not print JSON reports that it chooses again.
        for file, content in doubtful.items():
            file.write_bytes(content)
        self.assertEqual(len(self.said("--strategy", "single")), 1)
        self.assertEqual(self.said("--strategy", "single"), [])

    def test_trainings_that_fall_short(self):
        """Devices that became five times slower: the fourth training chooses again."""
        self.environment |= {"OPENCL_LAYERS": str(BIN.parent / "tests" / "clq_slow_layer.so")}
        single = ["--strategy", "single", *support.APART]
        self.run_it("why", *SMALL, *single)
        slow = {"CLQ_TEST_PACE": "5 5"}
        long = [*single, "--data", "synthetic:28x28/10/30000"]
        # Trainings with settings that slow them down do not judge the choice.
        for option in (["--check-numerics"], ["--ema", "0.9"], ["--clip", "norm=1"], ["--metrics", "sparse_top_k_categorical_accuracy"], ["--log", self.folder / "log"],
                       ["--checkpoint", self.folder / "c", "--checkpoint-every", "10"], ["--data", self.put_floats(30000)]):
            self.assertEqual(self.train(*long, *option, **slow)["chosen"]["by"], "kept")
        before = self.train(*long, **slow)["chosen"]
        self.train(*long, **slow)
        self.train(*TRAIN[1:], *single, **slow)  # too short to judge
        self.assertEqual(self.train(*long, **slow)["chosen"], before)
        done = self.train(*long, **slow)["chosen"]
        self.assertEqual((before["by"], done["by"], done["anew"]), ("kept", "measured", "fell short"))
        self.assertLess(done["images_per_s"], 0.6 * before["images_per_s"])
        self.assertEqual(self.train(*long, **slow)["chosen"], done | {"by": "kept", "anew": None})

    def test_quick(self):
        chosen = self.train("--strategy", "single", "--tune", "quick")["chosen"]
        self.assertEqual(chosen["by"], "measured")
        self.assertEqual(self.train("--strategy", "single")["chosen"], chosen | {"by": "kept"})

    def test_devices_that_are_gone(self):
        intel = next((library for name, library in drivers().items() if "intel" in name), None)
        if not intel:
            self.skipTest("needs a second driver")
        self.run_it("why", *SMALL, "--strategy", "single", "--json")
        self.drive(intel)
        found = self.train("--strategy", "single", says=["devices 0", "not what they were", "clique why"])
        self.assertEqual(found["chosen"]["by"], "rule")
        self.train("--strategy", "single")  # the message is printed once

    def test_too_large_for_each_device(self):
        """No device alone has the memory for the whole batch: the devices are compared together."""
        few = [*SMALL, "--batch", 192, "--memory-limit", 3000000]
        if len(os.sched_getaffinity(0)) < 2:  # on one core, there is no combination
            self.run_it("why", *few, code=4)
            return
        text = self.run_it("why", *few)
        # Both strategies are nearly equally fast here.
        self.assertRegex(text, r"\n0 +1 single +- +failed\n0,1 +2 (mirrored|central) +[0-9]+ +predicted, chosen\n")
        self.assertIn("what does not fit the memory has no row: ", text)
        found = json.loads(self.run_it("train", *few, "--no-test", "--epochs", 1, "--json"))
        self.assertEqual((found["replicas"], found["chosen"]["by"]), (2, "kept"))

    def test_strategy_of_named_devices(self):
        self.assertEqual(self.train("--devices", "0")["chosen"],
                         {"by": "rule", "devices": "0", "strategy": "single", "images_per_s": None, "doubt": None, "anew": None})
        why = json.loads(self.run_it("why", *SMALL, "--devices", "0", "--json"))
        self.assertNotIn("alternatives", why)
        found = self.train("--devices", "0")["chosen"]
        self.assertEqual((found["by"], found["devices"], found["strategy"]), ("kept", "0", "single"))
        self.assertEqual(found["images_per_s"], why["predictions"][0]["images_per_s"])
        self.assertEqual(found["doubt"], why["predictions"][0]["doubt"])
        self.assertIsNotNone(found["doubt"])


unittest.main()
