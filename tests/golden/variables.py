"""Clique's names for a Keras model's variables, and their initial values."""

from __future__ import annotations

import math

import keras
import numpy as np
from keras import layers as kl


ROWS = ("class_token", "distillation_token", "position_embedding", "rel_embedding", "probe")  # layers in Clique


def names_of(model: keras.Model, models: str = "") -> dict[int, str]:
    """Clique's name for each variable's id. A variable within another layer or model has the outer name first, with a
    dot."""
    names = {}
    for layer in model.layers:
        names |= names_within(layer, models + layer.name)
    return names


def names_within(layer: kl.Layer, name: str) -> dict[int, str]:
    if isinstance(layer, keras.Model):
        return names_of(layer, name + ".")
    names = {}
    for v in layer._trainable_variables + layer._non_trainable_variables:
        own = own_name(layer, v)
        names[id(v)] = f"{name}.{own}/embeddings" if own in ROWS else f"{name}/{own}"
    for inner in layer._layers:
        if type(layer) is kl.RNN:
            names |= {id(v): f"{name}.{cell.name}/{v.name}" for cell in getattr(inner, "cells", [inner]) for v in cell.variables}
        elif inner is getattr(layer, "cell", None):
            names |= {id(v): f"{name}/{v.name}" for v in inner.variables}
        elif isinstance(layer, (kl.MultiHeadAttention, kl.GroupQueryAttention)):
            names |= {id(v): f"{name}/{inner.name}/{v.name}" for v in inner.variables}
        else:
            names |= names_within(inner, f"{name}.{inner_name(layer, inner)}")
    return names


def inner_name(layer: kl.Layer, inner: kl.Layer) -> str:
    """The name of an inner layer. If keras_hub left it without a name, as T5's norms, the member's name."""
    made = keras.src.utils.naming.to_snake_case(type(inner).__name__)
    if not type(layer).__module__.startswith("keras_hub") or inner.name.rstrip("_0123456789") != made.rstrip("_0123456789"):
        return inner.name
    return next((k for k, v in vars(layer).items() if v is inner), inner.name)


def own_name(layer: kl.Layer, variable: keras.Variable) -> str:
    """The name of a variable. If its layer left it without a name, as LayerScale does, the member's name."""
    if not variable.name.startswith("variable"):
        return variable.name
    return next(k for k, v in vars(layer).items() if v is variable)


def initial_value(rng: np.random.Generator, variable: keras.Variable) -> np.ndarray:
    """Glorot uniform kernels. Biases differ from zero, factors and variances from one, so that ignoring them is
    detected."""
    shape = variable.shape
    if variable.name in ("gamma", "moving_variance", "scale"):
        return rng.uniform(0.5, 1.5, shape)
    if len(shape) <= 1:
        return rng.uniform(-0.2, 0.2, shape)
    limit = math.sqrt(6 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
    return rng.uniform(-limit, limit, shape)
