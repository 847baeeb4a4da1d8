"""Settings equal the library's table, and `why` equals the command's output."""

import pathlib
import subprocess

import numpy as np
import pytest

import clique_opencl as clique
from clique_opencl import settings


def test_the_table():
    rows = {one.key: one for one in settings.describe()}
    assert len(rows) > 40 and all(one.help and one.group for one in rows.values())
    batch = rows["batch"]
    assert batch.type == "count" and batch.range == (1, 1 << 24) and settings.Use.TRAINER in batch.use
    assert rows["shard-optimizer"].keyword == "shard_optimizer" and rows["shard-optimizer"].type == "flag"
    assert rows["loss"].type == "named" and rows["optimizer"].default == "adam"
    assert rows["precision"].type == "choice" and rows["precision"].choices == ("f32", "mixed", "mixed-bf16")
    assert settings.Use.SYSTEM in rows["memory-limit"].use and settings.Use.FIT in rows["epochs"].use
    assert str(rows["batch"]).startswith("batch N: ")
    for one in settings.describe(settings.Use.TRAINER | settings.Use.SYSTEM):
        assert f"- {one}\n" in clique.Model.compile.__doc__
    with pytest.raises(clique.ArgumentError, match="micro-batches"):
        settings.find("micro_batchs")


def test_each_setting_that_has_a_default_takes_it():
    with settings.Settings() as values:
        for one in settings.describe():
            if one.default is not None:
                values.set(one.keyword, one.default)
            values.set(one.keyword, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "1"),
        (False, "0"),
        (64, "64"),
        (0.5, "0.5"),
        (np.float32(0.25), "0.25"),
        (np.float64(0.99), "0.99"),
        (np.int64(7), "7"),
        ("norm=1", "norm=1"),
        ([3, 1], "3,1"),
        ({0: 1.0, 1: 2.5}, "0=1.0,1=2.5"),
        (pathlib.Path("a/b"), "a/b"),
        (None, None),
    ],
)
def test_values(value, text):
    assert settings.text_of(value) == text


def test_values_that_are_none():
    with pytest.raises(clique.ArgumentError, match="not object"):
        settings.text_of(object())
    with settings.Settings() as values:
        with pytest.raises(clique.ArgumentError, match="batch"):
            values.set("batch", 0)
        with pytest.raises(clique.ArgumentError, match="batch"):
            values.set("batch", "many")
        values.set("optimizer_of", {"dense*": "sgd:lr=0.1", "*/bias": "sgd:lr=0.2"})


def test_options_of_why_that_may_be_repeated(monkeypatch):
    asked = []
    done = type("Done", (), {"returncode": 0, "stdout": "{}"})
    monkeypatch.setattr(subprocess, "run", lambda words, **_: asked.append(words) or done)
    of_parts = ["dense*=sgd", "*bias=adam:lr=0.1"]
    clique.why("mlp", devices=[0, 1], loss={"a": "mse", "b": "mae"}, metrics=["accuracy", "mae"], optimizer_of=of_parts)
    assert asked[0][asked[0].index("mlp") + 1 :] == (
        ["--devices", "0,1", "--loss", "a=mse", "--loss", "b=mae", "--metrics", "accuracy,mae"]
        + ["--optimizer-of", of_parts[0], "--optimizer-of", of_parts[1]]
    )


def test_why():
    with pytest.raises(clique.NoDeviceError):
        clique.why("mlp", devices="nvidia", timeout=60)
    with pytest.raises(clique.ArgumentError, match="shard-optimizer"):
        clique.why("mlp", shard_optimiser=True, timeout=60)
    told = clique.why("mlp", devices="pocl:0", data="synthetic:28x28/10/2000", batch=64, timeout=200)
    assert told["model"] == "mlp" and told["predictions"][0]["images_per_s"] > 0
