#!/usr/bin/env python3
"""Tests what ./quickstart test does on systems that lack packages. The systems are folders whose apt and dpkg are
stand-ins.

usage: check_packages.py SOURCE_FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
STAND_INS = {
    "dpkg-query": """#!/bin/bash
name=${@: -1}
grep -qx "$name" "$SYSTEM/installed" || exit 1
case $* in *Version*) printf 'install ok installed\\t99\\n' ;; *) echo 'install ok installed' ;; esac
""",
    "apt-cache": """#!/bin/bash
if [ "$1" = depends ]; then
    printf '%s\\n' "$2"
    grep "^$2 " "$SYSTEM/depends" | sed "s/^$2 /  Depends: /"
    exit 0
fi
[ "$1" = policy ] || exit 1
line=$(grep "^$2 " "$SYSTEM/known") || exit 0
printf '%s:\\n  Installed: (none)\\n  Candidate: %s\\n' "$2" "${line#* }"
""",
    "apt-get": """#!/bin/bash
echo "$*" >>"$SYSTEM/asked"
[ "$1" = install ] || exit 0
for name; do
    case $name in install | -*) continue ;; esac
    grep -q "^$name " "$SYSTEM/known" || { echo "E: Unable to locate package $name"; exit 100; }
    echo "$name" >>"$SYSTEM/installed"
