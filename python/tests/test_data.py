"""Datasets of arrays."""

import numpy as np
import pytest

import clique_opencl as clique


def test_what_it_has():
    data = clique.Dataset(np.zeros((7, 4, 5), np.uint8), np.arange(7))
    assert (len(data), data.sample_shape, data.is_bytes, data.weighted) == (7, (4, 5), True, False)
    data = clique.Dataset(np.zeros((7, 4), np.float64), np.zeros((7, 2)), np.ones(7))
    assert (data.sample_shape, data.is_bytes, data.weighted) == ((4,), False, True)
    assert len(data.take(3)) == 3
    data = clique.Dataset([np.zeros((7, 4), np.uint8), np.zeros((7, 2, 3), np.float32)], [np.arange(7), np.ones(7)])
    assert (data.sample_shape, data.is_bytes) == ((10,), False)
    assert clique.Dataset(np.zeros(5, np.float32)).sample_shape == (1,)


def test_opened_by_name():
    data = clique.Dataset.open("synthetic:8x8/4/60", "train")
    assert (len(data), data.sample_shape) == (60, (8, 8))
    with pytest.raises(clique.ArgumentError):
        clique.Dataset.open("synthetic", "some")


@pytest.mark.parametrize(
    ("x", "y", "w", "line"),
    [
        (np.zeros((0, 3)), None, None, "at least one sample"),
        (np.float32(3), None, None, "at least one sample"),
        (np.zeros((4, 3)), np.arange(5), None, "y: expected rows of 4 samples"),
        ([np.zeros((4, 3)), np.zeros((5, 3))], None, None, "x: expected rows of 4 samples"),
        (np.zeros((4, 3), "complex64"), None, None, "expected numbers, not complex64"),
        (np.array(["a", "b"]), None, None, "expected numbers"),
        (np.full((2, 1), 2**24 + 1), None, None, "not exact in float32"),
        (np.zeros((2, 1)), np.array([0, 2**40]), None, "does not fit 32 bits"),
        (np.zeros((2, 1)), np.array([0, 1]), [1, 2, 3], "sample_weight"),
        (np.zeros((2, 1)), np.array([0, 1]), [1, -2], "weight"),
        (np.zeros((2, 1)), np.zeros((2, 0), int), None, "y: a sample has no value"),
        (np.zeros((2, 1)), [np.zeros(2, int), np.zeros((2, 0), int)], None, "y: a sample has no value"),
        (np.zeros((2, 0)), np.zeros(2, int), None, "x: a sample has no value"),
        (np.array([[1.0], [np.nan]]), None, None, "must be finite"),
        (np.zeros((2, 1, 1, 1, 1, 1, 1, 1)), None, None, "axes"),
    ],
)
def test_refusals(x, y, w, line):
    with pytest.raises(clique.ArgumentError, match=line):
        clique.Dataset(x, y, w)


def test_the_librarys_copy_is_its_own():
    x = np.ones((3, 8, 8), np.float32)
    data = clique.Dataset(x)
    with clique.Model.from_name("mlp", input_shape=(8, 8), classes=3) as model:
        expected = model.predict(x.copy())
        x[:] = 7
        del x
        np.testing.assert_array_equal(model.predict(data), expected)


def test_labels_are_marked():
    x = np.ones((3, 4), np.float32)
    assert not clique.Dataset(x).labelled and clique.Dataset(x, np.zeros(3, int)).labelled
    assert clique.Dataset(x).label_by_samples().labelled
    assert clique.Dataset.open("synthetic:8x8/4/60").labelled
