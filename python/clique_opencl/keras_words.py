"""Translates Keras's objects into the library's words: optimizers, schedules, losses; and matches variables.

Nothing here imports Keras: the functions look at objects' class names and get_config(). They refuse what the library
would compute differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import errors

# ---- optimizers ----

#: Keras's name of a hyper-parameter and the library's.
_KEYS = {
    "learning_rate": "lr",
    "momentum": "momentum",
    "nesterov": "nesterov",
    "beta_1": "beta1",
    "beta_2": "beta2",
    "epsilon": "epsilon",
    "amsgrad": "amsgrad",
    "initial_accumulator_value": "initial_accumulator_value",
    "rho": "rho",
    "centered": "centered",
    "weight_decay": "weight_decay",
}
_OPTIMIZERS = ("SGD", "Adam", "Adagrad", "AdamW", "Adamax", "Nadam", "RMSprop", "Adadelta", "Lion", "Lamb")
#: Members of a config that have no effect on updates, or no effect with the given value.
_OPTIMIZER_NEUTRAL = {
    "use_ema": (False,),
    "loss_scale_factor": (None,),
    "gradient_accumulation_steps": (None,),
    "ema_overwrite_frequency": None,
    "ema_momentum": None,
    "name": None,
    "is_legacy_optimizer": None,
    "jit_compile": None,
}
_OPTIMIZER_HINT = {
    "use_ema": "compile(ema=0.99) keeps an average",
    "loss_scale_factor": "compile(precision='mixed', loss_scale=…) scales losses",
    "gradient_accumulation_steps": "compile(accumulate=K) accumulates",
}
_CLIPS = {"clipvalue": "value", "clipnorm": "norm", "global_clipnorm": "global_norm"}


def _number(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else repr(float(value))


def _is_object(given: Any) -> bool:
    return hasattr(given, "get_config")


def optimizer_settings(given: Any) -> dict[str, Any]:
    """The settings of a text ("adam", "sgd:lr=0.1"), or of an optimizer of Keras."""
    if isinstance(given, str):
        return {"optimizer": given.lower() if given in _OPTIMIZERS else given}
    name = type(given).__name__
    if not _is_object(given) or name not in _OPTIMIZERS:
        raise errors.ArgumentError(f"optimizer: expected a name or one of Keras's {', '.join(_OPTIMIZERS)}, not {name}")
    config = dict(given.get_config())
    settings: dict[str, Any] = {}
    keys = {}
    for key, value in config.items():
        if key == "learning_rate" and isinstance(value, Mapping):
            schedule, rate = _schedule(value)
            settings["schedule"] = schedule
            if rate is not None:
                keys["lr"] = _number(rate)
        elif key in _CLIPS:
            if value is not None:
                settings["clip"] = f"{_CLIPS[key]}={_number(value)}"
        elif key in _KEYS:
            if value is not None:
                keys[_KEYS[key]] = _number(value)
        elif key not in _OPTIMIZER_NEUTRAL or (
            _OPTIMIZER_NEUTRAL[key] is not None and value not in (_OPTIMIZER_NEUTRAL[key] or ())
        ):
            hint = _OPTIMIZER_HINT.get(key, "the library has no such hyper-parameter")
            raise errors.UnsupportedError(f"optimizer {name}: {key}={value!r} is not supported: {hint}")
    # Keras applies weight decay to all variables except those that the program named, which the config does not
    # contain. (Keras's cache of its decision for each variable says nothing, since every update fills it.)
    if any(getattr(given, "_exclude_from_weight_decay" + kind, None) for kind in ("", "_pattern")):
        raise errors.UnsupportedError(
            f"optimizer {name}: exclude_from_weight_decay is not read: compile(no_decay='bias,…') names these variables"
        )
    text = ",".join(f"{key}={value}" for key, value in keys.items())
    settings["optimizer"] = name.lower() + (f":{text}" if text else "")
    return settings


def _schedule(given: Mapping[str, Any]) -> tuple[str, Any]:
    """The text of a serialized schedule, and the optimizer's rate."""
    name, config = given.get("class_name"), dict(given.get("config") or {})
    config.pop("name", None)
    if name == "ExponentialDecay":
        rate = config.pop("initial_learning_rate")
        keys = {"decay_steps": "decay_steps", "decay_rate": "decay_rate", "staircase": "staircase"}
        word = "exponential"
    elif name == "InverseTimeDecay":
        rate = config.pop("initial_learning_rate")
        keys = {"decay_steps": "decay_steps", "decay_rate": "decay_rate", "staircase": "staircase"}
        word = "inverse_time"
    elif name == "PolynomialDecay":
        rate = config.pop("initial_learning_rate")
        keys = {"decay_steps": "decay_steps", "end_learning_rate": "end", "power": "power", "cycle": "cycle"}
        word = "polynomial"
    elif name == "CosineDecay":
        rate, target = config.pop("initial_learning_rate"), config.pop("warmup_target", None)
        steps = config.pop("warmup_steps", 0)
        if target is not None:  # decays from the target, even without a warm-up
            if steps:
                config["warmup"], config["warmup_from"] = steps, rate
            rate = target
        keys = {"decay_steps": "decay_steps", "alpha": "alpha", "warmup": "warmup", "warmup_from": "warmup_from"}
        word = "cosine"
    elif name == "CosineDecayRestarts":
        rate = config.pop("initial_learning_rate")
        keys = {key: key for key in ("first_decay_steps", "t_mul", "m_mul", "alpha")}
        word = "cosine_restarts"
    elif name == "PiecewiseConstantDecay":
        boundaries = "/".join(_number(one) for one in config.pop("boundaries"))
        values = "/".join(_number(one) for one in config.pop("values"))
        return f"piecewise:boundaries={boundaries},values={values}", None
    else:
        raise errors.UnsupportedError(
            f"learning_rate: schedule {name} is not supported: a LearningRateScheduler callback can set the rate"
        )
    unknown = [key for key in config if key not in keys]
    if unknown:
        raise errors.UnsupportedError(f"learning_rate: {name}'s {unknown[0]} is not supported")
    return word + ":" + ",".join(f"{keys[key]}={_number(value)}" for key, value in config.items()), rate


