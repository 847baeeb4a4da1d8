"""The traced training runs: options, data, models and `CHAINS`, the cases whose models are chains of layers.

branched_cases.py has the others.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import keras
import numpy as np
from keras import layers as kl

from losses import Named
from optimizers import Optimizer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Weights = dict[str, np.ndarray]  # "layer/variable" -> values, Keras's layouts
# Samples (a tuple for several inputs), then the targets of each output.
Data = tuple[np.ndarray | tuple[np.ndarray, ...], ...]

STEPS = 50
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist puts it


# ---- options of a run: each prints as the command line's SPEC, without Keras's defaults -------------


def spec(name: str, options: DataclassInstance, leave_out: str = "") -> str:
    """`name:key=value,...` for a dataclass, without values that equal the defaults."""
    pairs = []
    for f in fields(options):
        value = getattr(options, f.name)
        if value != f.default and f.name != leave_out:
            pairs.append(f"{f.name}={int(value) if isinstance(value, bool) else value}")
    return name + ":" * bool(pairs) + ",".join(pairs)


@dataclass(frozen=True)
class Sgd:
    """m = momentum*m - lr*g; then w += m, or with nesterov w += momentum*m - lr*g."""

    lr: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False

    def spec(self) -> str:
        return spec("sgd", self)

    def args(self) -> list[str]:
        return []

    def keras(self) -> keras.Optimizer:
        return keras.optimizers.SGD(self.lr, momentum=self.momentum, nesterov=self.nesterov)

    def updater(self, weights: Weights) -> Callable[[Weights], None]:
        """A function that updates `weights` in place. Scalars take the arrays' type."""
        m = {k: np.zeros_like(w) for k, w in weights.items()}

        def update(gradients: Weights) -> None:
            for k, g in gradients.items():
                step = self.lr * g
                m[k] = self.momentum * m[k] - step
                weights[k] += self.momentum * m[k] - step if self.nesterov else m[k]

        return update


@dataclass(frozen=True)
class Adam:
    """w -= lr * sqrt(1-b2^t)/(1-b1^t) * m / (sqrt(v) + epsilon)."""

    lr: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-7

    def spec(self) -> str:
        return spec("adam", self)

    def args(self) -> list[str]:
        return []

    def keras(self) -> keras.Optimizer:
        return keras.optimizers.Adam(self.lr, self.beta1, self.beta2, self.epsilon)

    def updater(self, weights: Weights) -> Callable[[Weights], None]:
        m = {k: np.zeros_like(w) for k, w in weights.items()}
        v = {k: np.zeros_like(w) for k, w in weights.items()}
        t = 0

        def update(gradients: Weights) -> None:
            nonlocal t
            t += 1  # the factor below is computed in double, whatever the arrays' type
            alpha = self.lr * math.sqrt(1 - self.beta2**t) / (1 - self.beta1**t)
            for k, g in gradients.items():
                m[k] += (g - m[k]) * (1 - self.beta1)
                v[k] += (g * g - v[k]) * (1 - self.beta2)
                weights[k] -= alpha * m[k] / (np.sqrt(v[k]) + self.epsilon)

        return update


@dataclass(frozen=True)
class CrossEntropy:
    """The loss of integer labels (sparse), or of rows of probabilities."""

    from_logits: bool = False
    label_smoothing: float = 0.0
    sparse: bool = True

    def spec(self) -> str:
        name = "sparse_categorical_crossentropy" if self.sparse else "categorical_crossentropy"
        return spec(name, self, leave_out="sparse")

    def keras(self) -> keras.Loss:
        if self.sparse:
            return keras.losses.SparseCategoricalCrossentropy(from_logits=self.from_logits)
        return keras.losses.CategoricalCrossentropy(
            from_logits=self.from_logits, label_smoothing=self.label_smoothing
        )


