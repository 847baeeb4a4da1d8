"""The layers of check.py in numpy: forward keeps what backward needs. `mistakes` makes one of them wrong on purpose.

A layer object is one use of a layer. The uses of a shared layer have separate objects with the same `weights`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import masks

Array = np.ndarray

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


@dataclass
class Moment:
    """The state of a run: training or not, the step (the first is 1), the seed and the numbers of the Dropouts."""

    training: bool = False
    step: int = 1
    seed: int = 0
    numbers: dict[str, int] = field(default_factory=dict)


# ---- layers with one input ---------------------------------------------------------------------------


@dataclass
class Layer:
    config: dict
    moment: Moment
    mistakes: frozenset[str] = frozenset()
    weights: dict[str, Array] = field(default_factory=dict)  # variable -> values, shared with the update
    gradients: dict[str, Array] = field(default_factory=dict)

    def forward(self, *x: Array) -> Array:
        raise NotImplementedError

    def backward(self, dy: Array) -> Array | tuple[Array, ...]:
        """The gradient of the input, or of each of several inputs."""
        raise NotImplementedError

    def activate(self, z: Array) -> Array:
        name = self.config["activation"]
        self.z, self.y = z, softmax(z) if name == "softmax" else ACTIVATIONS[name][0](z)
        return self.y

    def activate_back(self, dy: Array) -> Array:
        if self.config["activation"] == "softmax":
            return self.y * (dy - (dy * self.y).sum(axis=-1, keepdims=True))
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
    """Also Flatten: without a target shape, all axes except the batch become one."""

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        return x.reshape(len(x), *self.config.get("target_shape", (-1,)))

    def backward(self, dy: Array) -> Array:
        return dy.reshape(self.shape)


class Windows(Layer):
    """The shared part of convolution and pooling: for each tap of the window, a strided view of the padded input."""

    def place(self, x: Array, size: tuple[int, int], fill: float) -> list[tuple[slice, ...]]:
        self.pads = []  # for height and width
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
        self.winner = stack.argmax(axis=0)  # the first of equal values, in row-major order
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


class GlobalAveragePooling2D(Layer):
    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        return x.sum(axis=(1, 2)) / self.count()

    def backward(self, dy: Array) -> Array:
        return np.broadcast_to((dy / self.count())[:, None, None, :], self.shape)

    def count(self) -> int:
        return 1 if "global pool adds" in self.mistakes else self.shape[1] * self.shape[2]


class BatchNormalization(Layer):
    """Normalises over all axes except the last: with the batch's statistics in training, else with the moving
    statistics."""

    def forward(self, x: Array) -> Array:
        w, axes = self.weights, tuple(range(x.ndim - 1))
        self.batch_statistics = self.moment.training and "moving statistics in training" not in self.mistakes
        mean, variance, count = w["moving_mean"], w["moving_variance"], x.size / x.shape[-1]
        if self.moment.training:
            mean, variance = x.mean(axis=axes), x.var(axis=axes)
            if "variance by n - 1" in self.mistakes:
                variance = variance * (count / (count - 1))
            moving = variance
            if "moving variance by n - 1" in self.mistakes:
                moving = variance * (count / (count - 1))
            used = w["moving_mean"].copy(), w["moving_variance"].copy()
            self.move(w["moving_mean"], mean)
            self.move(w["moving_variance"], moving)
            if not self.batch_statistics:
                mean, variance = used
        epsilon = self.config["epsilon"]
        outside = "epsilon outside the root" in self.mistakes
        self.scale = 1 / (np.sqrt(variance) + epsilon if outside else np.sqrt(variance + epsilon))
        self.unit = (x - mean) * self.scale
        y = self.unit * w["gamma"] if "gamma" in w and "gamma ignored" not in self.mistakes else self.unit
        return y + w["beta"] if "beta" in w else y

    def move(self, moving: Array, batch: Array) -> None:
        keep = self.config["momentum"]
        if "momentum swapped" in self.mistakes:
            keep = 1 - keep
        moving *= keep
        moving += (1 - keep) * batch

    def backward(self, dy: Array) -> Array:
        axes = tuple(range(dy.ndim - 1))
        if "beta" in self.weights:
            self.gradients["beta"] = dy.sum(axis=axes)
        if "gamma" in self.weights:
            self.gradients["gamma"] = (dy * self.unit).sum(axis=axes)
            dy = dy * self.weights["gamma"]
        if self.batch_statistics and "statistics without a gradient" not in self.mistakes:
            dy = dy - dy.mean(axis=axes) - self.unit * (dy * self.unit).mean(axis=axes)
        return dy * self.scale


class Dropout(Layer):
    def forward(self, x: Array) -> Array:
        self.factors = np.ones_like(x)
        if self.moment.training:
            rate, step = self.config["rate"], self.moment.step
            rows = np.arange(len(x))
            if "one mask for all steps" in self.mistakes:
                step = 1
            if "one mask for all rows" in self.mistakes:
                rows = rows * 0
            number = (
                0 if "one mask for all layers" in self.mistakes else self.moment.numbers[self.config["name"]]
            )
            self.factors = masks.factors(rate, self.moment.seed, number, step, rows, x.shape[1:]).astype(
                x.dtype
            )
            if "dropout without its scale" in self.mistakes:
                self.factors *= 1 - rate
        return x * self.factors

    def backward(self, dy: Array) -> Array:
        return dy * self.factors


# ---- layers with several inputs ----------------------------------------------------------------------


class Add(Layer):
    def forward(self, *x: Array) -> Array:
        self.count = len(x)
        return np.add.reduce(x)

    def backward(self, dy: Array) -> tuple[Array, ...]:
        return (dy,) * self.count


class Average(Add):
    def forward(self, *x: Array) -> Array:
        return super().forward(*x) / self.divisor()

    def backward(self, dy: Array) -> tuple[Array, ...]:
        return super().backward(dy / self.divisor())

    def divisor(self) -> int:
        return 1 if "average adds" in self.mistakes else self.count


class Subtract(Layer):
    def forward(self, *x: Array) -> Array:
        return x[0] - x[1]

    def backward(self, dy: Array) -> tuple[Array, ...]:
        return dy, dy if "subtrahend's gradient not negated" in self.mistakes else -dy


class Multiply(Layer):
    def forward(self, *x: Array) -> Array:
        self.x = x
        return np.multiply.reduce(x)

    def backward(self, dy: Array) -> tuple[Array, ...]:
        others = ([*self.x[:i], *self.x[i + 1 :]] for i in range(len(self.x)))
        return tuple(dy * np.multiply.reduce(o) for o in others)


class Maximum(Layer):
    """The gradient goes to the first of equal inputs."""

    def forward(self, *x: Array) -> Array:
        stack = np.stack(x)
        self.winner, self.count = stack.argmax(axis=0), len(x)
        return stack.max(axis=0)

    def backward(self, dy: Array) -> tuple[Array, ...]:
        if "maximum's gradient to all" in self.mistakes:
            return (dy,) * self.count
        return tuple(dy * (self.winner == i) for i in range(self.count))


class Concatenate(Layer):
    def forward(self, *x: Array) -> Array:
        self.axis = self.config["axis"]
        self.ends = np.cumsum([one.shape[self.axis] for one in x])
        return np.concatenate(x, axis=self.axis)

    def backward(self, dy: Array) -> tuple[Array, ...]:
        ends = self.ends[:-1]
        if "concatenate's gradients shifted" in self.mistakes:
            dy = np.roll(dy, 1, axis=self.axis)
        return tuple(np.split(dy, ends, axis=self.axis))


KINDS = {kind.__name__: kind for kind in (
    Dense, Conv2D, MaxPooling2D, AveragePooling2D, Reshape, Activation, GlobalAveragePooling2D, BatchNormalization,
    Dropout, Add, Average, Subtract, Multiply, Maximum, Concatenate)} | {"Flatten": Reshape}  # fmt: skip
