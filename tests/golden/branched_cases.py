"""The traced runs of models that are more than a chain of layers with a cross-entropy: `BRANCHED`.

Groups: `branched`, several inputs per layer, several readers per value, a layer used twice; `outputs`, several outputs
with a loss each; `normalised`, BatchNormalization, Dropout and GlobalAveragePooling2D; `regression`, losses of
differences.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
from keras import layers as kl

from cases import Adam, Case, CrossEntropy, Data, Difference, Sgd, dense, patterns, sequential

Tensor = keras.KerasTensor

# ---- models: (b, ...) after a layer is its output's shape ------------------------------------------


def conv(x: Tensor, filters: int, kernel: int, activation: str, name: str, **more: object) -> Tensor:
    """A convolution that keeps the image's size, unless it has strides."""
    return kl.Conv2D(filters, kernel, activation=activation, padding="same", name=name, **more)(x)


def normalised(x: Tensor, name: str, **more: object) -> Tensor:
    return kl.BatchNormalization(name=name, **more)(x)


def relu(x: Tensor, name: str) -> Tensor:
    return kl.Activation("relu", name=name)(x)


def classes(x: Tensor, count: int, name: str = "head") -> Tensor:
    return kl.Dense(count, activation="softmax", name=name)(x)


def branch_add() -> keras.Model:
    image = keras.Input((10, 9, 2), name="image")
    stem = conv(image, 6, 3, "tanh", "stem")  # (b, 10, 9, 6), read by left, right and add
    left = kl.Activation("sigmoid", name="left_sigmoid")(conv(stem, 6, 3, "linear", "left"))
    right = conv(stem, 6, 1, "tanh", "right")
    added = kl.Add(name="add")([stem, left, right])
    pooled = kl.AveragePooling2D(2, name="pool")(added)  # (b, 5, 4, 6), read by first and second
    first = conv(pooled, 5, 3, "relu", "first")  # (b, 5, 4, 5)
    second = conv(pooled, 5, 1, "linear", "second")
    x = kl.Subtract(name="subtract")([first, second])
    x = kl.Flatten(name="flatten")(kl.Activation("tanh", name="squash")(x))
    return keras.Model(image, classes(x, 6), name="branch_add")


def branch_concat() -> keras.Model:
    image = keras.Input((10, 9, 3), name="image")
    narrow = conv(image, 4, 1, "tanh", "narrow")  # (b, 10, 9, 4)
    wide = conv(image, 6, 3, "relu", "wide")  # (b, 10, 9, 6)
    smooth = kl.AveragePooling2D(3, strides=1, padding="same", name="smooth")(image)  # (b, 10, 9, 3)
    joined = kl.Concatenate(name="concatenate")([narrow, wide, smooth])  # (b, 10, 9, 13)
    pooled = kl.MaxPooling2D(2, name="pool")(joined)  # (b, 5, 4, 13), read three times
    a = conv(pooled, 8, 3, "linear", "a")  # (b, 5, 4, 8), read by maximum and average
    b = conv(pooled, 8, 1, "linear", "b")
    c = conv(pooled, 8, 1, "tanh", "c")
    largest = kl.Maximum(name="maximum")([a, b])
    mean = kl.Average(name="average")([a, largest, c])
    x = kl.Flatten(name="flatten")(kl.Concatenate(axis=-1, name="concatenate_1")([mean, largest]))
    return keras.Model(image, classes(x, 6), name="branch_concat")


def fan_out3() -> keras.Model:
    vector = keras.Input((24,), name="vector")
    trunk = kl.Dense(16, activation="tanh", name="trunk")(vector)  # (b, 16), read by left, right and gated
    left = kl.Dense(16, activation="tanh", name="left")(trunk)
    right = kl.Dense(16, activation="sigmoid", name="right")(trunk)
    gated = kl.Multiply(name="gated")([trunk, right])
    square = kl.Multiply(name="square")([left, left])  # reads one value twice
    x = kl.Add(name="add")([gated, square])
    return keras.Model(vector, kl.Dense(7, name="scores")(x), name="fan_out3")