@dataclass(frozen=True)
class Difference:
    """The mean of f(e) over a batch's rows and their values, with e = output - target. f is e*e for mean_squared_error
    and |e| for mean_absolute_error. For huber, f is e*e/2 up to delta, and delta*|e| - delta*delta/2 beyond."""

    name: str
    delta: float = 1.0

    def spec(self) -> str:
        return spec(self.name, self, leave_out="name")

    def keras(self) -> keras.Loss:
        if self.name == "huber":
            return keras.losses.Huber(delta=self.delta)
        kinds = {"mean_squared_error": keras.losses.MeanSquaredError,
                 "mean_absolute_error": keras.losses.MeanAbsoluteError}  # fmt: skip
        return kinds[self.name]()


Loss = CrossEntropy | Difference | Named


@dataclass(frozen=True)
class Case:
    """One training run. `build` is called again for each precision. `data` draws from its generator."""

    name: str
    seed: int
    build: Callable[[], keras.Model]
    data: Callable[[np.random.Generator], Data]
    optimizer: Sgd | Adam | Optimizer
    loss: Loss | tuple[Loss, ...]  # several outputs have one loss each
    batch: int = 32
    drop_remainder: bool = False
    tolerance_loss: float = 1e-5
    tolerance_grad_norm: float = 1e-5
    tolerance_final: float = 0.0  # for all variables after the last step; 0: these are not recorded
    loss_weights: tuple[float, ...] = (1.0,)
    group: str = ""  # the folder that contains the case's folder
    class_weights: tuple[float, ...] = ()  # by class
    sample_weights: bool = False  # drawn after the data
    metrics: tuple[str, ...] = ()  # as in --metrics, computed for the initial model
    dropout_seed: int | None = None  # seed of the masks if the model has Dropout
    rescales: bool = False  # the model gets bytes as 0 to 255, and scales them itself
    brief: bool = False  # one jittered run, none with Keras's optimizer; nine digits for final weights and predictions

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self.loss if isinstance(self.loss, tuple) else (self.loss,)

    def args(self) -> list[str]:
        """The options of `clique train`, except model, data, weights, log, and the losses of several outputs."""
        drop = ["--drop-remainder"] if self.drop_remainder else []
        loss = ["--loss", self.loss.spec()] if not isinstance(self.loss, tuple) else []
        weights = ",".join(f"{i}={w:g}" for i, w in enumerate(self.class_weights))
        loss += ["--class-weights", weights] if weights else []
        loss += ["--sample-weights", "w_train.npy"] if self.sample_weights else []
        loss += ["--metrics", ",".join(self.metrics)] if self.metrics else []
        return ["--batch", str(self.batch), "--steps", str(STEPS), "--shuffle", "off", "--no-test", *drop,
                "--optimizer", self.optimizer.spec(), *self.optimizer.args(), *loss]  # fmt: skip


# ---- data ------------------------------------------------------------------------------------------


def fashion(count: int, source: Path = FASHION_MNIST) -> Callable[[np.random.Generator], Data]:
    """`count` training samples of Fashion-MNIST at 14 x 14: the rounded mean of each 2 x 2 block."""

    def read(name: str, header: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress((source / name).read_bytes()), np.uint8, offset=header)

    def draw(rng: np.random.Generator) -> Data:
        labels = read("train-labels-idx1-ubyte.gz", 8)
        images = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 14, 2, 14, 2)
        pick = rng.choice(len(labels), count, replace=False)
        small = np.rint(images[pick].mean(axis=(2, 4))).astype(np.uint8)
        return small[..., None], labels[pick]  # (n, 14, 14, 1), (n)

    return draw


def patterns(count: int, shape: tuple[int, ...], classes: int, noise: float, *, as_float: bool = False,
             soft: bool = False) -> Callable[[np.random.Generator], Data]:  # fmt: skip
    """A random prototype per class plus noise. Soft rows are multiples of 1/64, so they sum to 1 exactly."""

    def draw(rng: np.random.Generator) -> Data:
        prototypes = rng.normal(0.0, 1.0, (classes, *shape))
        y = rng.integers(0, classes, count)
        x = prototypes[y] + rng.normal(0.0, noise, (count, *shape))
        x = x.astype(np.float32) if as_float else np.clip(np.rint(96 + 40 * x), 0, 255).astype(np.uint8)
        if not soft:
            return x, y
        share = 0.5 * np.eye(classes)[y] + 0.5 / classes
        return x, (np.stack([rng.multinomial(64, p) for p in share]) / 64).astype(np.float32)

    return draw


