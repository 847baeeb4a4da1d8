"""Loads with Keras the files that `clique plan --write-model` writes, and compares each model with its original.

    python written.py CLIQUE                     the models of single_layers.json, and all model.json of this folder
    python written.py CLIQUE FILE.json[.gz] …    these files; what a file leaves open becomes 32

Both models get the same weights, by the names of their variables, and the same samples. They must have the same number
of parameters, and the same predictions in float64, to 1e-10 of the largest number. The models of single_layers.json
must give the predictions of that file, to 1e-6. Models that Clique refuses to read are reported, and do not count as
failures. Needs Keras, and keras_hub for its models. CI does not run this script.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "numpy"

import keras
import numpy as np

AGREE = 1e-10
HUB = 1e-5  # for keras_hub, in float32
ROUNDED = 1e-6  # for the predictions in single_layers.json
OPEN = 32
HERE = Path(__file__).parent


def load(text: str) -> keras.Model:
    """Loads in float64, whatever type the file has, except for keras_hub: its layers would mix types."""
    hub = "keras_hub" in text
    if hub:
        importlib.import_module("keras_hub")
    keras.config.set_floatx("float32" if hub else "float64")
    return keras.models.model_from_json(text if hub else text.replace('"float32"', '"float64"'))


def close_sizes(node: Any) -> None:
    """Replaces the open sizes of inputs and built shapes by OPEN."""
    if isinstance(node, dict):
        if "batch_shape" in node and node["batch_shape"]:
            node["batch_shape"] = [None] + [OPEN if d is None else d for d in node["batch_shape"][1:]]
        if "build_config" in node:
            node["build_config"] = None
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        close_sizes(child)


def variables(model: keras.Model, prefix: str = "") -> Iterator[tuple[str, keras.Variable]]:
    """Variables by dotted names: the names of outer models, of the layer, and their own."""
    for layer in model.layers:
        if hasattr(layer, "layers") and not isinstance(layer, keras.layers.Wrapper) and isinstance(layer, keras.Model):
            yield from variables(layer, f"{prefix}{layer.name}.")
            continue
        for v in layer.weights:
            parts = v.path.split("/")
            parts = parts[parts.index(layer.name) + 1 :] if layer.name in parts else parts[-1:]
            yield ".".join([f"{prefix}{layer.name}", *(p for p in parts if not p.endswith("_cell"))]), v


def apply(model: keras.Model, x: list[np.ndarray]) -> Any:
    """Calls the model, with inputs in the order of their names if it has them by name."""
    struct = getattr(model, "_inputs_struct", model.inputs[0])
    return model(keras.tree.pack_sequence_as(struct, x), training=False)


def samples(model: keras.Model, random: np.random.Generator) -> list[np.ndarray]:
    """Small whole numbers if a layer takes tokens; they suit other layers, too."""
    text = model.to_json()
    tokens = "Embedding" in text or "CategoryEncoding" in text or "ContentAndQuery" in text
    made = []
    for x in keras.tree.flatten(getattr(model, "_inputs_struct", model.inputs)):
        shape = (2, *(OPEN if d is None else d for d in x.shape[1:]))
        made.append(random.integers(0, 2, shape).astype(float) if tokens else random.normal(size=shape))
    return made


def largest_difference(a: Any, b: Any) -> float:
    a, b = ([np.asarray(v, float) for v in keras.tree.flatten(t)] for t in (a, b))
    assert len(a) == len(b), f"{len(a)} outputs and {len(b)}"
    return max(np.max(np.abs(x.ravel() - y.ravel())) / max(1.0, np.max(np.abs(x))) for x, y in zip(a, b, strict=True))


def compare(original: keras.Model, written: keras.Model) -> float:
    random = np.random.default_rng(1)
    assert original.count_params() == written.count_params(), (
        f"{original.count_params()} parameters became {written.count_params()}")
    known = dict(variables(original))
    for name, v in variables(written):
        assert name in known, f"variable {name} has no counterpart"
        values = random.normal(size=v.shape) * 0.1 if v.dtype.startswith("float") else np.asarray(v)
        if name.endswith("variance"):
            values = np.abs(values) + 1
        v.assign(values)
        known.pop(name).assign(values)
    assert not known, f"{sorted(known)} are gone"
    x = samples(original, random)
    return largest_difference(apply(original, x), apply(written, x))


def check_entry(entry: dict[str, Any], written: keras.Model) -> float:
    """Compares with the results that single_layers.json has for the model."""
    for name, v in variables(written):
        layer, _, what = name.rpartition(".")
        given = next(g for k, g in entry["variables"].items() if k.replace("/", ".") == name)
        v.assign(np.reshape(np.float32(given), v.shape))
    x, at = np.reshape(np.float32(entry["samples"]), (2, -1)), 0
    inputs = []
    for one in written.inputs:
        size = int(np.prod(one.shape[1:]))
        inputs.append(x[:, at : at + size].reshape(2, *one.shape[1:]))
        at += size
    outputs = [np.asarray(o) for o in entry["outputs"]]
    return largest_difference(outputs, apply(written, inputs))


def write(clique: str, text: str, folder: str) -> str:
    source, target = f"{folder}/model.json", f"{folder}/written.json"
    Path(source).write_text(text)
    for more in ([], ["--input-shape", str(OPEN)]):
        result = subprocess.run([clique, "plan", "--model", source, *more, "--write-model", target],
                                capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return Path(target).read_text()
    raise RuntimeError(result.stderr.strip().replace(folder + "/", "")[:160])


def models(paths: list[str]) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    for path in paths or sorted(str(p) for p in HERE.rglob("model.json")):
        opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
        with opened as file:
            yield path, file.read(), None
    if not paths:
        for entry in json.loads((HERE / "single_layers.json").read_text())["models"]:
            yield entry["name"], json.dumps(entry["model"]), entry


def main() -> int:
    clique, counts = sys.argv[1], {"same": 0, "refused": 0, "other": 0}
    for name, text, entry in models(sys.argv[2:]):
        keras.backend.clear_session()
        try:
            with tempfile.TemporaryDirectory() as folder:
                result = write(clique, text, folder)
        except RuntimeError as error:
            counts["refused"] += 1
            print(f"refused  {name}: {error}")
            continue
        try:
            if entry:
                difference, most = check_entry(entry, load(result)), ROUNDED
            else:
                config = json.loads(text)
                close_sizes(config)
                difference, most = compare(load(json.dumps(config)), load(result)), HUB if "keras_hub" in text else AGREE
            assert difference <= most, f"predictions differ by {difference:.3g}"
            counts["same"] += 1
        except Exception as error:  # any exception of Keras counts
            counts["other"] += 1
            print(f"OTHER    {name}: {type(error).__name__}: {str(error)[-400:]}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return counts["other"] > 0


if __name__ == "__main__":
    sys.exit(main())
