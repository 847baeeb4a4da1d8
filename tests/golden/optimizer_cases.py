"""The traced runs of optimizers, of clipping and weight decay, of schedules and averages: `OPTIMIZERS`, in the group
`optimizers`.

All use the same small model. Each case's data have their own seed.
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


def scheduled(schedule: str) -> Optimizer:
    """Weights also decay, by the learning rate of each step."""
    return Optimizer("sgd", (("lr", 0.15), ("momentum", 0.5), ("weight_decay", 0.1)), schedule=schedule)


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
    case("lamb", 14, of("lamb", lr=0.01)),
    case("lamb_decay", 15, Optimizer("lamb", (("lr", 0.02), ("beta2", 0.9), ("epsilon", 0.001), ("weight_decay", 0.3)),
                                     ("global_norm", 0.5), ("bias",))),
    case("average", 16, Optimizer("adam", (("lr", 0.01),), average=0.9)),
    case("exponential", 17, scheduled("exponential:decay_steps=8,decay_rate=0.6,staircase=1")),
    case("inverse_time", 18, scheduled("inverse_time:decay_steps=5,decay_rate=0.5")),
    case("polynomial", 19, scheduled("polynomial:decay_steps=15,end=0.01,power=2,cycle=1")),
    case("piecewise", 20, scheduled("piecewise:boundaries=10/30,values=0.2/0.1/0.02")),
    case("cosine", 21, scheduled("cosine:decay_steps=30,alpha=0.1,warmup=10,warmup_from=0.01")),
    case("cosine_restarts", 22, scheduled("cosine_restarts:first_decay_steps=8,t_mul=2,m_mul=0.8,alpha=0.05")),
)  # fmt: skip
