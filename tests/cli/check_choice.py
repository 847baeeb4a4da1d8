#!/usr/bin/env python3
"""--devices auto and --strategy auto: what is chosen, kept, used, and ignored, as docs/command-line.md specifies it.

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
# What check_why.py compiles, too.
SMALL = ["--model", "mlp", "--data", "synthetic:28x28/10/192"]
TRAIN = ["train", *SMALL, "--no-test", "--epochs", "1"]


def drivers():
    """The libraries that vendor files name, by the file's name."""
    vendors = pathlib.Path(os.environ["OCL_ICD_VENDORS"])
    return {file.stem: file.read_text().strip() for file in vendors.glob("*.icd")}


class Machine:
    """A machine below CLIQUE_MACHINE_ROOT whose cores are idle, or busy with others' work. Either passes many times faster
    than time, so that the process's own use of the cores does not matter. Its /proc/stat is a pipe: counters are those of
    the moment in which they are read, however late a thread here is."""

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
                self.put_pipe()  # for the next reading, which must not meet the end of this one
                now = time.monotonic()
                if self.busy:
                    self.used += self.FASTER * (now - last)
                else:
                    self.idle += self.FASTER * (now - last)
                last = now
                pipe.write(self.text().encode())

    def text(self):
        """Readers stop at the first line that is of no core."""
        rows = [f"cpu{i} {int(100 * self.used)} 0 0 {int(100 * self.idle)} 0 0 0 0 0 0\n" for i in range(os.cpu_count())]
        return "".join(["cpu  0 0 0 0 0 0 0 0 0 0\n", *rows, "intr 0\n"])

    def end(self):
        self.ends = True
        os.close(os.open(self.file, os.O_RDONLY))
        self.thread.join()