def shared_layer() -> keras.Model:
    """Two views of an image through the same layers; `turn` reads its own output."""
    image = keras.Input((9, 8, 1), name="image")
    views = [conv(image, 4, 3, "tanh", "near"), conv(image, 4, 3, "sigmoid", "far", dilation_rate=2)]
    encode = kl.Conv2D(6, 3, strides=2, activation="tanh", name="encode")  # (b, 4, 3, 6), used twice
    flatten = kl.Flatten(name="flatten")  # used twice
    project = kl.Dense(12, activation="tanh", name="project")  # used twice
    one, other = (project(flatten(encode(v))) for v in views)  # (b, 12)
    turn = kl.Dense(12, activation="sigmoid", name="turn")  # used twice, in a row
    difference = kl.Subtract(name="subtract")([one, other])
    product = kl.Multiply(name="multiply")([one, turn(turn(other))])
    x = kl.Concatenate(name="concatenate")([difference, product])
    return keras.Model(image, classes(x, 5), name="shared_layer")


def two_outputs() -> keras.Model:
    """`fine` is the first output, although the layer that makes it is added last."""
    image = keras.Input((9, 9, 1), name="image")
    x = kl.MaxPooling2D(2, name="pool")(conv(image, 6, 3, "tanh", "features"))  # (b, 4, 4, 6)
    trunk = kl.Dense(20, activation="tanh", name="trunk")(kl.Flatten(name="flatten")(x))  # read twice
    coarse = classes(trunk, 3, "coarse")
    fine = classes(kl.Dense(12, activation="sigmoid", name="hidden")(trunk), 6, "fine")
    return keras.Model(image, [fine, coarse], name="two_outputs")


def two_outputs_mse() -> keras.Model:
    """A layer also reads the output `place`."""
    vector = keras.Input((20,), name="vector")
    trunk = kl.Dense(16, activation="tanh", name="trunk")(vector)
    place = kl.Dense(4, name="place")(trunk)
    x = kl.Concatenate(name="concatenate")([trunk, place])
    return keras.Model(vector, [classes(x, 6, "kind"), place], name="two_outputs_mse")


def residual_bn() -> keras.Model:
    """Convolutions before a normalisation have no bias: its gradient would be zero except for rounding."""
    image = keras.Input((7, 6, 2), name="image")
    x = relu(normalised(conv(image, 4, 3, "linear", "conv", use_bias=False), "norm"), "relu")  # (b, 7, 6, 4)
    inner = conv(x, 6, 3, "linear", "conv_1", strides=2, use_bias=False)  # (b, 4, 3, 6)
    inner = relu(normalised(inner, "norm_1", momentum=0.9), "relu_1")
    inner = conv(inner, 6, 3, "linear", "conv_2", use_bias=False)
    inner = normalised(inner, "norm_2", momentum=0.8, epsilon=0.01)
    shortcut = conv(x, 6, 1, "linear", "shortcut", strides=2)  # (b, 4, 3, 6)
    x = relu(kl.Add(name="add")([shortcut, inner]), "relu_2")
    x = kl.GlobalAveragePooling2D(name="mean")(x)  # (b, 6)
    return keras.Model(image, classes(x, 5), name="residual_bn")


def dropout_eval() -> keras.Model:
    """A residual block whose normalisations have all four combinations of scale and center, and three Dropouts."""
    image = keras.Input((8, 7, 2), name="image")
    x = normalised(conv(image, 6, 3, "linear", "conv", use_bias=False), "norm", scale=False, momentum=0.9)
    x = kl.Dropout(0.25, name="drop")(kl.Activation("tanh", name="tanh")(x))  # (b, 8, 7, 6)
    inner = normalised(
        conv(x, 6, 3, "linear", "conv_1", use_bias=False), "norm_1", center=False, momentum=0.9
    )
    x = kl.Add(name="add")([x, kl.Activation("sigmoid", name="sigmoid")(inner)])
    x = kl.Flatten(name="flatten")(kl.AveragePooling2D(2, name="pool")(x))  # (b, 72)
    x = kl.Dense(17, activation="tanh", name="dense")(kl.Dropout(0.125, name="drop_1")(x))
    x = normalised(x, "norm_2", center=False, scale=False, momentum=0.7, epsilon=0.1)
    x = kl.Dropout(0.5, name="drop_2")(x)  # (b, 17): not a multiple of four
    return keras.Model(image, classes(x, 5), name="dropout_eval")


# ---- data ------------------------------------------------------------------------------------------

Draw = Callable[[np.random.Generator], Data]


