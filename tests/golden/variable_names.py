"""Clique's names of a Keras model's variables."""

from __future__ import annotations

import keras
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
    names = {id(v): f"{name}.{v.name}/embeddings" if v.name in rows else f"{name}/{v.name}"
             for v in layer._trainable_variables + layer._non_trainable_variables}
    for inner in layer._layers:
        if inner is getattr(layer, "cell", None):
            names |= {id(v): f"{name}/{v.name}" for v in inner.variables}
        elif isinstance(layer, kl.MultiHeadAttention):
            names |= {id(v): f"{name}/{inner.name}/{v.name}" for v in inner.variables}
        else:
            names |= names_within(inner, f"{name}.{inner.name}")
    return names
