"""The losses other than cross-entropies of classes and differences: options, Keras's loss with the same options, and
the same rules with numpy.

A rule takes the model's outputs, the targets and the keys, and returns each row's loss and slope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Keys = dict[str, float]
EPSILON = 1e-7


def of_values(value: Array, slope: Array) -> tuple[Array, Array]:
    return value.mean(axis=-1), slope / value.shape[-1]


def signs(y: Array) -> Array:
    return np.where(y == 0, -1, y)


def hinge(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    short = np.maximum(1 - signs(y) * x, 0)
    return of_values(short, np.where(short > 0, -signs(y), 0))


def squared_hinge(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    short = np.maximum(1 - signs(y) * x, 0)
    return of_values(short * short, -2 * signs(y) * short)


def categorical_hinge(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    others = (1 - y) * x
    most = others.max(axis=-1, keepdims=True)
    value = np.maximum(most - (x * y).sum(axis=-1, keepdims=True) + 1, 0)
    equals = others == most
    return value[:, 0], (value > 0) * (equals / equals.sum(axis=-1, keepdims=True) * (1 - y) - y)


def log_cosh(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    """Keras rounds log(2) to float32."""
    return of_values(np.logaddexp(x - y, y - x) - float(np.float32(np.log(2.0))), np.tanh(x - y))


def kl_divergence(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    p, t = np.clip(x, EPSILON, 1), np.clip(y, EPSILON, 1)
    return (t * np.log(t / p)).sum(axis=-1), np.where(p == x, -t / p, 0)


def poisson(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    return of_values(x - y * np.log(x + EPSILON), 1 - y / (x + EPSILON))


def cosine_similarity(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    a, b = (v / np.sqrt((v * v).sum(axis=-1, keepdims=True)) for v in (x, y))
    cosine = (a * b).sum(axis=-1, keepdims=True)
    return -cosine[:, 0], (a * cosine - b) / np.sqrt((x * x).sum(axis=-1, keepdims=True))


def percentage(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    of = 100 / np.maximum(np.abs(y), EPSILON)
    return of_values(of * np.abs(x - y), of * np.sign(x - y))


def squared_logarithmic(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    error = np.log(np.maximum(x, EPSILON) + 1) - np.log(np.maximum(y, EPSILON) + 1)
    return of_values(error * error, np.where(x >= EPSILON, 2 * error / (x + 1), 0))


def binary(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    """Takes logits, or a sigmoid's values. Nothing is clipped then, since Keras takes the logits before the sigmoid."""
    s = k.get("label_smoothing", 0)
    t = y * (1 - s) + s / 2
    p = 1 / (1 + np.exp(-x)) if k.get("from_logits") else x
    by_x = p * (1 - p) if k.get("from_logits") else 1
    value, slope = -t * np.log(p) - (1 - t) * np.log(1 - p), (p - t) / (p * (1 - p))
    if "gamma" in k:
        wrong, g = t * (1 - p) + (1 - t) * p, k["gamma"]
        weight = t * k["alpha"] + (1 - t) * (1 - k["alpha"]) if k.get("apply_class_balancing") else 1
        slope = weight * (wrong**g * slope + g * wrong ** (g - 1) * (1 - 2 * t) * value)
        value = weight * wrong**g * value
    return of_values(value, slope * by_x)


