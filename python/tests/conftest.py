"""Tests run against the library that CLIQUE_LIBRARY names, on the devices of the tests."""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]
