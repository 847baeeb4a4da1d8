"""What the tests of the command line share."""
import json
import pathlib
import tempfile
import unittest


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
