"""Keras's traces in tests/golden, as arrays (tests/golden/README.md describes them)."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np

SOURCE = pathlib.Path(os.environ.get("CLQ_TEST_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
GOLDEN = SOURCE / "tests" / "golden"


def read_safetensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Tensors by name. The file has a length of eight bytes, a header in JSON, and the values."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        assert about["dtype"] == "F32", name
        begin, end = about["data_offsets"]
        values = np.frombuffer(data[8 + length + begin : 8 + length + end], "<f4")
        tensors[name] = values.reshape(about["shape"])
    return tensors


class Case:
    """A recorded run of Keras."""

    def __init__(self, name: str) -> None:
        self.folder = GOLDEN / name
        self.trace = json.loads((self.folder / "case.json").read_text())
        self.model = self.folder / "model.json"
        self.weights = read_safetensors(self.folder / "init.safetensors")
        self.x = self._numbered("x_train")
        self.y = self._numbered("y_train")
        self.options = _options(self.trace["args"])

    def _numbered(self, stem: str) -> list[np.ndarray]:
        arrays = [np.load(self.folder / f"{stem}.npy")]
        while (path := self.folder / f"{stem}_{len(arrays)}.npy").exists():
            arrays.append(np.load(path))
        return arrays

    @property
    def sample_weight(self) -> np.ndarray | None:
        name = self.options.get("sample_weights")
        return np.load(self.folder / name) if name else None

    @property
    def class_weight(self) -> dict[int, float] | None:
        text = self.options.get("class_weights")
        return {int(one.split("=")[0]): float(one.split("=")[1]) for one in text.split(",")} if text else None

    @property
    def losses(self) -> Any:
        """The losses in the form that compile takes."""
        outputs = self.trace.get("outputs")
        return {one["layer"]: one["loss_spec"] for one in outputs} if outputs else self.options["loss"]

    @property
    def loss_weights(self) -> dict[str, float] | None:
        """The weights of the losses, in the form that compile takes."""
        outputs = self.trace.get("outputs")
        return {one["layer"]: one["loss_weight"] for one in outputs} if outputs else None

    @property
    def settings(self) -> dict[str, str]:
        """Keywords of compile, except the optimizer's and the loss's."""
        taken = ("batch", "steps", "shuffle", "no_test", "loss", "metrics", "sample_weights", "class_weights")
        return {key: value for key, value in self.options.items() if key not in (*taken, "drop_remainder", "optimizer")}


def _options(args: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for i, word in enumerate(args):
        if word.startswith("--"):
            has_value = i + 1 < len(args) and not args[i + 1].startswith("--")
            options[word[2:].replace("-", "_")] = args[i + 1] if has_value else "1"
    return options