# ---- models ----------------------------------------------------------------------------------------


Make = Callable[[], kl.Layer]  # each model gets new layers, in the current precision
Build = Callable[[], keras.Model]


def sequential(name: str, shape: tuple[int, ...], *stack: Make) -> Build:
    return lambda: keras.Sequential(
        [keras.Input(shape, name="input"), *(make() for make in stack)], name=name
    )


def functional(name: str, shape: tuple[int, ...], *stack: Make) -> Build:
    def build() -> keras.Model:
        first = x = keras.Input(shape, name="image")
        for make in stack:
            x = make()(x)
        return keras.Model(first, x, name=name)

    return build


def dense(units: int, activation: str, name: str, **more: object) -> Make:
    return lambda: kl.Dense(units, activation=activation, name=name, **more)


def conv(filters: int, kernel: int | tuple[int, int], activation: str, name: str, **more: object) -> Make:
    return lambda: kl.Conv2D(filters, kernel, activation=activation, name=name, **more)


def layer(cls: type[kl.Layer], *args: object, **more: object) -> Make:
    return lambda: cls(*args, **more)


SHALLOW_CNN = (
    conv(8, 3, "relu", "conv2d"),  # (b, 12, 12, 8)
    layer(kl.MaxPooling2D, 2, name="max_pooling2d"),
    conv(12, 3, "relu", "conv2d_1", padding="same"),  # (b, 6, 6, 12)
    layer(kl.MaxPooling2D, 2, name="max_pooling2d_1"),
    layer(kl.Flatten, name="flatten"),
)

