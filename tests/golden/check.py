"""Recompute the reference traces with numpy alone, from the files a test reads.

    python check.py                 recompute every case in float64; exit 1 unless it agrees to 1e-10
    python check.py --tables        and print what README.md shows: rounding, and what mistakes cost

Nothing is shared with generate.py: model, weights, data and options come from the case's folder, and
layers, losses and updates are written out here. `mistakes` turns one of them wrong on purpose.
"""

from __future__ import annotations

import argparse
import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

Array = np.ndarray
AGREE = 1e-10

# name: (f(x), derivative from x and y = f(x))
ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array, Array], Array]]] = {
    "linear": (lambda x: x, lambda x, y: np.ones_like(x)),
    "relu": (lambda x: np.maximum(x, 0), lambda x, y: (x > 0).astype(x.dtype)),
    "tanh": (np.tanh, lambda x, y: 1 - y * y),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y)),
}


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# ---- layers: forward(x) keeps what backward(dy) needs ----------------------------------------------


@dataclass
class Layer:
    config: dict
    mistakes: frozenset[str] = frozenset()
    weights: dict[str, Array] = field(default_factory=dict)  # variable -> values, shared with the update
    gradients: dict[str, Array] = field(default_factory=dict)

    def forward(self, x: Array) -> Array:
        raise NotImplementedError

    def backward(self, dy: Array) -> Array:
        raise NotImplementedError

    def activate(self, z: Array) -> Array:
        self.z, self.y = z, ACTIVATIONS[self.config["activation"]][0](z)
        return self.y

    def activate_back(self, dy: Array) -> Array:
        return dy * ACTIVATIONS[self.config["activation"]][1](self.z, self.y)

    def add_bias(self, z: Array) -> Array:
        if "bias" not in self.weights or "bias ignored" in self.mistakes:
            return z
        return z + self.weights["bias"]

    def bias_back(self, dz: Array) -> None:
        if "bias" in self.weights:
            used = "bias ignored" not in self.mistakes
            self.gradients["bias"] = dz.reshape(-1, dz.shape[-1]).sum(axis=0) * used


class Activation(Layer):
    def forward(self, x: Array) -> Array:
        return self.activate(x)

    def backward(self, dy: Array) -> Array:
        return dy if "slopes of layers left out" in self.mistakes else self.activate_back(dy)


class Dense(Layer):
    def forward(self, x: Array) -> Array:
        self.x = x  # (b, in)
        return self.activate(self.add_bias(x @ self.weights["kernel"]))

    def backward(self, dy: Array) -> Array:
        dz = self.activate_back(dy)
        self.bias_back(dz)
        self.gradients["kernel"] = self.x.T @ dz
        return dz @ self.weights["kernel"].T


class Reshape(Layer):
    """Flatten, too: the target is whatever is left."""

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        return x.reshape(len(x), *self.config.get("target_shape", (-1,)))

    def backward(self, dy: Array) -> Array:
        return dy.reshape(self.shape)


