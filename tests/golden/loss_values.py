"""Losses and their slopes after each final activation, as Keras on TensorFlow computes them, into loss_values.json.

    python loss_values.py

Each row of `z` is the input of the activation `end` of the model's last layer. Some rows are not logits of
probabilities, since people forget from_logits. `loss` is each row's loss, `slope` its derivative with respect to z.
null: Keras has NaN. tests/train/test_loss_values.c compares this engine with the file, and checks that it has no NaN.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

Z = [[0.0, 0.0, 0.0], [1.25, -0.5, 0.25], [-2.0, -0.75, -1.5], [3.0, 0.5, 2.0], [0.5, 0.25, 0.125], [-1.0, 1.5, -0.5],
     [0.75, 0.75, -0.25], [-0.125, 4.0, 0.0625]]  # fmt: skip
CLASS = [0, 1, 2, 0, 2, 1, 2, 0]
SOFT = [[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.125, 0.125, 0.75], [1.0, 0.0, 0.0], [0.25, 0.0, 0.75], [0.0, 0.5, 0.5],
        [0.0, 0.0, 1.0], [0.625, 0.25, 0.125]]  # fmt: skip
BITS = [[0, 0, 1], [1, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 0], [1, 0, 1], [0, 1, 1], [1, 0, 0]]
COUNTS = [[0, 2, 1], [1, 0, 3], [2, 1, 0], [4, 0, 1], [0, 1, 1], [1, 3, 0], [0, 0, 2], [2, 1, 0]]
ENDS = ("linear", "relu", "sigmoid", "softmax")
LOGITS = {"from_logits": 1}
# The text of --loss, Keras's class, its options, the targets.
LOSSES = [
    ("sparse_categorical_crossentropy", "SparseCategoricalCrossentropy", {}, "classes"),
    ("sparse_categorical_crossentropy", "SparseCategoricalCrossentropy", LOGITS, "classes"),
    ("categorical_crossentropy", "CategoricalCrossentropy", {}, "soft"),
    ("categorical_crossentropy", "CategoricalCrossentropy", {"label_smoothing": 0.25}, "soft"),
    ("categorical_crossentropy", "CategoricalCrossentropy", LOGITS, "soft"),
    ("binary_crossentropy", "BinaryCrossentropy", {}, "bits"),
    ("binary_crossentropy", "BinaryCrossentropy", {"label_smoothing": 0.25}, "bits"),
    ("binary_crossentropy", "BinaryCrossentropy", LOGITS, "bits"),
    ("categorical_focal_crossentropy", "CategoricalFocalCrossentropy", {}, "soft"),
    ("categorical_focal_crossentropy", "CategoricalFocalCrossentropy", LOGITS, "soft"),
    ("binary_focal_crossentropy", "BinaryFocalCrossentropy", {}, "bits"),
    ("binary_focal_crossentropy", "BinaryFocalCrossentropy", {"gamma": 3}, "bits"),
    ("binary_focal_crossentropy", "BinaryFocalCrossentropy", LOGITS, "bits"),
    ("kl_divergence", "KLDivergence", {}, "soft"),
    ("poisson", "Poisson", {}, "counts"),
]
# Keras takes the cross-entropy from the logits of softmax, and the focal factor from softmax's values: this mixes two
# models.
LEFT_OUT = {("binary_focal_crossentropy", "softmax")}
TARGETS = {"classes": CLASS, "soft": SOFT, "bits": BITS, "counts": COUNTS}


def numbers(values: np.ndarray) -> list:
    return [None if not math.isfinite(v) else float(v) for v in np.asarray(values, "f8").ravel()]


def measure(end: str, name: str, keys: dict[str, float], kind: str) -> dict[str, object]:
    rows = len(Z)
    layer = keras.layers.Dense(3, activation=end, use_bias=False, dtype="float32")
    model = keras.Sequential([keras.Input((rows,), dtype="float32"), layer])
    layer.set_weights([np.array(Z)])
    options = {k: bool(v) if k == "from_logits" else v for k, v in keys.items()}
    loss = getattr(keras.losses, name)(reduction="none", dtype="float32", **options)
    target = np.array(TARGETS[kind], "i8" if kind == "classes" else "f4")
    values, slopes = [], []
    for i in range(rows):  # one by one, because one NaN would spread to all products
        with tf.GradientTape() as tape:
            value = loss(target[i : i + 1], model(np.eye(rows, dtype="f4")[i : i + 1], training=True))
        values.append(value.numpy())
        slopes.append(tape.gradient(value, layer.trainable_variables[0].value).numpy()[i])
    return {"loss": numbers(values), "slope": numbers(slopes)}


def main() -> None:
    keras.config.set_floatx("float32")
    cases = []
    for text, name, keys, kind in LOSSES:
        spec = text + ":" * bool(keys) + ",".join(f"{k}={v:g}" for k, v in keys.items())
        for end in ENDS:
            if (text, end) not in LEFT_OUT:
                cases.append({"loss_spec": spec, "end": end, "targets": kind, **measure(end, name, keys, kind)})
    document = {"keras": keras.__version__, "tensorflow": tf.__version__, "z": Z, "targets": TARGETS, "cases": cases}
    lines = json.dumps(document).replace('{"loss_spec"', '\n{"loss_spec"')
    (Path(__file__).parent / "loss_values.json").write_text(lines + "\n")


main()