def binary_focal(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    return binary(x, y, {"alpha": 0.25, "gamma": 2.0, **k})


def categorical_focal(x: Array, y: Array, k: Keys) -> tuple[Array, Array]:
    s, a, g = k.get("label_smoothing", 0), k.get("alpha", 0.25), k.get("gamma", 2.0)
    t = y * (1 - s) + s / y.shape[-1]
    e = np.exp(x - x.max(axis=-1, keepdims=True)) if k.get("from_logits") else x
    p = e / e.sum(axis=-1, keepdims=True)
    q = np.clip(p, EPSILON, 1 - EPSILON)
    value = a * t * (1 - q) ** g * -np.log(q)
    by_p = np.where(p == q, a * t * (g * (1 - q) ** (g - 1) * np.log(q) - (1 - q) ** g / q), 0)
    across = by_p - (by_p * p).sum(axis=-1, keepdims=True)
    return value.sum(axis=-1), across * p if k.get("from_logits") else across / e.sum(axis=-1, keepdims=True)


RULES: dict[str, tuple[str, Callable[[Array, Array, Keys], tuple[Array, Array]]]] = {
    "hinge": ("Hinge", hinge),
    "squared_hinge": ("SquaredHinge", squared_hinge),
    "categorical_hinge": ("CategoricalHinge", categorical_hinge),
    "log_cosh": ("LogCosh", log_cosh),
    "kl_divergence": ("KLDivergence", kl_divergence),
    "poisson": ("Poisson", poisson),
    "cosine_similarity": ("CosineSimilarity", cosine_similarity),
    "mean_absolute_percentage_error": ("MeanAbsolutePercentageError", percentage),
    "mean_squared_logarithmic_error": ("MeanSquaredLogarithmicError", squared_logarithmic),
    "binary_crossentropy": ("BinaryCrossentropy", binary),
    "binary_focal_crossentropy": ("BinaryFocalCrossentropy", binary_focal),
    "categorical_focal_crossentropy": ("CategoricalFocalCrossentropy", categorical_focal),
}


@dataclass(frozen=True)
class Named:
    """A loss of RULES by its name."""

    name: str
    keys: tuple[tuple[str, float], ...] = ()

    @property
    def from_logits(self) -> bool:
        return bool(dict(self.keys).get("from_logits"))

    def spec(self) -> str:
        return self.name + ":" * bool(self.keys) + ",".join(f"{k}={v:g}" for k, v in self.keys)

    def keras(self) -> object:
        import keras

        flags = ("from_logits", "apply_class_balancing")
        return getattr(keras.losses, RULES[self.name][0])(**{k: bool(v) if k in flags else v for k, v in self.keys})


def metric_of(text: str, logits: bool) -> object:
    """Keras's metric for a word of --metrics. logits: whether the model's outputs are logits."""
    import keras

    class Perplexity(keras.metrics.CategoricalCrossentropy):
        """Like KerasHub's, for one-hot rows instead of class numbers."""

        def result(self) -> object:
            return keras.ops.exp(super().result())

    class Confusion:
        """The confusion matrix of Keras's MeanIoU."""

        def update_state(self, y: Array, found: object) -> None:
            iou = keras.metrics.MeanIoU(found.shape[-1], sparse_y_true=y.ndim == 1, sparse_y_pred=False)
            iou.update_state(y, found)
            self.counts = iou.total_cm

        def result(self) -> object:
            return keras.ops.cast(self.counts, "int64")

    class BinaryConfusion(Confusion):
        """The confusion matrix of BinaryIoU, from probabilities."""

        def __init__(self, threshold: float = 0.5) -> None:
            self.iou = keras.metrics.BinaryIoU(threshold=threshold)

        def update_state(self, y: Array, found: object) -> None:
            self.iou.update_state(y, keras.ops.sigmoid(found) if logits else found)
            self.counts = self.iou.total_cm

    name, _, pair = text.partition(":")
    key, _, value = pair.partition("=")
    keys = {key: int(value) if key in ("k", "num_thresholds") else float(value)} if key else {}
    classes = {
        "categorical_crossentropy": lambda: keras.metrics.CategoricalCrossentropy(from_logits=logits),
        "sparse_categorical_crossentropy":
            lambda: keras.metrics.SparseCategoricalCrossentropy(from_logits=logits),
        "perplexity": lambda: Perplexity(from_logits=logits),
        "auc": lambda num_thresholds=200: keras.metrics.AUC(num_thresholds, from_logits=logits),
        "pr_auc": lambda num_thresholds=200: keras.metrics.AUC(num_thresholds, "PR", from_logits=logits),
        "confusion_matrix": Confusion,
        "binary_confusion_matrix": BinaryConfusion,
        "precision": lambda threshold=0.5: keras.metrics.Precision(thresholds=threshold),
        "recall": lambda threshold=0.5: keras.metrics.Recall(thresholds=threshold),
        "f1_score": lambda threshold=0.5: keras.metrics.F1Score(average="micro", threshold=threshold),
        "binary_accuracy": keras.metrics.BinaryAccuracy,
        "top_k_categorical_accuracy": keras.metrics.TopKCategoricalAccuracy,
        "kl_divergence": keras.metrics.KLDivergence,
        "cosine_similarity": keras.metrics.CosineSimilarity,
        "mean_squared_logarithmic_error": keras.metrics.MeanSquaredLogarithmicError,
        "mean_absolute_percentage_error": keras.metrics.MeanAbsolutePercentageError,
        "root_mean_squared_error": keras.metrics.RootMeanSquaredError,
        "log_cosh": keras.metrics.LogCoshError,
    }
    return classes[name](**keys)
