"""The optimizers other than SGD and Adam: options, Keras's optimizer with the same options, and the same rules with
numpy.

A rule takes a variable's gradient and its states, and returns what the update subtracts from the variable. The variable
is among the states.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import schedules

Array = np.ndarray
Weights = dict[str, Array]
Keys = dict[str, float]
States = dict[str, Array | float]

LR = {"lr": 0.001}
ADAM = {**LR, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}
DEFAULTS: dict[str, Keys] = {
    "sgd": {"lr": 0.01, "momentum": 0.0, "nesterov": 0},
    "adam": {**ADAM, "amsgrad": 0},
    "adamw": {**ADAM, "amsgrad": 0, "weight_decay": 0.004},
    "adamax": ADAM,
    "nadam": ADAM,
    "rmsprop": {**LR, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": 0},
    "adagrad": {**LR, "initial_accumulator_value": 0.1, "epsilon": 1e-7},
    "adadelta": {**LR, "rho": 0.95, "epsilon": 1e-7},
    "lion": {**LR, "beta1": 0.9, "beta2": 0.99},
    "lamb": ADAM,
}


def moments(s: States, g: Array, k: Keys) -> None:
    s["m"] = k["beta1"] * s["m"] + (1 - k["beta1"]) * g
    s["v"] = k["beta2"] * s["v"] + (1 - k["beta2"]) * g * g


def sgd(s: States, g: Array, k: Keys, t: int) -> Array:
    s["m"] = k["momentum"] * s["m"] - k["lr"] * g
    return k["lr"] * g - k["momentum"] * s["m"] if k["nesterov"] else -s["m"]


def adam(s: States, g: Array, k: Keys, t: int) -> Array:
    moments(s, g, k)
    v = s["v"]
    if k["amsgrad"]:
        v = s["most"] = np.maximum(s["most"], v)
    alpha = k["lr"] * math.sqrt(1 - k["beta2"] ** t) / (1 - k["beta1"] ** t)
    return alpha * s["m"] / (np.sqrt(v) + k["epsilon"])


def adamax(s: States, g: Array, k: Keys, t: int) -> Array:
    s["m"] = k["beta1"] * s["m"] + (1 - k["beta1"]) * g
    s["u"] = np.maximum(k["beta2"] * s["u"], np.abs(g))
    return k["lr"] / (1 - k["beta1"] ** t) * s["m"] / (s["u"] + k["epsilon"])


def nadam(s: States, g: Array, k: Keys, t: int) -> Array:
    def momentum(step: int) -> float:
        return k["beta1"] * (1 - 0.5 * 0.96**step)

    product = math.prod(momentum(i) for i in range(1, t + 1))
    moments(s, g, k)
    mean = momentum(t + 1) * s["m"] / (1 - product * momentum(t + 1)) + (1 - momentum(t)) * g / (1 - product)
    return k["lr"] * mean / (np.sqrt(s["v"] / (1 - k["beta2"] ** t)) + k["epsilon"])


def rmsprop(s: States, g: Array, k: Keys, t: int) -> Array:
    under = s["v"] = k["rho"] * s["v"] + (1 - k["rho"]) * g * g
    if k["centered"]:
        s["mean"] = k["rho"] * s["mean"] + (1 - k["rho"]) * g
        under = under - s["mean"] ** 2
    s["m"] = k["momentum"] * s["m"] + k["lr"] * g / np.sqrt(under + k["epsilon"])
    return s["m"]


def adagrad(s: States, g: Array, k: Keys, t: int) -> Array:
    s["sum"] = s["sum"] + g * g
    return k["lr"] * g / np.sqrt(k["initial_accumulator_value"] + s["sum"] + k["epsilon"])


def adadelta(s: States, g: Array, k: Keys, t: int) -> Array:
    s["v"] = k["rho"] * s["v"] + (1 - k["rho"]) * g * g
    step = np.sqrt(s["steps"] + k["epsilon"]) / np.sqrt(s["v"] + k["epsilon"]) * g
    s["steps"] = k["rho"] * s["steps"] + (1 - k["rho"]) * step * step
    return k["lr"] * step


def lion(s: States, g: Array, k: Keys, t: int) -> Array:
    direction = np.sign(k["beta1"] * s["m"] + (1 - k["beta1"]) * g)
    s["m"] = k["beta2"] * s["m"] + (1 - k["beta2"]) * g
    return k["lr"] * direction


def lamb(s: States, g: Array, k: Keys, t: int) -> Array:
    moments(s, g, k)
    step = s["m"] / (1 - k["beta1"] ** t) / (np.sqrt(s["v"] / (1 - k["beta2"] ** t)) + k["epsilon"])
    weights, length = float(np.linalg.norm(s["w"])), float(np.linalg.norm(step))
    return (weights / length if weights > 0 and length > 0 else 1.0) * k["lr"] * step


RULES: dict[str, Callable[[States, Array, Keys, int], Array]] = {
    "sgd": sgd, "adam": adam, "adamw": adam, "adamax": adamax, "nadam": nadam, "rmsprop": rmsprop,
    "adagrad": adagrad, "adadelta": adadelta, "lion": lion, "lamb": lamb,
}  # fmt: skip


def clipped(gradients: Weights, kind: str, limit: float) -> Weights:
    """Clips by `value`, by each variable's `norm`, or by the `global_norm`."""
    if kind == "value":
        return {k: np.clip(g, -limit, limit) for k, g in gradients.items()}
    norms = {k: float(np.linalg.norm(g)) for k, g in gradients.items()}
    if kind == "global_norm":
        norms = dict.fromkeys(norms, math.sqrt(sum(n * n for n in norms.values())))
    return {k: g * min(1.0, limit / norms[k]) for k, g in gradients.items()}


