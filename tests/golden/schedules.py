"""Schedules of the learning rate: Keras's object for a `--schedule` text, and the same formulas in double.

Keras computes rates in float32. `rate` computes them in double, as the engine does.
"""

from __future__ import annotations

import math

Values = dict[str, float | list[float]]


def parse(text: str) -> tuple[str, Values]:
    """`piecewise:boundaries=10/30,values=1/0.5/0.1` -> the name, and the given values."""
    name, _, pairs = text.partition(":")
    values: Values = {}
    for key, value in (pair.split("=") for pair in pairs.split(",") if pair):
        values[key] = [float(v) for v in value.split("/")] if key in ("boundaries", "values") else float(value)
    return name, values


def decays(v: Values, step: float) -> float:
    count = step / v["decay_steps"]
    return math.floor(count) if v.get("staircase") else count


def polynomial(v: Values, lr: float, step: float) -> float:
    steps, end = v["decay_steps"], v["end"]
    if v.get("cycle"):
        steps *= max(1, math.ceil(step / steps))
    return (lr - end) * (1 - min(step, steps) / steps) ** v["power"] + end


def piecewise(v: Values, lr: float, step: float) -> float:
    return v["values"][sum(step > b for b in v["boundaries"])]


def cosine(v: Values, lr: float, step: float) -> float:
    """Decays from the end of the warm-up, which rises from warmup_from to lr."""
    warmup, alpha = v.get("warmup", 0), v["alpha"]
    if step < warmup:
        return v["warmup_from"] + (lr - v["warmup_from"]) * step / warmup
    done = min(step - warmup, v["decay_steps"]) / v["decay_steps"]
    return lr * ((1 - alpha) * (1 + math.cos(math.pi * done)) / 2 + alpha)


def cosine_restarts(v: Values, lr: float, step: float) -> float:
    length, first, runs = v["first_decay_steps"], 0.0, 0
    while step >= first + length:
        first, length, runs = first + length, length * v["t_mul"], runs + 1
    decayed = v["m_mul"] ** runs * (1 + math.cos(math.pi * (step - first) / length)) / 2
    return lr * ((1 - v["alpha"]) * decayed + v["alpha"])


RATES = {
    "exponential": lambda v, lr, step: lr * v["decay_rate"] ** decays(v, step),
    "inverse_time": lambda v, lr, step: lr / (1 + v["decay_rate"] * decays(v, step)),
    "polynomial": polynomial, "piecewise": piecewise, "cosine": cosine, "cosine_restarts": cosine_restarts,
}  # fmt: skip


def rate(text: str, lr: float, step: int) -> float:
    """The rate of update `step`, counted from 0. The text gives every value."""
    name, values = parse(text)
    return RATES[name](values, lr, float(step))


def keras_schedule(text: str, lr: float) -> object:
    from keras.optimizers import schedules as ks

    name, v = parse(text)
    staircase = bool(v.get("staircase"))
    if name == "exponential":
        return ks.ExponentialDecay(lr, v["decay_steps"], v["decay_rate"], staircase)
    if name == "inverse_time":
        return ks.InverseTimeDecay(lr, v["decay_steps"], v["decay_rate"], staircase)
    if name == "polynomial":
        return ks.PolynomialDecay(lr, v["decay_steps"], v["end"], v["power"], bool(v.get("cycle")))
    if name == "piecewise":
        return ks.PiecewiseConstantDecay([int(b) for b in v["boundaries"]], v["values"])
    if name == "cosine_restarts":
        return ks.CosineDecayRestarts(lr, v["first_decay_steps"], v["t_mul"], v["m_mul"], v["alpha"])
    if "warmup" in v:
        return ks.CosineDecay(v["warmup_from"], v["decay_steps"], v["alpha"], warmup_target=lr,
                              warmup_steps=int(v["warmup"]))  # fmt: skip
    return ks.CosineDecay(lr, v["decay_steps"], v["alpha"])
