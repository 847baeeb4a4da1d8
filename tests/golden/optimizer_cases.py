"""The traced runs of optimizers, of clipping and of weight decay: `OPTIMIZERS`, in the group `optimizers`.

All have the same small model, with data of their own seed.
"""

from __future__ import annotations

from cases import Case, CrossEntropy, dense, patterns, sequential
from optimizers import Optimizer


def case(name: str, seed: int, optimizer: Optimizer) -> Case:
    return Case(name, seed,
                sequential("small", (16,), dense(12, "tanh", "dense"), dense(6, "linear", "dense_1")),
                patterns(90, (16,), 6, 1.5, as_float=True), optimizer, CrossEntropy(from_logits=True),
                batch=16, group="optimizers", tolerance_final=1e-5)  # fmt: skip


def of(name: str, **keys: float) -> Optimizer:
    return Optimizer(name, tuple(keys.items()))


OPTIMIZERS = (
    case("adamw", 1, of("adamw", lr=0.005, weight_decay=0.5)),
    case("adam_amsgrad", 2, of("adam", lr=0.02, beta2=0.9, amsgrad=1)),
    case("adamax", 3, of("adamax", lr=0.01)),
    case("nadam", 4, of("nadam", lr=0.005)),
    case("rmsprop", 5, of("rmsprop", lr=0.003)),
    case("rmsprop_centered", 6, of("rmsprop", lr=0.002, rho=0.8, momentum=0.5, epsilon=0.001, centered=1)),
    case("adagrad", 7, of("adagrad", lr=0.05)),
    case("adadelta", 8, of("adadelta", lr=1, epsilon=0.001)),
    case("lion", 9, of("lion", lr=0.001, weight_decay=0.3)),
    case("sgd_decay", 10, Optimizer("sgd", (("lr", 0.05), ("momentum", 0.9), ("weight_decay", 0.2)), None, ("bias",))),
    case("clip_value", 11, Optimizer("sgd", (("lr", 0.5),), ("value", 0.02))),
    case("clip_norm", 12, Optimizer("adam", (("lr", 0.01),), ("norm", 0.3))),
    case("clip_global_norm", 13, Optimizer("sgd", (("lr", 0.1), ("momentum", 0.9), ("nesterov", 1)), ("global_norm", 0.5))),
)  # fmt: skip
