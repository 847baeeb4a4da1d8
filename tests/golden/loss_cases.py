"""The traced runs of losses: `LOSSES`, in the group `losses`.

All use the same small model except for its end. Each case's data have their own seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keras import layers as kl

from cases import Case, CrossEntropy, Data, Loss, Make, Sgd, dense, layer, patterns, sequential
from losses import Named

Draw = Callable[[np.random.Generator], Data]


def of(name: str, **keys: float) -> Named:
    return Named(name, tuple(keys.items()))


def targets(count: int, values: Callable[[np.random.Generator, np.ndarray], np.ndarray]) -> Draw:
    """Samples of 8 numbers. `values` computes the targets from `count` products of each sample with a random matrix,
    plus noise."""

    def draw(rng: np.random.Generator) -> Data:
        x, _ = patterns(72, (8,), 5, 1.0, as_float=True)(rng)
        products = x @ rng.normal(0.0, 1.0, (8, count)) / np.sqrt(8) + rng.normal(0.0, 0.3, (72, count))
        return x, values(rng, products).astype(np.float32)

    return draw


def one_hot(draw: Draw, classes: int) -> Draw:
    def rows(rng: np.random.Generator) -> Data:
        x, y = draw(rng)
        return x, np.eye(classes, dtype=np.float32)[y]

    return rows


def case(loss: Loss, seed: int, lr: float, end: str, units: int, draw: Draw, name: str = "", behind: tuple[Make, ...] = (),
         **more: object) -> Case:
    return Case(name or loss.name, seed,
                sequential("small", (8,), dense(9, "tanh", "dense"), dense(units, end, "dense_1"), *behind),
                draw, Sgd(lr, 0.9), loss, batch=16, group="losses", tolerance_final=1e-5, **more)  # fmt: skip


CLASSES = one_hot(patterns(72, (8,), 5, 1.5, as_float=True), 5)
SOFT = patterns(72, (8,), 5, 1.5, as_float=True, soft=True)
PLAIN = targets(3, lambda rng, v: v)
SIDES = targets(3, lambda rng, v: np.where(v > 0, 1, -1))
BITS = targets(3, lambda rng, v: v > 0)


def of_probabilities(loss: Loss, lr: float, end: str, units: int, draw: Draw, name: str, **more: object) -> Case:
    """Only directly after softmax or sigmoid, Keras takes the loss from the logits. With a layer in between, it does
    not."""
    return case(loss, 1, lr, end, units, draw, f"{name}_of_probabilities", (layer(kl.Reshape, (units,), name="shape"),),
                **more)  # fmt: skip


LOSSES = (
    case(of("hinge"), 3, 0.02, "linear", 3, SIDES),
    case(of("squared_hinge"), 3, 0.02, "linear", 3, BITS),
    case(of("categorical_hinge"), 1, 0.02, "linear", 5, CLASSES),
    case(of("log_cosh"), 1, 0.05, "linear", 3, PLAIN),
    case(of("kl_divergence"), 1, 0.05, "softmax", 5, SOFT,
         metrics=("top_k_categorical_accuracy:k=2", "kl_divergence", "cosine_similarity", "log_cosh",
                  "mean_squared_logarithmic_error", "root_mean_squared_error")),
    case(of("poisson"), 1, 0.05, "sigmoid", 3, targets(3, lambda rng, v: rng.poisson(np.exp(v - 1)))),
    case(of("cosine_similarity"), 1, 0.05, "linear", 3, PLAIN,
         metrics=("cosine_similarity", "mean_absolute_percentage_error")),
    case(of("mean_absolute_percentage_error"), 1, 2e-4, "linear", 3, targets(3, lambda rng, v: v + np.sign(v))),
    case(of("mean_squared_logarithmic_error"), 1, 0.05, "sigmoid", 3, targets(3, lambda rng, v: np.abs(v))),
    case(of("binary_crossentropy", from_logits=1, label_smoothing=0.1), 1, 0.1, "linear", 3, BITS,
         metrics=("auc", "pr_auc", "binary_confusion_matrix")),
    case(of("binary_crossentropy", from_logits=1), 1, 0.1, "linear", 3, BITS, "binary_crossentropy_of_logits"),
    of_probabilities(of("binary_crossentropy", label_smoothing=0.1), 0.1, "sigmoid", 3, BITS, "binary_crossentropy"),
    of_probabilities(of("binary_focal_crossentropy", label_smoothing=0.1, apply_class_balancing=1), 0.2, "sigmoid", 3,
                     BITS, "binary_focal"),
    of_probabilities(of("categorical_focal_crossentropy", label_smoothing=0.1), 0.2, "softmax", 5, CLASSES,
                     "categorical_focal"),
    of_probabilities(CrossEntropy(sparse=False, label_smoothing=0.1), 0.1, "softmax", 5, SOFT,
                     "categorical_crossentropy", metrics=("categorical_crossentropy", "perplexity")),
    of_probabilities(CrossEntropy(), 0.1, "softmax", 5, patterns(72, (8,), 5, 1.5, as_float=True),
                     "sparse_categorical_crossentropy", metrics=("sparse_categorical_crossentropy", "confusion_matrix")),
    case(of("binary_crossentropy"), 1, 0.1, "sigmoid", 3, BITS, "binary_crossentropy_of_sigmoid",
         metrics=("auc", "auc:num_thresholds=7", "pr_auc", "pr_auc:num_thresholds=50",
                  "binary_confusion_matrix:threshold=0.6")),
    case(of("binary_focal_crossentropy", from_logits=1, gamma=1.5, alpha=0.3, apply_class_balancing=1), 1, 0.2,
         "linear", 3, BITS, "binary_focal_balanced"),
    case(of("binary_focal_crossentropy"), 1, 0.2, "sigmoid", 3, BITS, "binary_focal",
         metrics=("precision:threshold=0.4", "precision", "recall:threshold=0.6", "f1_score",
                  "f1_score:threshold=0.3", "binary_accuracy:threshold=0.55")),
    case(of("categorical_focal_crossentropy", from_logits=1, label_smoothing=0.1), 1, 0.2, "linear", 5, CLASSES,
         "categorical_focal", metrics=("categorical_crossentropy", "confusion_matrix", "perplexity")),
    case(of("categorical_focal_crossentropy", alpha=0.75, gamma=1.25), 1, 0.1, "softmax", 5, SOFT,
         "categorical_focal_of_softmax", metrics=("perplexity", "categorical_crossentropy")),
    case(CrossEntropy(), 1, 0.1, "softmax", 5, patterns(72, (8,), 5, 1.5, as_float=True), "class_weights",
         class_weights=(1.0, 2.5, 0.5)),
    case(CrossEntropy(sparse=False, from_logits=True), 1, 0.1, "linear", 5, SOFT, "class_weights_of_rows",
         class_weights=(0.0, 3.0, 1.0, 1.5)),
    case(CrossEntropy(from_logits=True), 1, 0.1, "linear", 5, patterns(72, (8,), 5, 1.5, as_float=True),
         "sample_weights", sample_weights=True),
    case(of("log_cosh"), 2, 0.05, "linear", 3, PLAIN, "sample_weights_of_values", sample_weights=True),
)  # fmt: skip