CHAINS = (
    Case("mlp_adam_probs", 1,
         sequential("mlp", (14, 14, 1), layer(kl.Flatten, name="flatten"), dense(32, "relu", "dense"),
                    dense(10, "softmax", "dense_1")),
         fashion(300), Adam(), CrossEntropy()),
    Case("mlp_sgd_nesterov_logits", 1,
         sequential("logits", (24,), dense(20, "tanh", "hidden"), dense(16, "sigmoid", "hidden_1"),
                    dense(7, "linear", "scores")),
         patterns(131, (24,), 7, 1.5, as_float=True), Sgd(0.1, 0.9, True),
         CrossEntropy(from_logits=True), batch=24, tolerance_final=1e-5),
    Case("cnn_sgd_nesterov_ragged", 4,
         sequential("cnn", (14, 14, 1), *SHALLOW_CNN, dense(10, "softmax", "dense")),
         fashion(150), Sgd(0.01, 0.9, True), CrossEntropy(), tolerance_loss=3e-6, tolerance_final=1e-5),
    Case("cnn_adam_logits", 1,
         sequential("cnn_logits", (14, 14, 1), *SHALLOW_CNN, dense(10, "linear", "dense")),
         fashion(192), Adam(lr=2e-4), CrossEntropy(from_logits=True),
         tolerance_loss=1e-4, tolerance_grad_norm=1e-4),
    Case("soft_labels", 1,
         sequential("soft", (9, 9, 1), layer(kl.Flatten, name="flatten"), dense(24, "relu", "dense"),
                    dense(5, "linear", "dense_1")),
         patterns(200, (9, 9, 1), 5, 1.0, soft=True), Sgd(0.1),
         CrossEntropy(from_logits=True, label_smoothing=0.1, sparse=False), tolerance_final=1e-5),
    Case("conv_variants", 3,
         sequential("variants", (13, 10, 2),
                    conv(6, 3, "linear", "strided", strides=2, padding="same"),  # (b, 7, 5, 6)
                    layer(kl.Activation, "relu", name="activation"),
                    conv(8, (3, 2), "tanh", "dilated", dilation_rate=2, padding="same"),  # (b, 7, 5, 8)
                    layer(kl.AveragePooling2D, 2, padding="same", name="average_same"),  # (b, 4, 3, 8)
                    conv(10, (2, 3), "linear", "even", padding="same", use_bias=False),  # (b, 4, 3, 10)
                    layer(kl.Activation, "sigmoid", name="activation_1"),
                    layer(kl.AveragePooling2D, (2, 3), strides=1, name="average_valid"),  # (b, 3, 1, 10)
                    layer(kl.Reshape, (15, 2), name="reshape"),
                    layer(kl.Flatten, name="flatten"),
                    dense(6, "linear", "dense"),
                    layer(kl.Softmax, name="softmax")),
         patterns(120, (13, 10, 2), 6, 0.7, as_float=True), Sgd(0.05, 0.9), CrossEntropy()),
    Case("adam_options", 1,
         sequential("options", (9, 9, 1), layer(kl.Flatten, name="flatten"), dense(24, "tanh", "dense"),
                    dense(8, "softmax", "dense_1")),
         patterns(150, (9, 9, 1), 8, 1.0), Adam(0.003, 0.8, 0.95, 1e-3), CrossEntropy(), drop_remainder=True,
         tolerance_final=1e-5),
    Case("cnn_wide", 2,
         sequential("wide", (10, 9, 1),
                    conv(16, 3, "tanh", "conv2d"),  # (b, 8, 7, 16)
                    conv(32, 3, "linear", "conv2d_1", padding="same"),  # (b, 8, 7, 32)
                    conv(16, 3, "relu", "conv2d_2"),  # (b, 6, 5, 16)
                    layer(kl.MaxPooling2D, 2, name="max_pooling2d"),  # (b, 3, 2, 16)
                    layer(kl.Flatten, name="flatten"),
                    dense(6, "softmax", "dense")),
         patterns(120, (10, 9, 1), 6, 1.0), Sgd(0.005, 0.9), CrossEntropy(), tolerance_loss=3e-6),
    Case("functional_chain", 14,
         functional("chain", (12, 11, 1),
                    conv(6, (3, 5), "linear", "features", padding="same"),  # (b, 12, 11, 6), both signs
                    layer(kl.MaxPooling2D, 3, strides=2, padding="same", name="overlap"),  # (b, 6, 6, 6)
                    layer(kl.Activation, "tanh", name="squash"),  # lets negative maxima through
                    conv(8, 3, "relu", "valid", strides=(2, 1)),  # (b, 2, 4, 8)
                    layer(kl.Flatten, name="flat"),
                    dense(12, "tanh", "narrow", use_bias=False),
                    dense(6, "softmax", "head")),
         patterns(140, (12, 11, 1), 6, 1.0), Sgd(0.02, 0.9), CrossEntropy(), batch=20, tolerance_loss=3e-6),
    Case("lenet_chains", 2,
         sequential("lenet", (12, 12, 1),
                    conv(4, 5, "linear", "conv2d", padding="same"),  # (b, 12, 12, 4)
                    layer(kl.AveragePooling2D, 2, name="average_pooling2d"),  # (b, 6, 6, 4)
                    layer(kl.Activation, "tanh", name="squash"),
                    conv(8, 3, "tanh", "conv2d_1"),  # (b, 4, 4, 8)
                    layer(kl.AveragePooling2D, 2, name="average_pooling2d_1"),  # (b, 2, 2, 8)
                    layer(kl.Activation, "tanh", name="squash_1"),
                    layer(kl.Flatten, name="flatten"),
                    dense(16, "relu", "dense"),
                    layer(kl.Activation, "tanh", name="chain"),
                    layer(kl.Activation, "sigmoid", name="chain_1"),
                    dense(6, "softmax", "dense_1")),
         patterns(120, (12, 12, 1), 6, 1.0), Sgd(0.5, 0.9), CrossEntropy()),
)  # fmt: skip
