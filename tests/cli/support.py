"""What the tests of the command line share."""
import json
import os
import pathlib
import signal
import struct
import tempfile
import unittest

# A shell without job control has its background jobs ignore Ctrl-C, and programs inherit that: a command that a test
# interrupts would go on to its end. What has a handler here has the default action in a program that starts from here.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Options for trainings that are not about steps as one launch: such a step is a program of its own, which compiles ten
# times as long.
APART = ["--disable-paths", "one launch"]


def synchronized_model():
    """As Keras's to_json() has it: statistics of the global batch in front of weights and behind them."""
    return sequential("synchronized", [("Flatten", {}), ("Dense", {"units": 12, "activation": "tanh"}),
                                       ("BatchNormalization", {"synchronized": True}), ("Dense", {"units": 10, "activation": "softmax"})])


def sequential(name, layers):
    """Layers behind an image of 28 x 28, as Keras's to_json() has them."""
    layers = [("InputLayer", {"batch_shape": [None, 28, 28, 1]}), *layers]
    return {"class_name": "Sequential", "config": {"name": name, "layers": [
        {"class_name": kind, "config": {"name": f"{kind.lower()}_{i}"} | config} for i, (kind, config) in enumerate(layers)]}}


def put_least(folder):
    """The least model that has weights, in a file of `folder`; its path."""
    path = pathlib.Path(folder) / "least.json"
    path.write_text(json.dumps(sequential("least", [("Flatten", {}), ("Dense", {"units": 10, "activation": "softmax"})])))
    return str(path)


def npy(path, shape, dtype, data):
    """A NumPy file of these bytes."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def borrow_cache(folder):
    """A folder for CLIQUE_CACHE_DIR in `folder`: it has the other tests' built kernels, and keeps choices of its own."""
    cache = folder / "cache"
    cache.mkdir()
    for kept in pathlib.Path(os.environ["CLIQUE_CACHE_DIR"]).glob("*"):
        if kept.name not in ("choices", "devices"):
            (cache / kept.name).symlink_to(kept)
    return cache


def unoptimized():
    """The environment of commands whose kernels are compiled without optimization, and kept apart, as those of the tests in
    `unoptimized_tests` (cmake/tests.cmake) are: for what compiles much and computes little."""
    cache = os.environ.get("CLIQUE_CACHE_DIR")
    return {"CLQ_TEST_UNOPTIMIZED": "1"} | ({"CLIQUE_CACHE_DIR": f"{cache}-unoptimized"} if cache else {})


class InFolder(unittest.TestCase):
    """Each test has a folder of its own, which goes with it."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def put_floats(self, samples):
        """A set of float32 samples of 28 x 28, all zeros, in files that take no space; its folder."""
        data = self.folder / "floats"
        data.mkdir()
        for part in ("train", "test"):
            for name, shape, kind, each in (("x", (samples, 28, 28, 1), "<f4", 784 * 4), ("y", (samples,), "<i4", 4)):
                file = data / f"{name}_{part}.npy"
                npy(file, shape, kind, b"")
                os.truncate(file, file.stat().st_size + samples * each)
        return data

    def put(self, name, content):
        """A file of text, or of JSON; its path."""
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)
