"""Helpers that the tests of the command line share."""
import json
import os
import pathlib
import signal
import struct
import tempfile
import unittest

# In a shell without job control, background jobs ignore Ctrl-C, and child programs inherit this. Then a command that a
# test interrupts would run to its end. A signal that has a handler here has the default action in programs that this
# process starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Options for trainings that do not test steps as one launch. Such a step is a separate program, which takes ten times
# as long to compile.
APART = ["--disable-paths", "one launch"]


def synchronized_model():
    """As Keras's to_json() writes it: batch normalisation over the global batch, before and after layers with
    weights."""
    return sequential("synchronized", [("Flatten", {}), ("Dense", {"units": 12, "activation": "tanh"}),
                                       ("BatchNormalization", {"synchronized": True}), ("Dense", {"units": 10, "activation": "softmax"})])


def sequential(name, layers):
    """Layers after an image of 28 x 28, as Keras's to_json() writes them."""
    layers = [("InputLayer", {"batch_shape": [None, 28, 28, 1]}), *layers]
    return {"class_name": "Sequential", "config": {"name": name, "layers": [
        {"class_name": kind, "config": {"name": f"{kind.lower()}_{i}"} | config} for i, (kind, config) in enumerate(layers)]}}


def put_least(folder):
    """Writes the smallest model that has weights to a file in `folder`. Returns its path."""
    path = pathlib.Path(folder) / "least.json"
    path.write_text(json.dumps(sequential("least", [("Flatten", {}), ("Dense", {"units": 10, "activation": "softmax"})])))
    return str(path)


def npy(path, shape, dtype, data):
    """Writes a NumPy file with these bytes."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def borrow_cache(folder):
    """A folder for CLIQUE_CACHE_DIR in `folder`: it shares the other tests' built kernels, and keeps its own
    choices."""
    cache = folder / "cache"
    cache.mkdir()
    for kept in pathlib.Path(os.environ["CLIQUE_CACHE_DIR"]).glob("*"):
        if kept.name not in ("choices", "devices"):
            (cache / kept.name).symlink_to(kept)
    return cache


def unoptimized():
    """The environment of commands whose kernels are compiled without optimization and cached separately, like those of
    the tests in `unoptimized_tests` (cmake/tests.cmake). It suits tests that compile much and compute little."""
    cache = os.environ.get("CLIQUE_CACHE_DIR")
    return {"CLQ_TEST_UNOPTIMIZED": "1"} | ({"CLIQUE_CACHE_DIR": f"{cache}-unoptimized"} if cache else {})


class InFolder(unittest.TestCase):
    """Each test has its own folder, which is removed after the test."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def check_refusal(self, result, code, command, says):
        """Checks that the finished command printed one error, with these words, and ended with the code. The error's line."""
        lines = [line for line in result.stderr.splitlines() if line.startswith("clique: error: ")]
        self.assertEqual(result.returncode, code, f"{command}: {result.stderr}")
        self.assertEqual(len(lines), 1, f"{command}: {result.stderr}")
        for word in says:
            self.assertIn(word, lines[0])
        return lines[0]

    def put_floats(self, samples):
        """A data set of float32 samples of 28 x 28, all zeros, in files that take no space. Returns its folder."""
        data = self.folder / "floats"
        data.mkdir()
        for part in ("train", "test"):
            for name, shape, kind, each in (("x", (samples, 28, 28, 1), "<f4", 784 * 4), ("y", (samples,), "<i4", 4)):
                file = data / f"{name}_{part}.npy"
                npy(file, shape, kind, b"")
                os.truncate(file, file.stat().st_size + samples * each)
        return data

    def put(self, name, content):
        """Writes a file of text, or of JSON. Returns its path."""
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)
