"""Every kind of layer and attribute that the importer reads, alone behind one Dense layer: outputs and gradients.

A model has some layers side by side, each an output; the Dense layer in front of them gathers the gradients of their
inputs. Keras computes in float64, from weights and samples that are float32. `python single_layers.py` writes
single_layers.json: of each model its JSON, the samples (batch 2), targets, variables, outputs, the sum of the outputs'
mean squared errors, and its gradients. Needs Keras with the JAX backend.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import keras
import numpy as np
from keras import layers as kl
from keras import ops

COUNT = 2
VECTOR, ROW, IMAGE, WIDE = (5,), (8, 4), (6, 5, 4), (3, 2, 8)


def activations() -> list[kl.Layer]:
    names = """silu gelu relu6 leaky_relu elu selu exponential softplus softsign log_sigmoid hard_sigmoid hard_silu
    hard_tanh tanh_shrink soft_shrink hard_shrink squareplus mish relu sigmoid tanh celu""".split()
    return [kl.Activation(n, name=f"of_{n}") for n in names]


def nested() -> keras.Model:
    x = keras.Input((8, 4))
    return keras.Sequential([keras.Model(x, kl.Add()([x, kl.Dense(4, activation="tanh")(x)])), kl.Dense(3)])


def twice(model: keras.Model) -> Callable[[keras.KerasTensor], keras.KerasTensor]:
    return lambda x: model(x) - model(2.0 * x)


# Of several inputs: the shapes of all.
INPUTS = {"inputs": [(5,), (2, 3, 4), (6,)], "inputs_by_name": [(3,), (2,)]}
GROUPS: list[tuple[str, tuple[int, ...], list[Callable[[keras.KerasTensor], keras.KerasTensor]]]] = [
    ("activations", VECTOR, activations()),
    ("activation_layers", VECTOR, [
        kl.ReLU(name="relu"), kl.ReLU(max_value=0.7, name="relu_most"), kl.ReLU(6.0, 0.1, 0.2, name="relu_all"),
        kl.LeakyReLU(name="leaky"), kl.LeakyReLU(0.2, name="leaky_2"), kl.ELU(0.7, name="elu"),
        kl.PReLU(alpha_initializer="random_normal", name="prelu"), kl.Softmax(name="softmax")]),
    ("images", IMAGE, [
        kl.Conv2D(4, 3, groups=2, padding="same", activation="silu", name="groups"),
        kl.Conv2D(8, (3, 2), groups=4, strides=2, name="groups_of_one"),
        kl.DepthwiseConv2D(3, padding="same", activation="relu", name="depthwise"),
        kl.DepthwiseConv2D(3, strides=2, depth_multiplier=2, use_bias=False, name="depthwise_twice"),
        kl.DepthwiseConv2D((2, 3), dilation_rate=2, padding="same", name="depthwise_apart"),
        kl.SeparableConv2D(5, 3, padding="same", activation="tanh", name="separable"),
        kl.SeparableConv2D(3, 3, strides=2, depth_multiplier=2, padding="same", name="separable_strides")]),
    ("transposed", IMAGE, [
        kl.Conv2DTranspose(3, 3, strides=2, padding="same", activation="relu", name="same"),
        kl.Conv2DTranspose(3, (2, 4), strides=(2, 3), name="valid"),
        kl.Conv2DTranspose(3, 2, strides=3, padding="same", use_bias=False, name="gaps"),
        kl.Conv2DTranspose(2, 3, name="plain"), kl.Conv2DTranspose(2, 2, strides=3, name="valid_gaps"),
        kl.UpSampling2D(name="up"), kl.UpSampling2D((3, 2), name="up_3")]),
    ("moved", IMAGE, [
        kl.ZeroPadding2D(((0, 1), (2, 1)), name="padded"), kl.ZeroPadding2D(2, name="padded_2"),
        kl.ZeroPadding2D((1, 2), name="padded_1_2"), kl.Cropping2D(((1, 0), (2, 1)), name="cropped"),
        kl.Permute((3, 1, 2), name="permuted"), kl.GlobalMaxPooling2D(name="largest"),
        kl.GlobalMaxPooling2D(keepdims=True, name="largest_kept"), kl.GlobalAveragePooling2D(name="mean")]),
    ("rows", ROW, [
        kl.Conv1D(5, 3, padding="same", activation="relu", name="conv"),
        kl.Conv1D(5, 3, padding="causal", dilation_rate=2, name="causal"), kl.Conv1D(4, 2, strides=3, name="strides"),
        kl.Conv1D(4, 3, groups=2, padding="same", name="groups"),
        kl.DepthwiseConv1D(3, padding="same", depth_multiplier=2, name="depthwise"),
        kl.SeparableConv1D(3, 3, strides=2, name="separable"),
        kl.Conv1DTranspose(3, 3, strides=2, padding="same", name="transposed")]),
    ("rows_pooled", ROW, [
        kl.MaxPooling1D(name="largest"), kl.MaxPooling1D(3, strides=2, padding="same", name="largest_same"),
        kl.AveragePooling1D(3, strides=3, name="mean"), kl.GlobalAveragePooling1D(name="mean_of_all"),
        kl.GlobalMaxPooling1D(name="largest_of_all"), kl.ZeroPadding1D((2, 1), name="padded"),
        kl.Cropping1D((2, 1), name="cropped"), kl.UpSampling1D(3, name="up")]),
    ("norms", WIDE, [
        kl.LayerNormalization(epsilon=1e-6, name="layer"), kl.LayerNormalization(axis=[1, 2, 3], name="layer_all"),
        kl.LayerNormalization(center=False, scale=False, name="layer_plain"),
        kl.GroupNormalization(4, name="group"), kl.GroupNormalization(-1, epsilon=1e-5, name="instance"),
        kl.RMSNormalization(name="rms"), kl.RMSNormalization(axis=[-2, -1], epsilon=1e-3, name="rms_2"),
        kl.UnitNormalization(name="unit")]),
    ("scaled", IMAGE, [
        kl.Rescaling(0.3, name="scaled"), kl.Rescaling(0.3, -1.5, name="moved"),
        kl.Rescaling([0.1, 2.0, 3.0, -1.0], [1.0, 0.0, 0.5, 2.0], name="by_channel"),
        kl.Normalization(mean=0.3, variance=2.5, name="normal"),
        kl.Normalization(mean=[1.0, 0.0, -1.0, 2.0], variance=[4.0, 0.0, 1.0, 0.25], name="normal_by_channel"),
        kl.Normalization(mean=[1.0, 0.0, -1.0, 2.0], variance=[4.0, 3.0, 1.0, 0.25], invert=True, name="back"),
        kl.PReLU(shared_axes=[1, 2], alpha_initializer="random_normal", name="prelu"),
        kl.Softmax(axis=1, name="softmax_of_rows")]),
    ("frozen", IMAGE, [
        kl.Conv2D(3, 3, trainable=False, name="conv"), kl.BatchNormalization(trainable=False, name="norm"),
        kl.Dense(3, activation="gelu", trainable=False, name="dense")]),
    ("attention", ROW, [
        lambda x: kl.MultiHeadAttention(2, 3, name="self")(x, x),
        lambda x: kl.MultiHeadAttention(1, 4, output_shape=5, use_bias=False, name="sized")(x, x),
        lambda x: kl.MultiHeadAttention(2, 2, name="causal")(x, x, use_causal_mask=True),
        lambda x: kl.MultiHeadAttention(2, 3, name="crossed")(x, x[:, 2:7, 1:], x[:, 3:8]),
        lambda x: kl.MultiHeadAttention(2, 2, name="named")(value=x[:, 2:7], query=x, key=x[:, 3:8, 1:])]),
    ("attention_of_images", IMAGE, [
        lambda x: kl.MultiHeadAttention(2, 3, attention_axes=[2], name="rows")(x, x),
        lambda x: kl.MultiHeadAttention(2, 3, value_dim=2, attention_axes=[1, 2], name="places")(x, x)]),
    ("operators", IMAGE, [
        lambda x: (1.5 - x) * x / 3.0, lambda x: ops.maximum(x, 0.1) + ops.minimum(x, 2.0 * x),
        lambda x: ops.square(x) + ops.exp(x) * ops.sin(x) - ops.cos(x), lambda x: ops.sqrt(ops.maximum(x * x, 0.01)),
        lambda x: ops.silu(x) + ops.relu(x), lambda x: ops.log(1.5 + ops.absolute(ops.tanh(x))),
        lambda x: ops.sum(x, axis=-1), lambda x: ops.mean(x, axis=[1, 2], keepdims=True) * x]),
    ("shapes", IMAGE, [
        lambda x: x[:, 1:-1, ::2], lambda x: x[:, ::-1, 3, 1:3], lambda x: x[:, None, ..., -1],
        lambda x: ops.transpose(x, (0, 3, 1, 2)), lambda x: ops.reshape(x, (-1, 10, 12)),
        lambda x: ops.stack([x, 2.0 * x], axis=2), lambda x: ops.softmax(x, axis=2),
        lambda x: ops.concatenate([ops.expand_dims(x, 1), ops.expand_dims(x * x, 1)], axis=2)]),
    ("counted", ROW, [
        lambda x: x * ops.cumsum(ops.ones_like(x), axis=1), lambda x: ops.cumsum(x, axis=-1) + ops.zeros_like(x),
        lambda x: nested()(x), lambda x: twice(nested())(x)]),
    ("tokens", (4, 3), [kl.Embedding(7, 5, name="table"), kl.Embedding(9, 2, name="other")]),
    ("inputs", (35,), [
        lambda x: kl.Concatenate()([
            kl.Dense(3, name="first")(x[0]), kl.Flatten()(kl.Embedding(7, 2, name="third")(x[2]))]),
        lambda x: kl.Conv2D(2, 2, name="second")(x[1]),
        lambda x: kl.Dense(2, name="both")(x[0]) * kl.Flatten()(x[1])[:, 3:5]]),
    ("inputs_by_name", (5,), [lambda x: kl.Dense(3, name="three")(x[0]), lambda x: kl.Dense(2, name="two")(x[1])]),
    ("vectors", VECTOR, [kl.RepeatVector(4, name="repeated"), kl.Reshape((5, 1), name="reshaped")]),
]  # fmt: skip


def build(name: str, shape: tuple[int, ...], layers: list[Callable]) -> keras.Model:
    if name in INPUTS:
        inputs = [keras.Input(s, name=f"input_{2 - i}") for i, s in enumerate(INPUTS[name])]
        given = {i.name: i for i in inputs} if name == "inputs_by_name" else inputs
        return keras.Model(given, [layer(inputs) for layer in layers], name="model")
    tokens = name == "tokens"
    x = keras.Input(shape, dtype="int32" if tokens else None, name="input")
    front = x if tokens else kl.Dense(shape[-1], name="front")(x)
    return keras.Model(x, [layer(front) for layer in layers], name="model")


def names_of(model: keras.Model, models: str = "") -> dict[str, str]:
    """By Keras's paths, which leave models within models out, those of Clique, which has them in front, with dots."""
    names = {}
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            names |= names_of(layer, f"{models}{layer.name}.")
        for v in layer.variables if not isinstance(layer, keras.Model) else []:
            names[v.path] = f"{models}{layer.name}/" + v.path.rpartition(f"{layer.name}/")[2]
    return names


