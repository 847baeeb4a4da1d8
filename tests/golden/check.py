"""Recompute the reference traces with numpy alone, from the files a test reads.

    python check.py                 recompute every case in float64; exit 1 unless it agrees to 1e-10
    python check.py --tables        and print what README.md shows: rounding, and what mistakes cost

This module shares with generate.py only masks.py, which defines Dropout's masks, and the rules of losses.py,
optimizers.py and schedules.py, which generate.py compares with Keras. Model, weights, data and options come from the
case's folder. Layers (numpy_layers.py), the other losses and the other updates are written out. `mistakes` makes one of
them wrong on purpose.
"""

from __future__ import annotations

import argparse
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

import losses
from numpy_layers import KINDS, Array, Layer, Moment, softmax
from optimizers import Updater

AGREE = 1e-10
Weights = dict[str, Array]  # "layer/variable" -> values
Ref = tuple[str, int]  # a value: the layer, and which use of it makes the value

# ---- a case from its folder ------------------------------------------------------------------------


def read_safetensors(path: Path) -> dict[str, Array]:
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    tensors = {}
    for name, t in json.loads(raw[8 : 8 + length]).items():
        first, last = (8 + length + o for o in t["data_offsets"])
        tensors[name] = np.frombuffer(raw[first:last], "<f4").reshape(t["shape"])
    return tensors


def parse_spec(text: str) -> tuple[str, dict[str, float]]:
    """`adam:lr=0.1,beta1=0.8` -> the name, and the numbers by key."""
    name, _, pairs = text.partition(":")
    return name, {k: float(v) for k, v in (p.split("=") for p in pairs.split(",") if p)}


def parse_weights(text: str) -> dict[int, float]:
    return {int(k): float(w) for k, w in (p.split("=") for p in text.split(","))}


class Options:
    """The options of `clique train` that a case uses."""

    def __init__(self, args: list[str]):
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch", type=int)
        parser.add_argument("--steps", type=int)
        parser.add_argument("--optimizer", type=parse_spec)
        parser.add_argument("--clip")
        parser.add_argument("--no-decay")
        parser.add_argument("--ema", type=float, default=0.0)
        parser.add_argument("--schedule", default="")
        parser.add_argument("--loss")
        parser.add_argument("--class-weights", type=parse_weights, default={})
        parser.add_argument("--sample-weights")
        parser.add_argument("--metrics")  # Keras's own values are compared
        parser.add_argument("--shuffle", choices=["off"])
        parser.add_argument("--drop-remainder", action="store_true")
        parser.add_argument("--no-test", action="store_true")
        known = parser.parse_args(args)
        self.batch: int = known.batch
        self.steps: int = known.steps
        self.drop_remainder: bool = known.drop_remainder
        self.optimizer, self.optimizer_keys = known.optimizer
        kind, _, limit = (known.clip or "").partition("=")
        self.clip = (kind, float(limit)) if known.clip else None
        self.spared = tuple(known.no_decay.split(",")) if known.no_decay else ()
        known_here = self.optimizer in ("sgd", "adam") and not {"weight_decay", "amsgrad"} & {*self.optimizer_keys}
        self.average: float = known.ema
        self.schedule: str = known.schedule
        self.treated = not known_here or bool(self.clip) or bool(self.schedule)
        self.loss: str | None = known.loss
        self.class_weights: dict[int, float] = known.class_weights
        self.sample_weights: str | None = known.sample_weights


@dataclass
class Use:
    """A use of a layer: a shared layer has several."""

    layer: Layer
    inputs: list[Ref]
    output: Ref