class Updater:
    """Updates weights in place; scalars take the arrays' type."""

    def __init__(self, name: str, keys: Keys, clip: tuple[str, float] | None, spared: tuple[str, ...],
                 schedule: str = ""):  # fmt: skip
        self.rule, self.keys = RULES[name], {"weight_decay": 0.0, **DEFAULTS[name], **keys}
        self.clip, self.spared, self.t = clip, spared, 0
        self.schedule = schedule
        self.states: dict[str, States] = defaultdict(lambda: defaultdict(float))

    def __call__(self, weights: Weights, gradients: Weights) -> None:
        keys = dict(self.keys)
        if self.schedule:
            keys["lr"] = schedules.rate(self.schedule, keys["lr"], self.t)
        self.t += 1
        for name, g in (clipped(gradients, *self.clip) if self.clip else gradients).items():
            w = weights[name]
            if not any(part in name for part in self.spared):
                w = w - w * keys["weight_decay"] * keys["lr"]
            self.states[name]["w"] = w
            weights[name][...] = w - self.rule(self.states[name], g, keys, self.t)


@dataclass(frozen=True)
class Optimizer:
    """Any optimizer by its name, with clipping, weight decay, averaging and schedule."""

    name: str
    keys: tuple[tuple[str, float], ...] = ()
    clip: tuple[str, float] | None = None
    spared: tuple[str, ...] = ()
    average: float = 0.0  # momentum of a moving average of the weights
    schedule: str = ""

    def spec(self) -> str:
        return self.name + ":" * bool(self.keys) + ",".join(f"{k}={v:g}" for k, v in self.keys)

    def args(self) -> list[str]:
        clip = ["--clip", f"{self.clip[0]}={self.clip[1]:g}"] if self.clip else []
        average = ["--ema", f"{self.average:g}"] if self.average else []
        schedule = ["--schedule", self.schedule] if self.schedule else []
        return [*clip, *(["--no-decay", ",".join(self.spared)] if self.spared else []), *average, *schedule]

    def keras(self) -> object:
        import keras

        classes = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "adamax": "Adamax", "nadam": "Nadam", "lion": "Lion",
                   "lamb": "Lamb", "rmsprop": "RMSprop", "adagrad": "Adagrad", "adadelta": "Adadelta"}  # fmt: skip
        names = {"lr": "learning_rate", "beta1": "beta_1", "beta2": "beta_2"}
        flags = ("nesterov", "amsgrad", "centered")
        clips = {"value": "clipvalue", "norm": "clipnorm", "global_norm": "global_clipnorm"}
        options = {names.get(k, k): bool(v) if k in flags else float(v) for k, v in self.keys}
        if self.clip:
            options[clips[self.clip[0]]] = self.clip[1]
        if self.average:
            options |= {"use_ema": True, "ema_momentum": self.average}
        if self.schedule:
            options["learning_rate"] = schedules.keras_schedule(self.schedule, dict(self.keys)["lr"])
        optimizer = getattr(keras.optimizers, classes[self.name])(**options)
        if self.spared:
            optimizer.exclude_from_weight_decay(var_names=list(self.spared))
        return optimizer

    def updater(self, weights: Weights) -> Callable[[Weights], None]:
        update = Updater(self.name, dict(self.keys), self.clip, self.spared, self.schedule)
        return lambda gradients: update(weights, gradients)