def values_of(rng: np.random.Generator, variable: keras.Variable) -> np.ndarray:
    low, high = (0.5, 1.5) if "variance" in variable.path else (-0.8, 0.8)
    return rng.uniform(low, high, variable.shape).astype(np.float32)


def run(name: str, shape: tuple[int, ...], layers: list[Callable], seed: int) -> dict:
    rng = np.random.default_rng(seed)
    text = build(name, shape, layers).to_json()
    keras.config.set_floatx("float64")
    wide = keras.models.model_from_json(text.replace('"float32"', '"float64"'))
    keras.config.set_floatx("float32")
    kept, name_of = {}, names_of(wide)
    for v in wide.variables:
        if v.dtype != "float64":
            continue
        kept[name_of[v.path]] = value = values_of(rng, v)
        v.assign(value.astype(np.float64))
    samples = rng.uniform(-1, 1, (COUNT, *shape)).astype(np.float32)
    if name == "tokens":
        samples = rng.integers(0, 7, (COUNT, *shape)).astype(np.float32)
    x = samples.astype(np.int32 if name == "tokens" else np.float64)
    if name in INPUTS:
        ends = np.cumsum([np.prod(i.shape[1:]) for i in wide.inputs])
        if name == "inputs":
            samples[:, ends[1] :] = rng.integers(0, 7, (COUNT, ends[2] - ends[1]))
        parts = np.split(samples.astype(np.float64), ends[:-1], axis=1)
        x = [part.reshape(COUNT, *i.shape[1:]) for part, i in zip(parts, wide.inputs)]
        if name == "inputs_by_name":
            x = {i.name: part for i, part in zip(wide.inputs, x)}
    outputs = wide(x, training=False)
    outputs = outputs if isinstance(outputs, list) else [outputs]
    targets = [rng.uniform(-1, 1, o.shape).astype(np.float32) for o in outputs]

    def loss(trained: list[jax.Array]) -> jax.Array:
        made, _ = wide.stateless_call(trained, [v.value for v in wide.non_trainable_variables], x, training=True)
        made = made if isinstance(made, list) else [made]
        return sum(((m - t.astype(np.float64)) ** 2).mean() for m, t in zip(made, targets))

    value, gradients = jax.value_and_grad(loss)([v.value for v in wide.trainable_variables])
    names = [name_of[v.path] for v in wide.trainable_variables]
    def flat(a: jax.Array) -> list[float]:
        digits = 9 if np.asarray(a).dtype == np.float32 else 11
        return [float(f"{n:.{digits}g}") for n in np.asarray(a).ravel()]

    return {
        "name": name, "model": json.loads(text), "samples": flat(samples), "loss": float(value),
        "targets": [flat(t) for t in targets], "variables": {k: flat(v) for k, v in kept.items()},
        "outputs": [flat(o) for o in outputs], "gradients": dict(zip(names, map(flat, gradients))),
    }  # fmt: skip


def main() -> None:
    entries = []
    for seed, (name, shape, layers) in enumerate(GROUPS):
        for part in range(0, len(layers), 8):
            tail = f"_{part // 8}" if len(layers) > 8 else ""
            entries.append(run(name + tail, shape, layers[part : part + 8], 100 * seed + part))
    lines = ",\n".join("  " + json.dumps(e) for e in entries)
    path = Path(__file__).with_name("single_layers.json")
    path.write_text(f'{{"keras": "{keras.__version__}", "models": [\n{lines}\n]}}\n')
    print(path.name, len(entries), "models", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