# ---- losses ----

_LOSSES = {
    "CategoricalCrossentropy": "categorical_crossentropy",
    "SparseCategoricalCrossentropy": "sparse_categorical_crossentropy",
    "BinaryCrossentropy": "binary_crossentropy",
    "MeanSquaredError": "mean_squared_error",
    "MeanAbsoluteError": "mean_absolute_error",
    "Huber": "huber",
    "Hinge": "hinge",
    "SquaredHinge": "squared_hinge",
    "CategoricalHinge": "categorical_hinge",
    "LogCosh": "log_cosh",
    "KLDivergence": "kl_divergence",
    "Poisson": "poisson",
    "CosineSimilarity": "cosine_similarity",
    "MeanAbsolutePercentageError": "mean_absolute_percentage_error",
    "MeanSquaredLogarithmicError": "mean_squared_logarithmic_error",
    "BinaryFocalCrossentropy": "binary_focal_crossentropy",
    "CategoricalFocalCrossentropy": "categorical_focal_crossentropy",
}
_LOSS_KEYS = {
    "categorical_crossentropy": ("from_logits", "label_smoothing"),
    "sparse_categorical_crossentropy": ("from_logits",),
    "binary_crossentropy": ("from_logits", "label_smoothing"),
    "huber": ("delta",),
    "binary_focal_crossentropy": ("from_logits", "label_smoothing", "alpha", "gamma", "apply_class_balancing"),
    "categorical_focal_crossentropy": ("from_logits", "label_smoothing", "alpha", "gamma"),
}
_LOSS_NEUTRAL = {
    "reduction": ("sum_over_batch_size",),
    "axis": (-1,),
    "ignore_class": (None,),
    "dtype": (None, "float32"),
    "name": None,
    "from_logits": (False,),
}