class Choice(support.InFolder):
    def setUp(self):
        """Two PoCL devices, by a driver that can be exchanged; caches are the other tests', but for choices."""
        super().setUp()
        vendors, cache = self.folder / "vendors", support.borrow_cache(self.folder)
        vendors.mkdir()
        self.vendor_file = vendors / "driver.icd"
        self.drive(next(library for name, library in drivers().items() if "pocl" in name))
        self.choices = cache / "choices"
        self.environment = os.environ | {"OCL_ICD_VENDORS": str(vendors), "CLIQUE_CACHE_DIR": str(cache), "POCL_DEVICES": "basic basic"}

    def drive(self, library):
        """The vendor file looks the same from outside, whatever it names."""
        self.vendor_file.write_text(library + "\n" * (512 - len(library)))
        os.utime(self.vendor_file, (1e9, 1e9))

    def run_it(self, *args, code=0, says=(), **more):
        """What it prints. says: words of the one warning that it gives; else it gives none."""
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
        self.assertIsNone(chosen["doubt"]["others"])  # the tests' machine does not tell
        for row in rows:
            self.assertEqual(row["doubt"] is None, row["images_per_s"] is None)
            if row["doubt"]:
                low, high = row["doubt"]["images_per_s"]
                self.assertTrue(low <= row["images_per_s"] <= high)
                self.assertAlmostEqual(high / low, (1 + row["doubt"]["spread"] / 2) ** 2, delta=1e-9)
        self.assertEqual(why["predictions"][-1]["replicas"], winner["replicas"])

        # Two runs after it, and the choice in the user's own words: the same bits.
        named = ["--devices", chosen["devices"], "--strategy", chosen["strategy"]]
        files = [self.folder / f"{i}.safetensors" for i in range(3)]
        for file, words in zip(files, ([], [], named)):
            found = self.train("--save", file, *words)
            self.assertEqual(found["chosen"], None if words else chosen | {"by": "kept"})
            self.assertEqual(found["replicas"], winner["replicas"])
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())
        self.assertEqual(files[0].read_bytes(), files[2].read_bytes())
        self.assertIn(f"  chosen: --devices {chosen['devices']} --strategy {chosen['strategy']}, ", self.run_it(*TRAIN))
        # eval takes it too.
        self.run_it("eval", *SMALL, "--weights", files[0])

        # Of something else nothing was chosen: another batch, or other devices to choose from.
        self.assertEqual(self.train("--batch", 32)["chosen"]["by"], "rule")
        self.assertEqual(self.train("--batch-per-replica", 64)["chosen"]["by"], "rule")
        self.assertEqual(self.train(POCL_DEVICES="basic")["chosen"]["by"], "rule")
        self.assertEqual(self.train("--strategy", "single")["chosen"]["by"], "rule")

        # quick makes no choice again; full does.
        self.assertEqual(self.train("--tune", "quick")["chosen"], chosen | {"by": "kept"})

        for file in self.choices.iterdir():
            file.write_bytes(file.read_bytes()[:-1] + b"?")
        self.assertEqual(self.train(says=["damaged"])["chosen"], rule)

    def without_programs(self):
        """Another cache folder: all that this one has, but no programs."""
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
        """The lines about choosing anew that a training prints."""
        return [line for line in self.run_it(*TRAIN, *args).splitlines() if "anew" in line]

    def test_measured_while_others_were_busy(self):
        """A choice with a grave doubt is told so, kept, and made anew by the first training that finds the cores idle, which
        says so."""
        machine = self.make_machine()
        machine.busy = True
        self.environment["OPENCL_LAYERS"] = str(BIN.parent / "tests" / "clq_hang_layer.so")  # a choice is of a machine with its layers
        text = self.run_it("why", *SMALL, "--strategy", "single")  # takes long: doubtful parts are measured again
        self.assertRegex(text, r"\? compute|\? [a-z ]+\n")
        self.assertIn("\n?: measured while other programs used up to ", text)
        found = self.train("--strategy", "single")["chosen"]
        self.assertEqual((found["by"], found["anew"]), ("kept", None))
        self.assertGreater(found["doubt"]["others"], 0.9)
        self.assertIn(" while other programs used ", self.run_it(*TRAIN, "--strategy", "single"))  # still busy: as it is
        self.assertEqual(self.said("--strategy", "single"), [])
        doubtful = {file: file.read_bytes() for file in self.choices.iterdir()}  # measuring it again takes long

        machine.busy = False
        self.run_it("plan", "--model", "mlp", "--strategy", "single", "--json")  # only trainings choose anew
        self.assertEqual(self.train("--strategy", "single", "--resume", "--checkpoint", self.folder / "c")["chosen"]["by"], "kept")
        found = self.train("--strategy", "single")["chosen"]
        self.assertEqual((found["by"], found["anew"], found["doubt"]["others"]), ("measured", "doubtful", 0))
        found = self.train("--strategy", "single")["chosen"]
        self.assertEqual((found["by"], found["anew"], found["doubt"]["others"]), ("kept", None, 0))
        self.assertEqual(self.said("--strategy", "single"), [])

        # What cannot be compared leaves what was chosen before.
        for file, content in doubtful.items():
            file.write_bytes(content)
        refused = {"CLQ_HANG": "refuse", "CLQ_HANG_OF": "product_", "CLQ_HANG_REFUSALS": "4"}  # the step, then its launches
        done = subprocess.run([CLIQUE, *TRAIN, "--strategy", "single", "--json"], capture_output=True, text=True, timeout=240,
                              env=self.environment | refused | {"CLIQUE_CACHE_DIR": self.without_programs()})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "clique: warning: devices are not chosen anew: .* does not build ")
        found = json.loads(done.stdout)["chosen"]
        self.assertEqual((found["by"], found["anew"]), ("kept", None))

        # A training that prints no JSON says that it chooses anew.
        for file, content in doubtful.items():
            file.write_bytes(content)
        self.assertEqual(len(self.said("--strategy", "single")), 1)
        self.assertEqual(self.said("--strategy", "single"), [])

    def test_trainings_that_fall_short(self):
        """Devices that became five times slower: the fourth training chooses anew."""
        self.environment |= {"OPENCL_LAYERS": str(BIN.parent / "tests" / "clq_slow_layer.so")}
        self.run_it("why", *SMALL, "--strategy", "single")
        slow = {"CLQ_TEST_PACE": "5 5"}
        long = ["--strategy", "single", "--data", "synthetic:28x28/10/30000"]
        # By settings that slow a training down the choice is not judged.
        for option in (["--check-numerics"], ["--ema", "0.9"], ["--clip", "norm=1"], ["--metrics", "sparse_top_k_categorical_accuracy"], ["--log", self.folder / "log"],
                       ["--checkpoint", self.folder / "c", "--checkpoint-every", "10"], ["--data", self.put_floats(30000)]):
            self.assertEqual(self.train(*long, *option, **slow)["chosen"]["by"], "kept")
        before = self.train(*long, **slow)["chosen"]
        self.train(*long, **slow)
        self.train(*TRAIN[1:], "--strategy", "single", **slow)  # too short to tell
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
        self.train("--strategy", "single")  # said once

    def test_too_large_for_each_device(self):
        """Devices of which none has the memory for the whole batch are compared together."""
        few = [*SMALL, "--batch", 192, "--memory-limit", 3000000]
        if len(os.sched_getaffinity(0)) < 2:  # one core: there is nothing together
            self.run_it("why", *few, code=4)
            return
        text = self.run_it("why", *few)
        # They are nearly as fast with one strategy as with the other.
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