class Windows(Layer):
    """What convolution and pooling share: one strided view of the padded input per tap of the window."""

    def place(self, x: Array, size: tuple[int, int], fill: float) -> list[tuple[slice, ...]]:
        self.pads = []  # of height and width
        along = []  # per axis, the slice of each tap
        dilations = self.config.get("dilation_rate", (1, 1))
        for n, k, s, d in zip(x.shape[1:3], size, self.config["strides"], dilations, strict=True):
            reach, total = d * (k - 1) + 1, 0
            if self.config["padding"] == "same":
                out = -(-n // s)
                total = max((out - 1) * s + reach - n, 0)
            else:
                out = (n - reach) // s + 1
            before = (total + 1) // 2 if "same pads first" in self.mistakes else total // 2
            self.pads.append((before, total - before))
            along.append([slice(t * d, t * d + (out - 1) * s + 1, s) for t in range(k)])
        around = [(0, 0), *self.pads, (0, 0)]
        self.xp = np.pad(x, around, constant_values=fill)
        self.inside = np.pad(np.ones((1, *x.shape[1:3], 1), x.dtype), around)
        return [(slice(None), row, column) for row in along[0] for column in along[1]]

    def crop(self, dxp: Array) -> Array:
        (top, bottom), (left, right) = self.pads
        return dxp[:, top : dxp.shape[1] - bottom, left : dxp.shape[2] - right]


class Conv2D(Windows):
    def forward(self, x: Array) -> Array:
        kernel = self.weights["kernel"]  # (h, w, in, out)
        self.taps = self.place(x, kernel.shape[:2], 0.0)
        taps = zip(self.taps, kernel.reshape(-1, *kernel.shape[2:]), strict=True)
        return self.activate(self.add_bias(sum(self.xp[t] @ w for t, w in taps)))

    def backward(self, dy: Array) -> Array:
        kernel, dz, dxp = self.weights["kernel"], self.activate_back(dy), np.zeros_like(self.xp)
        self.bias_back(dz)
        dkernel = []
        for t, w in zip(self.taps, kernel.reshape(-1, *kernel.shape[2:]), strict=True):
            dxp[t] += dz @ w.T
            dkernel.append(np.tensordot(self.xp[t], dz, axes=((0, 1, 2), (0, 1, 2))))
        self.gradients["kernel"] = np.reshape(dkernel, kernel.shape)
        return self.crop(dxp)


class MaxPooling2D(Windows):
    def forward(self, x: Array) -> Array:
        fill = 0.0 if "max pool pads with 0" in self.mistakes else -np.inf
        self.taps = self.place(x, self.config["pool_size"], fill)
        stack = np.stack([self.xp[t] for t in self.taps])
        self.winner = stack.argmax(axis=0)  # the first of equal values, row by row
        if "max pool: last of equals" in self.mistakes:
            self.winner = len(stack) - 1 - stack[::-1].argmax(axis=0)
        return stack.max(axis=0)

    def backward(self, dy: Array) -> Array:
        dxp = np.zeros_like(self.xp)
        for i, t in enumerate(self.taps):
            dxp[t] += dy * (self.winner == i)
        return self.crop(dxp)


class AveragePooling2D(Windows):
    def forward(self, x: Array) -> Array:
        self.taps = self.place(x, self.config["pool_size"], 0.0)
        everything = np.ones_like(self.inside) if "average counts padding" in self.mistakes else self.inside
        self.count = sum(everything[t] for t in self.taps)
        return np.add.reduce([self.xp[t] for t in self.taps]) / self.count

    def backward(self, dy: Array) -> Array:
        dxp = np.zeros_like(self.xp)
        for t in self.taps:
            dxp[t] += dy / self.count
        return self.crop(dxp)


KINDS = {"Dense": Dense, "Conv2D": Conv2D, "MaxPooling2D": MaxPooling2D, "AveragePooling2D": AveragePooling2D,
         "Flatten": Reshape, "Reshape": Reshape, "Activation": Activation}  # fmt: skip


# ---- a case from its folder ------------------------------------------------------------------------


def read_safetensors(path: Path) -> dict[str, Array]:
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    tensors = {}
    for name, t in json.loads(raw[8 : 8 + length]).items():
        first, last = (8 + length + o for o in t["data_offsets"])
        tensors[name] = np.frombuffer(raw[first:last], "<f4").reshape(t["shape"])
    return tensors


def parse_spec(text: str) -> tuple[str, dict[str, float]]:
    """`adam:lr=0.1,beta1=0.8` -> the name, and the numbers by key."""
    name, _, pairs = text.partition(":")
    return name, {k: float(v) for k, v in (p.split("=") for p in pairs.split(",") if p)}


class Options:
    """The options of `clique train` that a case uses."""

    def __init__(self, args: list[str]):
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch", type=int)
        parser.add_argument("--steps", type=int)
        parser.add_argument("--optimizer", type=parse_spec)
        parser.add_argument("--loss", type=parse_spec)
        parser.add_argument("--shuffle", choices=["off"])
        parser.add_argument("--drop-remainder", action="store_true")
        parser.add_argument("--no-test", action="store_true")
        known = parser.parse_args(args)
        self.batch: int = known.batch
        self.steps: int = known.steps
        self.drop_remainder: bool = known.drop_remainder
        self.optimizer, self.optimizer_keys = known.optimizer
        self.loss, self.loss_keys = known.loss


class Run:
    """A case's training run in `dtype`."""

    def __init__(self, folder: Path, dtype: str = "float64", *mistakes: str):
        self.case = json.loads((folder / "case.json").read_text())
        self.options, self.mistakes = Options(self.case["args"]), frozenset(mistakes)
        x = np.load(folder / "x_train.npy")
        if x.dtype == np.uint8:
            x = x.astype(np.float32) * np.float32(1 / 255)
        self.x, self.y = x.astype(dtype), np.load(folder / "y_train.npy")
        stored = read_safetensors(folder / "init.safetensors")
        weights = {k: w.astype(dtype) for k, w in stored.items()}
        self.layers = self.read_model(json.loads((folder / "model.json").read_text()), weights)
        self.m = {k: np.zeros_like(w) for k, w in weights.items()}
        self.v = {k: np.zeros_like(w) for k, w in weights.items()}
        self.loss: list[float] = []
        self.grad_norm: list[float] = []
        self.first_grad_norms: dict[str, float] = {}

    def read_model(self, model: dict, weights: dict[str, Array]) -> list[Layer]:
        """The chain of layers, its softmax taken off: the loss starts from what lies before it."""
        layers, self.ends_in_softmax = [], False
        for entry in model["config"]["layers"]:
            kind, config = entry["class_name"], entry["config"]
            if kind == "InputLayer":
                continue
            if kind == "Softmax":
                self.ends_in_softmax = True
                continue
            if config.get("activation") == "softmax":
                self.ends_in_softmax, config = True, {**config, "activation": "linear"}
            own = {k.split("/")[1]: w for k, w in weights.items() if k.split("/")[0] == config["name"]}
            layers.append(KINDS[kind](config, self.mistakes, own))
        return layers

    def forward(self, x: Array) -> Array:
        for one in self.layers:
            x = one.forward(x)
        return x

    def targets(self, y: Array, classes: int) -> Array:
        assert self.options.loss == ("sparse_" if y.ndim == 1 else "") + "categorical_crossentropy"
        assert self.ends_in_softmax != bool(self.options.loss_keys.get("from_logits", 0))
        rows = np.eye(classes)[y] if y.ndim == 1 else y.astype(np.float64)
        s = self.options.loss_keys.get("label_smoothing", 0.0)
        s = 0.0 if "no label smoothing" in self.mistakes else s
        return (rows * (1 - s) + s / classes).astype(self.x.dtype)

    def step(self, part: slice, t: int) -> None:
        z = self.forward(self.x[part])
        y = self.targets(self.y[part], z.shape[-1])
        shifted = z - z.max(axis=-1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        self.loss.append(float(-(y * log_p).sum() / len(z)))
        count = self.options.batch if "ragged batch divided by full" in self.mistakes else len(z)
        dy = (np.exp(log_p) - y) / count
        for one in reversed(self.layers):
            dy = one.backward(dy)
        norms = {}
        for one in self.layers:
            for k, g in one.gradients.items():
                name = f"{one.config['name']}/{k}"
                norms[name] = float(np.linalg.norm(g.astype(np.float64)))
                one.weights[k] -= self.change(name, g, t)
        self.grad_norm.append(math.sqrt(sum(n * n for n in norms.values())))
        self.first_grad_norms = self.first_grad_norms or norms

    def change(self, name: str, g: Array, t: int) -> Array:
        """What an update takes away from a variable."""
        m, v, keys = self.m, self.v, self.options.optimizer_keys
        if self.options.optimizer == "sgd":
            lr, mu = keys.get("lr", 0.01), keys.get("momentum", 0.0)
            m[name] = mu * m[name] - lr * g
            nesterov = keys.get("nesterov") and "plain momentum" not in self.mistakes
            return lr * g - mu * m[name] if nesterov or "nesterov instead" in self.mistakes else -m[name]
        lr, eps = keys.get("lr", 1e-3), keys.get("epsilon", 1e-7)
        b1, b2 = keys.get("beta1", 0.9), keys.get("beta2", 0.999)
        m[name] = b1 * m[name] + (1 - b1) * g
        v[name] = b2 * v[name] + (1 - b2) * g * g
        c1, c2 = 1 - b1**t, 1 - b2**t
        if "no bias correction" in self.mistakes:
            c1 = c2 = 1.0
        if "epsilon inside the root" in self.mistakes:
            return lr * math.sqrt(c2) / c1 * m[name] / np.sqrt(v[name] + eps)
        if "epsilon not scaled by sqrt(1-b2^t)" in self.mistakes:
            return lr / c1 * m[name] / (np.sqrt(v[name] / c2) + eps)
        return lr * math.sqrt(c2) / c1 * m[name] / (np.sqrt(v[name]) + eps)

    def train(self) -> Run:
        first = self.forward(self.x)
        labels = self.y if self.y.ndim == 1 else self.y.argmax(axis=1)
        self.accuracy = float(np.mean(first.argmax(axis=1) == labels))
        self.predictions = (softmax(first) if self.ends_in_softmax else first)[:4]
        batch, count = self.options.batch, len(self.x)
        per_epoch = count // batch if self.options.drop_remainder else math.ceil(count / batch)
        for t in range(self.options.steps):
            at = t % per_epoch * batch
            self.step(slice(at, at + batch), t + 1)  # the slice ends with the data
        return self


def away(found: ArrayLike, expected: ArrayLike) -> float:
    """The largest relative difference."""
    return float(np.max(np.abs(np.asarray(found) / np.asarray(expected) - 1)))


def away_norms(run: Run) -> float:
    """The same for the first step's gradients, variable by variable."""
    expected = run.case["first_grad_norms"]
    assert set(run.first_grad_norms) == set(expected)
    return max(away(n, expected[k]) for k, n in run.first_grad_norms.items())


def check(folder: Path) -> bool:
    run = Run(folder).train()
    case = run.case
    parts = {
        "loss": away(run.loss, case["loss"]),
        "grad_norm": away(run.grad_norm, case["grad_norm"]),
        "first_grad_norms": away_norms(run),
        "predictions": away(run.predictions, case["predictions_first4"]),
        "accuracy": abs(run.accuracy - case["accuracy_initial"]),
    }
    good = max(parts.values()) < AGREE
    print("ok  " if good else "BAD ", folder.name, *(f"{k} {v:.0e}" for k, v in parts.items()), sep="  ")
    return good


# ---- the tables of README.md -----------------------------------------------------------------------

MISTAKES = (
    ("mlp_adam_probs", "epsilon inside the root"),
    ("mlp_adam_probs", "epsilon not scaled by sqrt(1-b2^t)"),
    ("mlp_adam_probs", "no bias correction"),
    ("mlp_adam_probs", "bias ignored"),
    ("adam_options", "epsilon inside the root"),
    ("adam_options", "epsilon not scaled by sqrt(1-b2^t)"),
    ("mlp_sgd_nesterov_logits", "plain momentum"),
    ("mlp_sgd_nesterov_logits", "ragged batch divided by full"),
    ("cnn_sgd_nesterov_ragged", "plain momentum"),
    ("cnn_sgd_nesterov_ragged", "ragged batch divided by full"),
    ("cnn_sgd_nesterov_ragged", "bias ignored"),
    ("cnn_sgd_nesterov_ragged", "max pool: last of equals"),
    ("cnn_adam_logits", "epsilon inside the root"),
    ("cnn_adam_logits", "bias ignored"),
    ("soft_labels", "no label smoothing"),
    ("conv_variants", "same pads first"),
    ("conv_variants", "average counts padding"),
    ("conv_variants", "nesterov instead"),
    ("functional_chain", "same pads first"),
    ("functional_chain", "max pool pads with 0"),
    ("lenet_chains", "slopes of layers left out"),
    ("lenet_chains", "bias ignored"),
)


def tables(folders: list[Path]) -> None:
    print("\n| case | tolerance: loss, norm | Keras, float32 | numpy, float32 | jittered, float64 "
          "| Keras's optimizer, float64 | and float32 |\n" + "|---" * 7 + "|")  # fmt: skip
    for folder in folders:
        case = json.loads((folder / "case.json").read_text())
        own = Run(folder, "float32").train()
        numpy32 = {k: away(getattr(own, k), case[k]) for k in ("loss", "grad_norm")}
        columns = [case["deviation"][k] for k in case["deviation"]]
        columns.insert(1, numpy32)
        shown = (f"{d['loss']:.1e}, {d['grad_norm']:.1e}" for d in (case["tolerance"], *columns))
        print("|", " | ".join((folder.name, *shown)), "|")
    print("\n| case | mistake | moves the loss by | times tolerance | the first step's norms by "
          "| every step's norm by |\n" + "|---" * 6 + "|")  # fmt: skip
    for name, mistake in MISTAKES:
        for folder in (f for f in folders if f.name == name):
            r = Run(folder, "float64", mistake).train()
            loss, every = away(r.loss, r.case["loss"]), away(r.grad_norm, r.case["grad_norm"])
            times = loss / r.case["tolerance"]["loss"]
            print(f"| {name} | {mistake} | {loss:.1e} | {times:.0f} | {away_norms(r):.1e} | {every:.1e} |")


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--cases", type=Path, default=Path(__file__).parent, help="the folder of the cases")
    parser.add_argument("--tables", action="store_true", help="print the tables of README.md, too")
    options = parser.parse_args()
    folders = sorted(f.parent for f in options.cases.glob("*/case.json"))
    good = all([check(f) for f in folders])
    if options.tables:
        tables(folders)
    return 0 if good and folders else 1


if __name__ == "__main__":
    raise SystemExit(main())
