"""Collectives compared with NumPy."""

import numpy as np
import pytest

import clique_opencl as clique
from clique_opencl import _library

SPECS = ["pocl:0,pocl:1,pocl:2", "pocl:5/2,pocl:0"]
TYPES = ["float32", "float64", "int8", "int32", "int64", "uint8", "uint16", "uint64"]


@pytest.fixture(scope="module", params=SPECS)
def group(request):
    with clique.Group(request.param) as made:
        yield made


def draw(group, dtype, shape=(6, 35)):
    rng = np.random.default_rng(7)
    return [rng.integers(0, 5, shape).astype(dtype) for _ in range(len(group))]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
def test_all_reduce(group, dtype, op):
    arrays = draw(group, dtype)
    expected = getattr(np, op)(arrays, axis=0).astype(dtype)
    results = group.all_reduce(arrays, op)
    assert len(results) == len(group)
    for one in results:
        assert one.dtype == arrays[0].dtype
        np.testing.assert_array_equal(one, expected)


def test_averages(group):
    arrays = draw(group, "float32")
    for one in group.all_reduce(arrays, "avg"):
        np.testing.assert_allclose(one, np.mean(arrays, axis=0), rtol=1e-6)


def test_the_others(group):
    arrays = draw(group, "int32")
    total = np.sum(arrays, axis=0)
    np.testing.assert_array_equal(group.reduce(arrays, root=1), total)
    gathered = np.concatenate(arrays)
    for one in group.all_gather(arrays):
        np.testing.assert_array_equal(one, gathered)
    for one in group.broadcast(arrays[2], root=2):
        np.testing.assert_array_equal(one, arrays[2])
    np.testing.assert_array_equal(group.send_recv(arrays[0], 0, len(group) - 1), arrays[0])
    long = [np.concatenate([one] * len(group)) for one in arrays]
    parts = group.reduce_scatter(long)
    np.testing.assert_array_equal(np.concatenate(parts), np.sum(long, axis=0))
    group.barrier()
    assert "ranks" in group.explain()


def test_sizes_and_layouts(group):
    for shape in [(0,), (), (1,), (100003,)]:
        arrays = [np.full(shape, r + 1, np.float32) for r in range(len(group))]
        for one in group.all_reduce(arrays):
            assert one.shape == shape
            np.testing.assert_array_equal(one, np.full(shape, sum(range(1, len(group) + 1)), np.float32))
    turned = [np.asfortranarray(one).T for one in draw(group, "float32")]
    np.testing.assert_array_equal(group.all_reduce(turned)[0], np.sum(turned, axis=0))


def test_refusals(group):
    arrays = draw(group, "float32")
    with pytest.raises(clique.ArgumentError, match=f"each of the {len(group)} ranks, not 1"):
        group.all_reduce(arrays[:1])
    with pytest.raises(clique.ArgumentError, match="one shape and type"):
        group.all_reduce([*arrays[:-1], arrays[-1][:2]])
    with pytest.raises(ValueError, match="op='mean': expected one of sum, prod, min, max, avg"):
        group.all_reduce(arrays, "mean")
    with pytest.raises(clique.ArgumentError, match="complex64"):
        group.all_reduce([one.astype("complex64") for one in arrays])
    with pytest.raises(clique.ArgumentError, match="root=9"):
        group.reduce(arrays, root=9)
    with pytest.raises(clique.ArgumentError, match="do not divide"):
        group.reduce_scatter([one[:5] for one in arrays])


def test_memory_that_is_refused(group, monkeypatch):
    """The allocation fails at a later rank: the group keeps no memory of it, and the next call has all memory that it
    needs."""
    arrays = draw(group, "float32", (6, 3500))
    real, calls = _library.library.group_alloc, []

    def refuse(pointer, rank, size, out):
        calls.append(rank)
        if rank == 1:
            raise clique.MemoryFullError("refused")
        return real(pointer, rank, size, out)

    monkeypatch.setitem(_library.library.__dict__, "group_alloc", refuse)
    with pytest.raises(clique.MemoryFullError, match="refused"):
        group.all_reduce([np.concatenate([one] * 40) for one in arrays])
    monkeypatch.undo()
    assert calls == [0, 1]
    for one in group.all_reduce(arrays):
        np.testing.assert_array_equal(one, np.sum(arrays, axis=0))


def test_a_group_that_was_aborted():
    with clique.Group("pocl:0,pocl:1") as group:
        group.abort()
        with pytest.raises(clique.AbortedError):
            group.all_reduce([np.ones(3, np.float32)] * 2)


def test_algorithms():
    arrays = [np.arange(1000, dtype=np.float32) * (r + 1) for r in range(3)]
    for algorithm in ["ring", "direct", "reduce-to-one", "doubling", "torus"]:
        with clique.Group([0, 1, 2], algorithm=algorithm) as group:
            np.testing.assert_array_equal(group.all_reduce(arrays)[1], np.sum(arrays, axis=0))
            runs = "ring" if algorithm == "torus" else algorithm  # three ranks do not form a grid
            assert f"any size: {runs}" in group.explain()
    with pytest.raises(clique.ArgumentError, match="algorithm='star'"):
        clique.Group([0, 1], algorithm="star")