def and_coarse(draw: Draw, groups: int) -> Draw:
    """Adds rows of probabilities of label mod `groups` to the labels: multiples of 1/64 that sum to 1."""

    def both(rng: np.random.Generator) -> Data:
        x, y = draw(rng)
        share = 0.7 * np.eye(groups)[y % groups] + 0.3 / groups
        return x, y, (np.stack([rng.multinomial(64, p) for p in share]) / 64).astype(np.float32)

    return both


def and_values(draw: Draw, count: int, noise: float) -> Draw:
    """Adds `count` numbers of both signs to the labels: products of the samples with a random matrix, plus noise."""

    def both(rng: np.random.Generator) -> Data:
        x, y = draw(rng)
        matrix = rng.normal(0.0, 1.0, (x[0].size, count)) / np.sqrt(x[0].size)
        values = x.reshape(len(x), -1) @ matrix + rng.normal(0.0, noise, (len(x), count))
        return x, y, values.astype(np.float32)

    return both


def without_labels(draw: Draw) -> Draw:
    def values(rng: np.random.Generator) -> Data:
        x, _, values = draw(rng)
        return x, values

    return values


def numbers(count: int, size: int, targets: int, noise: float) -> Draw:
    return without_labels(and_values(patterns(count, (size,), 5, 1.0, as_float=True), targets, noise))


# ---- the list --------------------------------------------------------------------------------------

BRANCHED = (
    Case("branch_add", 8, branch_add, patterns(130, (10, 9, 2), 6, 1.5), Sgd(0.005, 0.9), CrossEntropy(),
         group="branched"),
    Case("branch_concat", 2, branch_concat, patterns(120, (10, 9, 3), 6, 1.0), Adam(lr=5e-4), CrossEntropy(),
         tolerance_loss=1e-4, tolerance_grad_norm=1e-4, group="branched"),
    Case("fan_out3", 4, fan_out3, patterns(131, (24,), 7, 2.0, as_float=True), Sgd(0.01, 0.9, True),
         CrossEntropy(from_logits=True), batch=24, group="branched"),
    Case("shared_layer", 2, shared_layer, patterns(150, (9, 8, 1), 5, 1.5), Sgd(0.015, 0.9), CrossEntropy(),
         group="branched"),
    Case("two_outputs", 1, two_outputs, and_coarse(patterns(140, (9, 9, 1), 6, 1.0), 3), Sgd(0.05, 0.9),
         (CrossEntropy(), CrossEntropy(label_smoothing=0.1, sparse=False)), loss_weights=(1.0, 0.3),
         group="outputs"),
    Case("two_outputs_mse", 1, two_outputs_mse, and_values(patterns(150, (20,), 6, 1.2, as_float=True), 4, 0.3),
         Adam(0.003), (CrossEntropy(), Difference("mean_squared_error")), loss_weights=(0.7, 2.0), group="outputs"),
    Case("residual_bn", 5, residual_bn, patterns(110, (7, 6, 2), 5, 1.5), Sgd(0.005, 0.9), CrossEntropy(),
         batch=20, group="normalised"),
    Case("dropout_eval", 2, dropout_eval, patterns(150, (8, 7, 2), 5, 2.0), Sgd(0.01, 0.9), CrossEntropy(),
         group="normalised", dropout_seed=7),
    Case("mse_regression", 1,
         sequential("mse", (20,), dense(16, "tanh", "dense"), dense(12, "sigmoid", "dense_1"),
                    dense(5, "linear", "dense_2")),
         numbers(150, 20, 5, 0.3), Sgd(0.03, 0.9), Difference("mean_squared_error"), group="regression",
         tolerance_final=1e-5),
    Case("huber_regression", 1,
         sequential("huber", (16,), dense(16, "tanh", "dense"), dense(3, "linear", "dense_1")),
         numbers(128, 16, 3, 1.0), Adam(0.005), Difference("huber", 0.7), group="regression", tolerance_final=1e-5),
    Case("mae_regression", 1,
         sequential("mae", (12,), dense(10, "tanh", "dense"), dense(2, "linear", "dense_1")),
         numbers(100, 12, 2, 0.3), Sgd(0.05), Difference("mean_absolute_error"), batch=20, group="regression",
         tolerance_final=1e-5),
)  # fmt: skip