@dataclass
class Graph:
    uses: list[Use]  # each use comes after those that it reads
    input: Ref
    outputs: list[Ref]
    ends_in_softmax: list[bool]  # by output

    def forward(self, x: Array) -> list[Array]:
        """The outputs; logits for outputs that end in softmax."""
        values = {self.input: x}
        for use in self.uses:
            values[use.output] = use.layer.forward(*(values[i] for i in use.inputs))
        return [values[o] for o in self.outputs]

    def backward(self, dy: list[Array], mistakes: frozenset[str]) -> Weights:
        """The gradient of each variable, given the gradients of the outputs."""
        slopes: dict[Ref, Array] = {}

        def contribute(to: Ref, slope: Array) -> None:
            alone = to not in slopes or "only one reader's gradient" in mistakes
            slopes[to] = slope if alone else slopes[to] + slope

        for output, slope in zip(self.outputs, dy, strict=True):
            contribute(output, slope)
        gradients: Weights = {}
        for use in reversed(self.uses):
            dx = use.layer.backward(slopes[use.output])
            for to, slope in zip(use.inputs, dx if isinstance(dx, tuple) else (dx,), strict=True):
                contribute(to, slope)
            for k, g in use.layer.gradients.items():
                name = f"{use.layer.config['name']}/{k}"
                alone = name not in gradients or "only one use's gradient" in mistakes
                gradients[name] = g if alone else gradients[name] + g
        return gradients


def calls_of(entry: dict) -> list[list[Ref]]:
    """The values that each use of a Functional model's layer reads."""
    calls = []
    for node in entry["inbound_nodes"]:
        (first,) = node["args"]
        tensors = first if isinstance(first, list) else [first]
        calls.append([tuple(t["config"]["keras_history"][:2]) for t in tensors])
    return calls


def read_graph(model: dict, weights: Weights, moment: Moment, mistakes: frozenset[str]) -> Graph:
    """Removes softmax from the outputs: the losses start from the values before softmax."""
    entries, config = model["config"]["layers"], model["config"]
    (first,) = (e for e in entries if e["class_name"] == "InputLayer")
    behind = {e["config"]["name"]: e for e in entries if e is not first}
    if model["class_name"] == "Sequential":
        chain = [e["config"]["name"] for e in entries]
        calls = {name: [[(before, 0)]] for before, name in zip(chain, chain[1:], strict=False)}
        outputs = [(chain[-1], 0)]
    else:
        calls = {name: calls_of(e) for name, e in behind.items()}
        ends = config["output_layers"]
        outputs = [tuple(end[:2]) for end in (ends if isinstance(ends[0], list) else [ends])]

    ends_in_softmax = []
    for name, _ in outputs:
        kind, own = behind[name]["class_name"], behind[name]["config"]
        ends_in_softmax.append(kind == "Softmax" or own.get("activation") == "softmax")
        if ends_in_softmax[-1]:
            assert not any((name, 0) in refs for uses in calls.values() for refs in uses)
            behind[name] = {"class_name": "Activation" if kind == "Softmax" else kind,
                            "config": {**own, "activation": "linear"}}  # fmt: skip

    graph = Graph([], (first["config"]["name"], 0), outputs, ends_in_softmax)
    known = {graph.input}
    waiting = [(name, i, refs) for name, uses in calls.items() for i, refs in enumerate(uses)]
    while waiting:
        ready = [w for w in waiting if known.issuperset(w[2])]
        assert ready, "the model has a cycle"
        for name, i, refs in ready:
            own = {k.split("/")[1]: w for k, w in weights.items() if k.split("/")[0] == name}
            layer = KINDS[behind[name]["class_name"]](behind[name]["config"], moment, mistakes, own)
            graph.uses.append(Use(layer, refs, (name, i)))
            known.add((name, i))
        waiting = [w for w in waiting if (w[0], w[1]) not in known]
    return graph


# ---- losses ----------------------------------------------------------------------------------------


