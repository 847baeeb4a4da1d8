"""What the tests of the command line share."""
import json
import pathlib
import tempfile
import unittest


def synchronized_model():
    """As Keras's to_json() has it: statistics of the global batch in front of weights and behind them."""
    return sequential("synchronized", [("Flatten", {}), ("Dense", {"units": 12, "activation": "tanh"}),
                                       ("BatchNormalization", {"synchronized": True}), ("Dense", {"units": 10, "activation": "softmax"})])


def sequential(name, layers):
    """Layers behind an image of 28 x 28, as Keras's to_json() has them."""
    layers = [("InputLayer", {"batch_shape": [None, 28, 28, 1]}), *layers]
    return {"class_name": "Sequential", "config": {"name": name, "layers": [
        {"class_name": kind, "config": {"name": f"{kind.lower()}_{i}"} | config} for i, (kind, config) in enumerate(layers)]}}


class InFolder(unittest.TestCase):
    """Each test has a folder of its own, which goes with it."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def put(self, name, content):
        """A file of text, or of JSON; its path."""
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)