def loss_text(given: Any) -> str:
    """The text of a name ("huber:delta=2"), or of a loss of Keras."""
    if isinstance(given, str):
        return _LOSSES.get(given, given)
    name = type(given).__name__
    if not _is_object(given) or name not in _LOSSES:
        raise errors.ArgumentError(f"loss: expected a name or one of Keras's {', '.join(_LOSSES)}, not {name}")
    word, keys = _LOSSES[name], {}
    config = dict(given.get_config())
    config.pop("fn", None)
    for key, value in config.items():
        if key in _LOSS_KEYS.get(word, ()):
            keys[key] = _number(value)
        elif key == "dtype" and isinstance(value, Mapping):
            if (value.get("config") or {}).get("name") != "float32":
                raise errors.UnsupportedError(f"loss {name}: dtype={value!r} is not supported: losses are float32")
        elif key not in _LOSS_NEUTRAL or (_LOSS_NEUTRAL[key] is not None and value not in (_LOSS_NEUTRAL[key] or ())):
            raise errors.UnsupportedError(f"loss {name}: {key}={value!r} is not supported")
    return word + (":" + ",".join(f"{key}={value}" for key, value in keys.items()) if keys else "")


# ---- a model's variables ----

#: Members of keras_hub's layers that are separate layers in the library.
_TABLES = ("class_token", "distillation_token", "position_embedding", "rel_embedding", "probe")


def _own_name(layer: Any, variable: Any) -> str:
    if not variable.name.startswith("variable"):
        return variable.name
    return next((key for key, value in vars(layer).items() if value is variable), variable.name)


def _inner_name(layer: Any, inner: Any) -> str:
    """If a layer of keras_hub left an inner layer without a name, the library uses the member's name."""
    plain = inner.name.rstrip("_0123456789").replace("_", "")
    if not type(layer).__module__.startswith("keras_hub") or plain != type(inner).__name__.lower():
        return inner.name
    return next((key for key, value in vars(layer).items() if value is inner), inner.name)


def _is_model(layer: Any) -> bool:
    return any(kind.__name__ == "Model" for kind in type(layer).__mro__)


def _within(layer: Any, name: str, found: dict[str, Any]) -> None:
    if _is_model(layer):
        for inner in layer.layers:
            _within(inner, f"{name}.{inner.name}", found)
        return
    for variable in layer._trainable_variables + layer._non_trainable_variables:
        own = _own_name(layer, variable)
        found[f"{name}.{own}/embeddings" if own in _TABLES else f"{name}/{own}"] = variable
    kinds = {kind.__name__ for kind in type(layer).__mro__}
    for inner in layer._layers:
        if type(layer).__name__ == "RNN":
            for cell in getattr(inner, "cells", [inner]):
                found.update({f"{name}.{cell.name}/{one.name}": one for one in cell.variables})
        elif inner is getattr(layer, "cell", None):
            found.update({f"{name}/{one.name}": one for one in inner.variables})
        elif kinds & {"MultiHeadAttention", "GroupedQueryAttention", "GroupQueryAttention"}:
            found.update({f"{name}/{inner.name}/{one.name}": one for one in inner.variables})
        else:
            _within(inner, f"{name}.{_inner_name(layer, inner)}", found)


def variables_of(model: Any) -> dict[str, Any]:
    """The variables of a Keras model by the library's names: LAYER/VARIABLE. A dot separates a model or layer from what
    is in it."""
    found: dict[str, Any] = {}
    for layer in model.layers:
        _within(layer, layer.name, found)
    return found


def _is_of_random_numbers(variable: Any) -> bool:
    return "float" not in str(variable.dtype)


def match(model: Any, names: list[str], shapes: list[tuple[int, ...]]) -> list[Any]:
    """The variable for each name. Errors: MismatchError, if one is missing, has another shape, or is extra."""
    found = variables_of(model)
    matched = []
    for name, shape in zip(names, shapes):
        variable = found.get(name)
        if variable is None:
            raise errors.MismatchError(f"the model of Keras has no variable {name}")
        if tuple(variable.shape) != shape:
            raise errors.MismatchError(f"variable {name} is {tuple(variable.shape)} in Keras, and {shape} here")
        matched.append(variable)
    taken = {id(one) for one in matched}
    for variable in model.variables:
        if id(variable) not in taken and not _is_of_random_numbers(variable):
            raise errors.MismatchError(f"the model of Keras has a variable {variable.path} that this model has not")
    return matched


def values_of(variable: Any) -> np.ndarray:
    """A variable's values as float32."""
    value = variable.numpy() if hasattr(variable, "numpy") else np.asarray(variable)
    return np.ascontiguousarray(value, np.float32)