@dataclass
class Loss:
    """The loss of one output: its value, and its slope in a batch that counts as `count` rows."""

    spec: str
    weight: float
    targets: Array
    of_softmax: bool
    mistakes: frozenset[str]
    weights: Array | None = None  # sample weights

    def weighted(self, z: Array, part: slice, count: int) -> tuple[float, Array]:
        """Multiplies each sample's loss and slope by the sample's weight. The mean is over the samples."""
        if self.weights is None or "weights ignored" in self.mistakes:
            return self.of(z, part, count)
        first = part.indices(len(self.targets))[0]
        rows = [self.of(z[i : i + 1], slice(first + i, first + i + 1), count) for i in range(len(z))]
        w = self.weights[part].astype(z.dtype)
        value = sum(float(a) * value for a, (value, _) in zip(w, rows, strict=True))
        return value / len(z), np.concatenate([a * slope for a, (_, slope) in zip(w, rows, strict=True)])

    def of(self, z: Array, part: slice, count: int) -> tuple[float, Array]:
        name, keys = parse_spec(self.spec)
        if name in losses.RULES:
            return self.by_rule(z, self.targets[part].astype(z.dtype), count, name, keys)
        if name.endswith("crossentropy"):
            return self.cross_entropy(z, self.targets[part], count, name, keys)
        return self.difference(z, self.targets[part].astype(z.dtype), count, name, keys)

    def cross_entropy(self, z: Array, y: Array, count: int, name: str, keys: dict) -> tuple[float, Array]:
        assert name == ("sparse_" if y.ndim == 1 else "") + "categorical_crossentropy"
        classes = z.shape[-1]
        rows = np.eye(classes)[y] if y.ndim == 1 else y.astype(np.float64)
        s = 0.0 if "no label smoothing" in self.mistakes else keys.get("label_smoothing", 0.0)
        rows = (rows * (1 - s) + s / classes).astype(z.dtype)
        if not self.of_softmax and not keys.get("from_logits"):
            whole = z.sum(axis=-1, keepdims=True)
            return float(-(rows * np.log(z / whole)).sum() / len(z)), (1 / whole - rows / z) / count
        shifted = z - z.max(axis=-1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return float(-(rows * log_p).sum() / len(z)), (np.exp(log_p) - rows) / count

    def by_rule(self, z: Array, y: Array, count: int, name: str, keys: dict) -> tuple[float, Array]:
        """Uses the rule of losses.py, which generate.py compares with Keras's loss."""
        keys = {k: v for k, v in keys.items() if f"{k} ignored" not in self.mistakes}
        x = softmax(z) if self.of_softmax else z
        values, slopes = losses.RULES[name][1](x, y, keys)
        if self.of_softmax:
            slopes = x * (slopes - (slopes * x).sum(axis=-1, keepdims=True))
        return float(values.sum() / len(z)), slopes / count

    def difference(self, z: Array, y: Array, count: int, name: str, keys: dict) -> tuple[float, Array]:
        e, d = z - y, keys.get("delta", 1.0)
        d = 1.0 if "delta ignored" in self.mistakes else d
        values, slopes = {
            "mean_squared_error": lambda: (e * e, 2 * e),
            "mean_absolute_error": lambda: (np.abs(e), np.sign(e)),
            "huber": lambda: (
                np.where(np.abs(e) <= d, e * e / 2, d * np.abs(e) - d * d / 2),
                np.clip(e, -d, d),
            ),
        }[name]()
        width = 1 if "sum over a row's values" in self.mistakes else z.shape[-1]
        return float(values.sum() / len(z) / width), slopes / (count * width)

    def accuracy(self, z: Array) -> float | None:
        name = self.spec.split(":")[0]
        if name in losses.RULES or not name.endswith("crossentropy"):
            return None
        labels = self.targets if self.targets.ndim == 1 else self.targets.argmax(axis=1)
        return float(np.mean(z.argmax(axis=1) == labels))


# ---- the run ---------------------------------------------------------------------------------------


@dataclass
class Evaluation:
    """The evaluation of an output in inference mode, over all samples."""

    loss: float
    accuracy: float | None
    predictions_first4: Array


class Run:
    """A case's training run in `dtype`."""

    def __init__(self, folder: Path, dtype: str = "float64", *mistakes: str):
        self.case = json.loads((folder / "case.json").read_text())
        self.options, self.mistakes = Options(self.case["args"]), frozenset(mistakes)
        x = np.load(folder / "x_train.npy")
        if x.dtype == np.uint8:
            x = x.astype(np.float32) * np.float32(1 / 255)
        self.x = x.astype(dtype)
        dropout = self.case.get("dropout", {})
        self.moment = Moment(seed=dropout.get("seed", 0), numbers=dropout.get("layers", {}))
        self.weights = {k: w.astype(dtype) for k, w in read_safetensors(folder / "init.safetensors").items()}
        model = json.loads((folder / "model.json").read_text())
        self.graph = read_graph(model, self.weights, self.moment, self.mistakes)
        alone = {"layer": self.graph.outputs[0][0], "loss_spec": self.options.loss, "targets": "y_train.npy"}
        self.losses = []
        for i, one in enumerate(self.case.get("outputs", [alone])):
            assert one["layer"] == self.graph.outputs[i][0]
            weight = 1.0 if "loss weights ignored" in self.mistakes else one.get("loss_weight", 1.0)
            self.losses.append(Loss(one["loss_spec"], weight, np.load(folder / one["targets"]),
                                    self.graph.ends_in_softmax[i], self.mistakes))  # fmt: skip
        for loss in self.losses:
            loss.weights = self.weights_of(folder, loss.targets)
        self.m = {k: np.zeros_like(w) for k, w in self.weights.items()}
        self.v = {k: np.zeros_like(w) for k, w in self.weights.items()}
        self.updater: Updater | None = None
        self.averages: Weights = {}
        self.loss: list[float] = []
        self.output_loss: list[list[float]] = []  # by step, then output
        self.grad_norm: list[float] = []
        self.first_grad_norms: dict[str, float] = {}
        self.state: dict[str, Weights] = {}

    def weights_of(self, folder: Path, targets: Array) -> Array | None:
        if self.options.sample_weights:
            return np.load(folder / self.options.sample_weights)
        classes = targets if targets.ndim == 1 else targets.argmax(axis=1)
        known = self.options.class_weights
        return np.array([known.get(int(c), 1.0) for c in classes]) if known else None

    def step(self, part: slice, t: int) -> None:
        self.moment.training, self.moment.step = True, t
        outputs = self.graph.forward(self.x[part])
        rows = len(outputs[0])
        count = self.options.batch if "ragged batch divided by full" in self.mistakes else rows
        found = [loss.weighted(z, part, count) for loss, z in zip(self.losses, outputs, strict=True)]
        self.output_loss.append([value for value, _ in found])
        self.loss.append(sum(one.weight * value for one, (value, _) in zip(self.losses, found, strict=True)))
        slopes = [one.weight * dy for one, (_, dy) in zip(self.losses, found, strict=True)]
        gradients = self.graph.backward(slopes, self.mistakes)
        norms = {name: float(np.linalg.norm(g.astype(np.float64))) for name, g in gradients.items()}
        if self.options.treated:
            self.update_by_rule(gradients)
        else:
            for name, g in gradients.items():
                self.weights[name] -= self.change(name, g, t)
        if self.options.average:
            part = 1 - self.options.average if t > 1 else 1.0
            for name, w in self.weights.items():
                before = self.averages.get(name, w)
                self.averages[name] = before + (w - before) * part
        self.grad_norm.append(math.sqrt(sum(n * n for n in norms.values())))
        self.first_grad_norms = self.first_grad_norms or norms
        if str(t) in self.case.get("state", {}):
            values = {**self.weights, **{f"average/{k}": a for k, a in self.averages.items()}}
            self.state[str(t)] = {k: values[k].copy() for k in self.case["state"][str(t)]}

    def update_by_rule(self, gradients: Weights) -> None:
        """Uses the rule of optimizers.py, which generate.py compares with Keras's optimizer."""
        o = self.options
        if self.updater is None:
            keys = {k: v for k, v in o.optimizer_keys.items() if f"{k} ignored" not in self.mistakes}
            clip = None if "no clipping" in self.mistakes else o.clip
            spared = () if "all decay" in self.mistakes else o.spared
            schedule = "" if "schedule ignored" in self.mistakes else o.schedule
            self.updater = Updater(o.optimizer, keys, clip, spared, schedule)
        self.updater(self.weights, gradients)

    def change(self, name: str, g: Array, t: int) -> Array:
        """The value that an update subtracts from a variable."""
        m, v, keys = self.m, self.v, self.options.optimizer_keys
        if self.options.optimizer == "sgd":
            lr, mu = keys.get("lr", 0.01), keys.get("momentum", 0.0)
            m[name] = mu * m[name] - lr * g
            nesterov = keys.get("nesterov") and "plain momentum" not in self.mistakes
            return lr * g - mu * m[name] if nesterov or "nesterov instead" in self.mistakes else -m[name]
        lr, eps = keys.get("lr", 1e-3), keys.get("epsilon", 1e-7)
        b1, b2 = keys.get("beta1", 0.9), keys.get("beta2", 0.999)
        m[name] = b1 * m[name] + (1 - b1) * g
        v[name] = b2 * v[name] + (1 - b2) * g * g
        c1, c2 = 1 - b1**t, 1 - b2**t
        if "no bias correction" in self.mistakes:
            c1 = c2 = 1.0
        if "epsilon inside the root" in self.mistakes:
            return lr * math.sqrt(c2) / c1 * m[name] / np.sqrt(v[name] + eps)
        if "epsilon not scaled by sqrt(1-b2^t)" in self.mistakes:
            return lr / c1 * m[name] / (np.sqrt(v[name] / c2) + eps)
        return lr * math.sqrt(c2) / c1 * m[name] / (np.sqrt(v[name]) + eps)

    def evaluate(self) -> list[Evaluation]:
        self.moment.training = False
        results = []
        for loss, z, of_softmax in zip(
            self.losses, self.graph.forward(self.x), self.graph.ends_in_softmax, strict=True
        ):
            value, _ = loss.of(z, slice(None), len(z))
            results.append(Evaluation(value, loss.accuracy(z), (softmax(z) if of_softmax else z)[:4]))
        return results

    def train(self) -> Run:
        self.initial = self.evaluate()
        batch, count = self.options.batch, len(self.x)
        per_epoch = count // batch if self.options.drop_remainder else math.ceil(count / batch)
        for t in range(self.options.steps):
            at = t % per_epoch * batch
            self.step(slice(at, at + batch), t + 1)  # the slice ends with the data
        self.final = self.evaluate()
        return self


def away(found: ArrayLike, expected: ArrayLike) -> float:
    """The largest relative difference."""
    return float(np.max(np.abs(np.asarray(found) / np.asarray(expected) - 1)))


def away_norms(run: Run) -> float:
    """The largest relative difference of the first step's gradients, variable by variable."""
    expected = run.case["first_grad_norms"]
    assert set(run.first_grad_norms) == set(expected)
    return max(away(n, expected[k]) for k, n in run.first_grad_norms.items())


def away_state(run: Run) -> float:
    """Moving statistics: the L2 norm of the difference divided by the trace's norm, for the worst variable in all
    recorded steps."""
    differences = [0.0]
    for step, expected in run.case.get("state", {}).items():
        assert set(run.state[step]) == set(expected)
        differences += (float(np.linalg.norm(run.state[step][k] - np.array(w)) / np.linalg.norm(w))
                        for k, w in expected.items())  # fmt: skip
    return max(differences)


def away_final(run: Run) -> float:
    """The loss in inference mode after the last step."""
    return away(run.final[0].loss, run.case["evaluation_final"]["loss"])


def check_outputs(run: Run) -> dict[str, float]:
    case, found = run.case, {"predictions": 0.0, "accuracy": 0.0}
    for i, entry in enumerate(case.get("outputs", [case])):
        predictions = away(run.initial[i].predictions_first4, entry["predictions_first4"])
        found["predictions"] = max(found["predictions"], predictions)
        accuracy = run.initial[i].accuracy
        assert (accuracy is None) == ("accuracy_initial" not in entry)
        if accuracy is not None:
            found["accuracy"] = max(found["accuracy"], abs(accuracy - entry["accuracy_initial"]))
        if entry is not case:
            found[f"loss of {entry['layer']}"] = away(
                [losses[i] for losses in run.output_loss], entry["loss"]
            )
    return found


def check_modes(run: Run) -> dict[str, float]:
    case, found = run.case, {}
    if "state" in case:
        found["state"] = away_state(run)
    if "evaluation_final" in case:
        for when, own in (("initial", run.initial[0]), ("final", run.final[0])):
            expected = case[f"evaluation_{when}"]
            found[f"{when} loss"] = away(own.loss, expected["loss"])
            found[f"{when} accuracy"] = abs(own.accuracy - expected["accuracy"])
        last = away(run.final[0].predictions_first4, case["evaluation_final"]["predictions_first4"])
        found["final predictions"] = last
    return found


def check(folder: Path) -> bool:
    run = Run(folder).train()
    case = run.case
    parts = {
        "loss": away(run.loss, case["loss"]),
        "grad_norm": away(run.grad_norm, case["grad_norm"]),
        "first_grad_norms": away_norms(run),
        **check_outputs(run),
        **check_modes(run),
    }
    good = max(parts.values()) < AGREE
    print("ok  " if good else "BAD ", folder.name, *(f"{k} {v:.0e}" for k, v in parts.items()), sep="  ")
    return good


# ---- the tables of README.md -----------------------------------------------------------------------

MISTAKES = (
    ("mlp_adam_probs", "epsilon inside the root"),
    ("mlp_adam_probs", "epsilon not scaled by sqrt(1-b2^t)"),
    ("mlp_adam_probs", "no bias correction"),
    ("mlp_adam_probs", "bias ignored"),
    ("adam_options", "epsilon inside the root"),
    ("adam_options", "epsilon not scaled by sqrt(1-b2^t)"),
    ("mlp_sgd_nesterov_logits", "plain momentum"),
    ("mlp_sgd_nesterov_logits", "ragged batch divided by full"),
    ("cnn_sgd_nesterov_ragged", "plain momentum"),
    ("cnn_sgd_nesterov_ragged", "ragged batch divided by full"),
    ("cnn_sgd_nesterov_ragged", "bias ignored"),
    ("cnn_sgd_nesterov_ragged", "max pool: last of equals"),
    ("cnn_adam_logits", "epsilon inside the root"),
    ("cnn_adam_logits", "bias ignored"),
    ("soft_labels", "no label smoothing"),
    ("conv_variants", "same pads first"),
    ("conv_variants", "average counts padding"),
    ("conv_variants", "nesterov instead"),
    ("functional_chain", "same pads first"),
    ("functional_chain", "max pool pads with 0"),
    ("lenet_chains", "slopes of layers left out"),
    ("lenet_chains", "bias ignored"),
    ("branch_add", "only one reader's gradient"),
    ("branch_add", "subtrahend's gradient not negated"),
    ("branch_concat", "only one reader's gradient"),
    ("branch_concat", "concatenate's gradients shifted"),
    ("branch_concat", "average adds"),
    ("branch_concat", "maximum's gradient to all"),
    ("fan_out3", "only one reader's gradient"),
    ("shared_layer", "only one use's gradient"),
    ("shared_layer", "only one reader's gradient"),
    ("two_outputs", "loss weights ignored"),
    ("two_outputs", "no label smoothing"),
    ("two_outputs", "only one reader's gradient"),
    ("two_outputs_mse", "loss weights ignored"),
    ("two_outputs_mse", "only one reader's gradient"),
    ("two_outputs_mse", "sum over a row's values"),
    ("residual_bn", "moving statistics in training"),
    ("residual_bn", "statistics without a gradient"),
    ("residual_bn", "variance by n - 1"),
    ("residual_bn", "moving variance by n - 1"),
    ("residual_bn", "momentum swapped"),
    ("residual_bn", "epsilon outside the root"),
    ("residual_bn", "gamma ignored"),
    ("residual_bn", "only one reader's gradient"),
    ("residual_bn", "global pool adds"),
    ("dropout_eval", "dropout without its scale"),
    ("dropout_eval", "one mask for all steps"),
    ("dropout_eval", "one mask for all rows"),
    ("dropout_eval", "one mask for all layers"),
    ("adamw", "weight_decay ignored"),
    ("adam_amsgrad", "amsgrad ignored"),
    ("rmsprop_centered", "centered ignored"),
    ("rmsprop_centered", "momentum ignored"),
    ("lion", "weight_decay ignored"),
    ("sgd_decay", "all decay"),
    ("clip_value", "no clipping"),
    ("clip_norm", "no clipping"),
    ("clip_global_norm", "no clipping"),
    ("lamb_decay", "all decay"),
    *((name, "schedule ignored") for name in ("exponential", "inverse_time", "polynomial", "piecewise", "cosine",
                                              "cosine_restarts")),
    ("mse_regression", "sum over a row's values"),
    ("mse_regression", "ragged batch divided by full"),
    ("huber_regression", "delta ignored"),
    ("mae_regression", "sum over a row's values"),
)


def tables(folders: list[Path]) -> None:
    print("\n| case | tolerance: loss, norm | Keras, float32 | numpy, float32 | jittered, float64 "
          "| Keras's optimizer, float64 | and float32 |\n" + "|---" * 7 + "|")  # fmt: skip
    for folder in folders:
        case = json.loads((folder / "case.json").read_text())
        own = Run(folder, "float32").train()
        numpy32 = {k: away(getattr(own, k), case[k]) for k in ("loss", "grad_norm")}
        columns = [case["deviation"][k] for k in case["deviation"]]
        columns.insert(1, numpy32)
        shown = (f"{d['loss']:.1e}, {d['grad_norm']:.1e}" for d in (case["tolerance"], *columns))
        print("|", " | ".join((folder.name, *shown)), "|")
    print(
        "\n| case | Keras, float32: state, evaluation | numpy, float32 | jittered, float64 |\n"
        + "|---" * 4
        + "|"
    )
    for folder in folders:
        case = json.loads((folder / "case.json").read_text())
        if "evaluation_final" in case:
            own = Run(folder, "float32").train()
            numpy32 = {"state": away_state(own), "evaluation": away_final(own)}
            columns = (case["deviation"]["f32"], numpy32, case["deviation"]["jitter_f64"])
            print(
                "|",
                " | ".join((folder.name, *(f"{d['state']:.1e}, {d['evaluation']:.1e}" for d in columns))),
                "|",
            )
    print("\n| case | mistake | moves the loss by | times tolerance | the first step's norms by "
          "| every step's norm by | state, last evaluation by |\n" + "|---" * 7 + "|")  # fmt: skip
    for name, mistake in MISTAKES:
        for folder in (f for f in folders if f.name == name):
            r = Run(folder, "float64", mistake).train()
            loss, every = away(r.loss, r.case["loss"]), away(r.grad_norm, r.case["grad_norm"])
            times = loss / r.case["tolerance"]["loss"]
            modes = f"{away_state(r):.1e}, {away_final(r):.1e}" if "evaluation_final" in r.case else ""
            print(
                f"| {name} | {mistake} | {loss:.1e} | {times:.0f} | {away_norms(r):.1e} | {every:.1e} | {modes} |"
            )


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--cases", type=Path, default=Path(__file__).parent, help="the folder of the cases")
    parser.add_argument("--tables", action="store_true", help="print the tables of README.md, too")
    options = parser.parse_args()
    folders = sorted((f.parent for f in options.cases.glob("**/case.json") if f.parts[-3] != "families"), key=lambda f: f.name)
    good = all([check(f) for f in folders])
    if options.tables:
        tables(folders)
    return 0 if good and folders else 1


if __name__ == "__main__":
    raise SystemExit(main())