done
""",
    "id": '#!/bin/bash\ncat "$SYSTEM/user"\n',
    "cmake": "#!/bin/bash\nmkdir -p build && touch build/build.ninja\n",
}


def packages(use):
    rows = [line.split("\t") for line in (SOURCE / "systems/packages.tsv").read_text().splitlines() if not line.startswith("#")]
    return [row[1].split(">=")[0] for row in rows if row[0] == use]


class Systems(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.system = pathlib.Path(temporary.name)
        self.tree = self.system / "clique"
        (self.tree / "tests/support").mkdir(parents=True)
        shutil.copy(SOURCE / "quickstart", self.tree)
        shutil.copytree(SOURCE / "systems", self.tree / "systems")
        for name in ("tests/support/install-intel-opencl", "tests/support/install-gpu-compilers", "tests/run"):
            self.program(self.tree / name, "#!/bin/sh\necho ran $0\n")
        self.tools = self.system / "tools"
        self.tools.mkdir()
        for name, text in STAND_INS.items():
            self.program(self.tools / name, text)
        for name in "bash sh env cat grep sed awk head cut dirname readlink mkdir mv rm cmp touch nproc uname dpkg".split():
            (self.tools / name).symlink_to(shutil.which(name))
        self.put("asked", [])
        self.put("depends", ["mesa-opencl-icd libclc-19"])

    def program(self, path, text):
        path.write_text(text)
        path.chmod(0o755)

    def put(self, name, lines):
        (self.system / name).write_text("".join(f"{line}\n" for line in lines))

    def describe(self, version, known, installed=(), root=True):
        """A Debian system: the packages that apt knows, with versions; the installed packages; the user."""
        self.put("known", [f"{name} {number}" for name, number in known.items()])
        self.put("installed", installed)
        self.put("user", ["0" if root else "1000"])
        self.put("os-release", ["ID=debian", f"VERSION_ID={version}"])

    def run_test(self):
        done = subprocess.run([self.tree / "quickstart", "test"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                              env={"PATH": str(self.tools), "SYSTEM": str(self.system), "CLIQUE_OS_RELEASE": str(self.system / "os-release"), "HOME": "/nowhere"})
        lacking = self.tree / "build/system/lacking"
        return done, (self.system / "asked").read_text().splitlines(), lacking.read_text().splitlines() if lacking.exists() else None

    def all_but(self, *lacking, **versions):
        names = packages("build") + packages("test")
        return {name: versions.get(name.split("-")[0], "99") for name in names if name not in lacking}

    def test_lacking_is_left_out_by_name(self):
        self.describe(13, self.all_but("oclgrind", "clang-14"))
        done, asked, lacking = self.run_test()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(lacking, ["oclgrind\tno package oclgrind", "clang-14\tno package clang-14"])
        self.assertIn("left out: no package oclgrind", done.stdout)
        self.assertNotIn("oclgrind", " ".join(asked))
        self.assertIn("mesa-opencl-icd", " ".join(asked))
        self.assertIn("tests/run", done.stdout)
        # A second run installs nothing, and looks for nothing.
        self.put("asked", [])
        done, asked, again = self.run_test()
        self.assertEqual((done.returncode, asked, again), (0, [], lacking))

    def test_found_later_is_no_longer_left_out(self):
        self.describe(13, self.all_but("oclgrind"))
        self.assertEqual(self.run_test()[2], ["oclgrind\tno package oclgrind"])
        self.put("installed", self.all_but())
        done, asked, lacking = self.run_test()
        self.assertEqual((done.returncode, lacking), (0, []))

    def test_required_is_an_error(self):
        self.describe(12, self.all_but("oclgrind", mesa="22.3.6"))
        done, asked, lacking = self.run_test()
        self.assertEqual(done.returncode, 1)
        self.assertIn("Unable to locate package oclgrind", done.stderr)
        self.assertIsNone(lacking)

    def test_what_does_not_work_is_left_out(self):
        """Rusticl is skipped if it depends on the libclc of LLVM 22, whether or not it is installed."""
        for installed in ((), self.all_but()):
            self.describe(14, self.all_but(), installed)
            self.put("depends", ["mesa-opencl-icd libc6", "mesa-opencl-icd libclc-22"])
            done, asked, lacking = self.run_test()
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(lacking, ["mesa-opencl-icd>=24\tpackage mesa-opencl-icd depends on libclc-22, with which it does not work"
                                       " (docs/driver-quirks.md)"])
            self.assertNotIn("mesa-opencl-icd", " ".join(asked))

    def test_old_version_is_left_out(self):
        self.describe(12, self.all_but(mesa="22.3.6"))
        done, asked, lacking = self.run_test()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(lacking, ["mesa-opencl-icd>=24\tpackage mesa-opencl-icd is 22.3.6, and 24 or later is needed"])
        self.assertNotIn("mesa", " ".join(asked))

    def test_a_folder_of_make_stays_one(self):
        self.describe(13, self.all_but(), self.all_but())
        (self.tree / "build").mkdir()
        (self.tree / "build/Makefile").touch()
        (self.tree / "build/CMakeCache.txt").write_text("CLIQUE_TESTS:BOOL=ON\n")
        done, asked, lacking = self.run_test()
        self.assertEqual((done.returncode, asked), (0, []), done.stderr)
        self.assertNotIn("configuring", done.stdout)

    def test_users_need_no_root(self):
        for lacking in ((), ("oclgrind",)):
            known = self.all_but(*lacking)
            self.describe(13, known, installed=known, root=False)
            done, asked, left_out = self.run_test()
            self.assertEqual((done.returncode, asked), (0, []), done.stderr)
            self.assertEqual(left_out, [f"{name}\tno package {name}" for name in lacking])
        self.describe(13, known, installed=list(known)[1:], root=False)
        done, asked, _ = self.run_test()
        self.assertEqual(done.returncode, 1)
        self.assertIn("install build-essential by hand", done.stderr)


class Summary(unittest.TestCase):
    def test_ctest_has_the_last_word(self):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            (build / "tests").mkdir()
            (build / "tests/left-out").write_text("oclgrind/... : no package oclgrind\n")
            passes = "1/1 Test a\n\n100% tests passed, 0 tests failed out of 1\n\nTotal Test time (real) = 1 sec\n"
            fails = "1/1 Test a\n\n0% tests passed, 1 tests failed out of 1\n\nErrors while running CTest\n"
            for said, status, check, wanted in ((passes, 0, "", 0), (passes, 0, "true", 0), (passes, 0, "false", 1), (fails, 8, "", 8), (fails, 8, "true", 8)):
                done = subprocess.run([SOURCE / "tests/support/run_ctest", build, check, "sh", "-c", f"printf '%s' '{said}'; exit {status}"],
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, wanted, done.stdout + done.stderr)
                before, _, after = done.stdout.partition("left out on this system: oclgrind/... : no package oclgrind\n")
                self.assertRegex(before, r"used: .*; gcc \d.*; cmocka ")
                self.assertTrue(after.strip().startswith(said.split("\n")[2]), done.stdout)
                self.assertTrue(done.stdout.endswith(said.split("\n\n", 1)[1]))


if __name__ == "__main__":
    unittest.main()
