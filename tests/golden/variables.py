"""Clique's names of a Keras model's variables, and values to begin with."""

from __future__ import annotations

import math

import keras
import numpy as np
from keras import layers as kl


def names_of(model: keras.Model, models: str = "") -> dict[int, str]:
    """By id of a variable, Clique's name: what is within another layer or model has that in front, with a dot."""
    names = {}
    for layer in model.layers:
        names |= names_within(layer, models + layer.name)
    return names


def names_within(layer: kl.Layer, name: str) -> dict[int, str]:
    if isinstance(layer, keras.Model):
        return names_of(layer, name + ".")
    rows = ("class_token", "distillation_token", "position_embedding")
    names = {id(v): f"{name}.{v.name}/embeddings" if v.name in rows else f"{name}/{own_name(layer, v)}"
             for v in layer._trainable_variables + layer._non_trainable_variables}
    for inner in layer._layers:
        if inner is getattr(layer, "cell", None):
            names |= {id(v): f"{name}/{v.name}" for v in inner.variables}
        elif isinstance(layer, kl.MultiHeadAttention):
            names |= {id(v): f"{name}/{inner.name}/{v.name}" for v in inner.variables}
        else:
            names |= names_within(inner, f"{name}.{inner.name}")
    return names


def own_name(layer: kl.Layer, variable: keras.Variable) -> str:
    """Of a variable that its layer left without a name, as LayerScale does, the member's name."""
    if not variable.name.startswith("variable"):
        return variable.name
    return next(k for k, v in vars(layer).items() if v is variable)


def initial_value(rng: np.random.Generator, variable: keras.Variable) -> np.ndarray:
    """Glorot uniform kernels; biases off zero, factors and variances off one, so that ignoring them is found out."""
    shape = variable.shape
    if variable.name in ("gamma", "moving_variance", "scale"):
        return rng.uniform(0.5, 1.5, shape)
    if len(shape) <= 1:
        return rng.uniform(-0.2, 0.2, shape)
    limit = math.sqrt(6 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
    return rng.uniform(-limit, limit, shape)
