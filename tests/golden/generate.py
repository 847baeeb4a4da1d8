"""Reference traces of whole training runs, made with Keras 3 on TensorFlow.

    python generate.py --out DIR                 every case and every list of models
    python generate.py --out DIR --only NAME     one case, or `layers`, `branched` or `normalised`
    python generate.py --only NAME --seeds 20    how far float32 strays, seed by seed; writes nothing

Forward and backward passes are Keras's layers and losses under a gradient tape, in float64. The update is written here,
in float64 with the decimal constants, because Keras rounds betas and momentum to float32 even in a float64 model. For
comparison, the same run is also made with Keras's own optimizer. README.md explains the files.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

import branched_models
import layer_models
import masks
import normalised_models
from branched_cases import BRANCHED
from cases import CHAINS, STEPS, Case, CrossEntropy, Data, Weights
from family_cases import FAMILIES
from loss_cases import LOSSES
from losses import metric_of
from optimizer_cases import OPTIMIZERS
from variables import initial_value, names_of

CASES = CHAINS + BRANCHED + OPTIMIZERS + LOSSES + FAMILIES
LISTS = {"layers": layer_models, "branched": branched_models, "normalised": normalised_models}
JITTER = 1e-6
STATE_AFTER = (1, 10, STEPS)  # steps
STATE_TOLERANCE, EVALUATION_TOLERANCE = 5e-5, 1e-5


# ---- running ---------------------------------------------------------------------------------------


def as_input(x: np.ndarray) -> np.ndarray:
    """The array that a model gets: bytes are multiplied by the float32 nearest to 1/255, in float32."""
    return x if x.dtype == np.float32 else x.astype(np.float32) * (np.float32(1) / np.float32(255))


Inputs = tuple[np.ndarray, ...]  # the inputs that a model gets


def arrays_of(x: np.ndarray | Inputs) -> Inputs:
    """The samples of each input."""
    return x if isinstance(x, tuple) else (x,)


def fed(model: keras.Model, x: np.ndarray | Inputs, dtype: str, rescales: bool) -> Inputs:
    """Keeps tokens unchanged, and converts other numbers to `dtype`."""
    return tuple(
        a.astype("int32") if "int" in i.dtype else (a if rescales else as_input(a)).astype(dtype)
        for a, i in zip(arrays_of(x), model.inputs, strict=True)
    )


def built(case: Case) -> keras.Model:
    """Builds the model so that unnamed layers get the names of a session's first model."""
    keras.utils.clear_session()
    return case.build()


def use_float(dtype: str) -> None:
    """Layers use the dtype policy, losses and optimizers use floatx. Setting floatx alone would not change the
    layers."""
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)


def state_of(model: keras.Model) -> Weights:
    """Moving statistics and frozen variables, by name. A Dropout's generator, with whole numbers, does not belong to
    the state."""
    names = names_of(model)
    return {names[id(v)]: v.numpy() for v in model.non_trainable_variables if "float" in v.dtype}


def initial_weights(model: keras.Model, rng: np.random.Generator) -> Weights:
    names = names_of(model)
    return {names[id(v)]: initial_value(rng, v).astype(np.float32) for v in model.variables if "float" in v.dtype}


def batches(case: Case, count: int) -> Iterator[slice]:
    """The slices of the batches in order, epoch after epoch. An epoch's last batch is smaller unless remainders are
    dropped."""
    step = 0
    while step < STEPS:
        stop = count - count % case.batch if case.drop_remainder else count
        for first in range(0, stop, case.batch):
            if step < STEPS:
                yield slice(first, min(first + case.batch, count))
            step += 1


def weights_of(case: Case, data: Data) -> np.ndarray | None:
    """The weights of samples: their own weights, or those of their classes by Keras's function."""
    if case.class_weights:
        return class_weight_to_sample_weights(data[1], dict(enumerate(case.class_weights)))
    if not case.sample_weights:
        return None
    return (np.random.default_rng(case.seed + 1000).integers(0, 9, len(arrays_of(data[0])[0])) / 4).astype(np.float32)


class MaskedDropout(keras.layers.Dropout):
    """A Dropout whose masks are those of masks.py."""

    number = 0  # the layer's number among the model's Dropouts
    step = 1  # the first is 1
    seed_of_run = 0

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not training:
            return inputs
        factors = masks.factors(self.rate, self.seed_of_run, self.number, self.step, np.arange(inputs.shape[0]),
                                inputs.shape[1:])  # fmt: skip
        return inputs * tf.constant(factors, inputs.dtype)


def masked_dropouts(case: Case, model: keras.Model) -> list[MaskedDropout]:
    """Gives the model's Dropouts the masks of the case's seed."""
    found = [one for one in model.layers if isinstance(one, keras.layers.Dropout)]
    assert (case.dropout_seed is None) == (not found)
    for number, one in enumerate(found):
        one.__class__ = MaskedDropout
        one.number, one.seed_of_run = number, case.dropout_seed
    return found


@dataclass
class Evaluation:
    """The evaluation of an output in inference mode over the training set. Only cross-entropies have an accuracy."""

    loss: float
    accuracy: float | None
    predictions_first4: list[list[float]]


def evaluate(case: Case, model: keras.Model, x: Inputs, targets: Inputs) -> list[Evaluation]:
    results = []
    for loss, y, found in zip(case.losses, targets, outputs_of(model, x, training=False), strict=True):
        accuracy = None
        if isinstance(loss, CrossEntropy):
            labels, chosen = y if loss.sparse else y.argmax(axis=-1), found.numpy().argmax(axis=-1)
            mask = keras.src.backend.get_keras_mask(found)  # Keras's means skip the masked steps
            accuracy = float(np.average(chosen == labels, weights=None if mask is None else mask.numpy()))
        value = float(loss.keras()(tf.constant(y), found))
        results.append(Evaluation(value, accuracy, found.numpy()[:4].tolist()))
    return results


def outputs_of(model: keras.Model, x: Inputs, *, training: bool) -> list[tf.Tensor]:
    inputs = [tf.convert_to_tensor(a) for a in x]
    outputs = model(inputs if len(x) > 1 else inputs[0], training=training)
    return outputs if isinstance(outputs, list) else [outputs]


@dataclass
class Trace:
    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    output_loss: list[list[float]] = field(default_factory=list)  # by step, then output
    first_grad_norms: dict[str, float] = field(default_factory=dict)
    initial: list[Evaluation] = field(default_factory=list)  # by output
    final: list[Evaluation] = field(default_factory=list)
    state: dict[int, Weights] = field(default_factory=dict)  # number of steps: state after these steps

    def deviation(self, exact: Trace) -> dict[str, float]:
        """The largest relative differences over the steps: of the loss, and of the gradient's norm. If the model has a
        state, also of the state and the evaluation at the end."""
        found = {k: float(np.max(np.abs(np.array(getattr(self, k)) / getattr(exact, k) - 1)))
                 for k in ("loss", "grad_norm")}  # fmt: skip
        if exact.state[STEPS]:
            own, theirs = self.state[STEPS], exact.state[STEPS]
            found["state"] = max(float(np.linalg.norm(own[k] - theirs[k]) / np.linalg.norm(theirs[k]))
                                 for k in theirs)  # fmt: skip
            found["evaluation"] = abs(self.final[0].loss / exact.final[0].loss - 1)
        return found


def weights_beside(output: object, by_sample: Inputs) -> Inputs:
    """If the output has a mask over each sample's steps, Keras takes sample weights as (samples, 1)."""
    return tuple(w[:, None] for w in by_sample) if keras.src.backend.get_keras_mask(output) is not None else by_sample


def differentiation(case: Case, model: keras.Model, dtype: str) -> Callable[..., tuple]:
    """A function of a batch's inputs, targets and sample weights, which returns the loss, each output's loss, and the
    gradients."""
    variables, losses_of = model.trainable_variables, [one.keras() for one in case.losses]

    def differentiate(x: Inputs, targets: Inputs, by_sample: Inputs) -> tuple:
        with tf.GradientTape() as tape:
            outputs = outputs_of(model, x, training=True)
            losses = [f(tf.convert_to_tensor(y), z, *weights_beside(z, by_sample))
                      for f, y, z in zip(losses_of, targets, outputs, strict=True)]  # fmt: skip
            weighted = zip(case.loss_weights, losses, strict=True)
            loss = tf.add_n([one if w == 1.0 else w * one for w, one in weighted] + model.losses)
        assert all(t.dtype == dtype for t in (*losses, *outputs, *variables))
        for one, output in zip(case.losses, outputs, strict=True):  # the loss uses the logits only once
            assert not isinstance(one, CrossEntropy) or not (one.from_logits and hasattr(output, "_keras_logits"))
        return loss, losses, [tf.convert_to_tensor(g) for g in tape.gradient(loss, [v.value for v in variables])]

    return differentiate


def run(case: Case, data: Data, initial: Weights, dtype: str, *, keras_update: bool = False,
        jitter: np.random.Generator | None = None) -> Trace:  # fmt: skip
    """Trains from `initial`, everything in `dtype`; the update is ours, or Keras's optimizer.

    With `jitter`, every weight is changed by up to 1e-6 of itself after every update: ten times float32's rounding, to
    find whether the trace comes near a kink of ReLU or a tie of max pooling.
    """
    use_float(dtype)
    model, optimizer = built(case), case.optimizer.keras()
    dropouts = masked_dropouts(case, model)
    variables = model.trainable_variables
    name_of = names_of(model)
    names = [name_of[id(v)] for v in variables]
    weights = {k: initial[k].astype(dtype) for k in names}
    for v in model.variables:
        if "float" in v.dtype:
            v.assign(initial[name_of[id(v)]].astype(dtype))
    update = case.optimizer.updater(weights)

    average, averages = getattr(case.optimizer, "average", 0.0), {}
    x, targets = fed(model, data[0], dtype, case.rescales), data[1:]
    by_sample = () if (factors := weights_of(case, data)) is None else (factors,)
    differentiate = differentiation(case, model, dtype)
    if not dropouts:  # the masks come from numpy, and are new for each step
        differentiate = tf.function(differentiate)
    trace = Trace(initial=evaluate(case, model, x, targets))
    for step, part in enumerate(batches(case, len(x[0])), start=1):
        for one in dropouts:
            one.step = step
        loss, losses, gradients = differentiate(*(tuple(a[part] for a in arrays) for arrays in (x, targets, by_sample)))
        norms = {
            k: float(np.linalg.norm(g.numpy().astype(np.float64)))
            for k, g in zip(names, gradients, strict=True)
        }
        trace.loss.append(float(loss))
        trace.output_loss.append([float(one) for one in losses])
        trace.grad_norm.append(math.sqrt(sum(n * n for n in norms.values())))
        trace.first_grad_norms = trace.first_grad_norms or norms
        if keras_update:
            optimizer.apply(gradients, variables)
        else:
            update({k: g.numpy() for k, g in zip(names, gradients, strict=True)})
            for v, k in zip(variables, names, strict=True):
                if jitter:
                    weights[k] *= 1 + jitter.uniform(-JITTER, JITTER, weights[k].shape)
                v.assign(weights[k])
                if v.constraint is not None:
                    v.assign(v.constraint(v))
                    np.copyto(weights[k], v.numpy())
        for v, k in zip(variables, names, strict=True):
            averages[k] = average * averages[k] + (1 - average) * v.numpy() if step > 1 else v.numpy()
        if step in STATE_AFTER:
            trace.state[step] = state_of(model)
    if case.tolerance_final:
        trace.state[STEPS].update({k: v.numpy() for v, k in zip(variables, names, strict=True)})
    if average:
        if keras_update:
            averages = dict(zip(names, (a.numpy() for a in optimizer._model_variables_moving_average), strict=True))
        trace.state[STEPS].update({f"average/{k}": a for k, a in averages.items()})
    trace.final = evaluate(case, model, x, targets)
    return trace


def worst_jittered(case: Case, data: Data, initial: Weights, exact: Trace) -> dict[str, float]:
    runs = (run(case, data, initial, "float64", jitter=np.random.default_rng(i)) for i in range(1 if case.brief else 5))
    found = [r.deviation(exact) for r in runs]
    return {k: max(d[k] for d in found) for k in found[0]}


def prepare(case: Case) -> tuple[str, Data, Weights]:
    """The model as JSON, its data and its initial weights: everything that depends on the seed."""
    use_float("float32")
    model = built(case)
    rng = np.random.default_rng(case.seed)
    data = case.data(rng)
    return model.to_json(), data, initial_weights(model, rng)


# ---- writing ---------------------------------------------------------------------------------------


def write_safetensors(path: Path, tensors: Weights) -> None:
    """Header length (u64, little-endian), JSON header padded to 8 bytes, tensors without gaps."""
    header, at = {}, 0
    for k, t in tensors.items():
        header[k] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    values = b"".join(t.astype("<f4").tobytes() for t in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + values)


def train_file(stem: str, number: int) -> str:
    """`stem`: x for an input, y for an output."""
    return f"{stem}_train_{number}.npy" if number else f"{stem}_train.npy"


def rounded(value: object) -> object:
    """Rounds all fractional numbers to nine digits."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def of_outputs(case: Case, model_json: str, exact: Trace) -> dict:
    """With one output, what the case records besides its trace; else the list of outputs, in the order of
    output_layers."""
    if len(case.losses) == 1:
        accuracy = exact.initial[0].accuracy
        one = {"predictions_first4": exact.initial[0].predictions_first4}
        return one if accuracy is None else {**one, "accuracy_initial": accuracy}
    names = [layer for layer, _, _ in json.loads(model_json)["config"]["output_layers"]]
    entries = []
    for i, (name, loss) in enumerate(zip(names, case.losses, strict=True)):
        entry = {"layer": name, "loss_spec": loss.spec(), "loss_weight": case.loss_weights[i],
                 "targets": train_file("y", i), "loss": [losses[i] for losses in exact.output_loss],
                 "predictions_first4": exact.initial[i].predictions_first4}  # fmt: skip
        accuracy = exact.initial[i].accuracy
        entries.append(entry if accuracy is None else {**entry, "accuracy_initial": accuracy})
    return {"outputs": entries}


def of_metrics(case: Case, initial: Weights, data: Data) -> dict:
    """Keras's metrics of the initial model over all samples."""
    if not case.metrics:
        return {}
    use_float("float64")
    model = built(case)
    names = names_of(model)
    for v in model.variables:
        v.assign(initial[names[id(v)]].astype("float64"))
    (found,) = outputs_of(model, fed(model, data[0], "float64", case.rescales), training=False)
    values = {}
    for text in case.metrics:
        metric = metric_of(text, case.loss.from_logits)
        metric.update_state(data[1], tf.cast(found, tf.float32))  # TensorFlow's top k does not accept float64
        values[text] = np.asarray(metric.result()).tolist()
    return {"metrics_initial": values}


def of_modes(case: Case, model_json: str, exact: Trace) -> dict:
    """The differences between training and inference: moving statistics, evaluations, the layers with masks."""
    dropouts = [one["config"]["name"] for one in json.loads(model_json)["config"]["layers"]
                if one["class_name"] == "Dropout"]  # fmt: skip
    found = {}
    if dropouts:
        found["dropout"] = {"seed": case.dropout_seed, "layers": {k: i for i, k in enumerate(dropouts)}}
    if exact.state[STEPS]:
        found["state"] = {str(step): {k: v.tolist() for k, v in s.items()} for step, s in exact.state.items() if s}
    if found and not case.tolerance_final:
        (first,), (last,) = exact.initial, exact.final
        found["evaluation_initial"] = {"loss": first.loss, "accuracy": first.accuracy}
        found["evaluation_final"] = asdict(last)
    return found


def of_state(case: Case, exact: Trace) -> dict[str, float]:
    if case.tolerance_final:
        return {"state": case.tolerance_final}
    return {"state": STATE_TOLERANCE, "evaluation": EVALUATION_TOLERANCE} if exact.state[STEPS] else {}


def write_case(case: Case, out: Path) -> None:
    model_json, data, initial = prepare(case)
    exact = run(case, data, initial, "float64")
    single = run(case, data, initial, "float32")
    ends = zip([*exact.initial, *exact.final], [*single.initial, *single.final], strict=True)
    assert all(a.accuracy == b.accuracy for a, b in ends)

    deviation = {"f32": single.deviation(exact), "jitter_f64": worst_jittered(case, data, initial, exact)}
    for name in () if case.brief else ("float64", "float32"):
        own = run(case, data, initial, name, keras_update=True)
        deviation[f"keras_optimizer_f{name[5:]}"] = own.deviation(exact)
    said = rounded if case.brief else dict
    record = {
        "name": case.name,
        "args": case.args(),
        "tolerance": {"loss": case.tolerance_loss, "grad_norm": case.tolerance_grad_norm, **of_state(case, exact)},
        "steps": STEPS,
        "samples": len(arrays_of(data[0])[0]),
        "loss": exact.loss,
        "loss_f32": single.loss,
        "grad_norm": exact.grad_norm,
        "first_grad_norms": exact.first_grad_norms,
        **said(of_outputs(case, model_json, exact)),
        **said(of_modes(case, model_json, exact)),
        **of_metrics(case, initial, data),
        "deviation": deviation,
        "seed": case.seed,
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
    }
    folder = out / case.group / case.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(model_json + "\n")
    (folder / "case.json").write_text(json.dumps(record, indent=1) + "\n")
    write_safetensors(folder / "init.safetensors", initial)
    for i, samples in enumerate(arrays_of(data[0])):
        np.save(folder / train_file("x", i), samples)
    if case.sample_weights:
        np.save(folder / "w_train.npy", weights_of(case, data))
    for i, targets in enumerate(data[1:]):
        np.save(folder / train_file("y", i), targets)
    found = (f"{k} {d['loss']:.1e} {d['grad_norm']:.1e}" for k, d in deviation.items())
    print(case.name, f"loss {exact.loss[0]:.4f} -> {exact.loss[-1]:.4f}", *found, sep="  ")


def try_seeds(case: Case, count: int) -> None:
    """Prints how far rounding and jitter move the float64 run, to choose a case's seed."""
    for seed in range(1, count + 1):
        _, data, initial = prepare(replace(case, seed=seed))
        exact = run(case, data, initial, "float64")
        single = run(case, data, initial, "float32").deviation(exact)
        jittered = worst_jittered(case, data, initial, exact)
        print(f"{case.name} seed {seed}: loss, norm: float32 {single['loss']:.1e} {single['grad_norm']:.1e},"
              f" jittered {jittered['loss']:.1e} {jittered['grad_norm']:.1e}", flush=True)  # fmt: skip


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    here, names = Path(__file__).parent, [*(c.name for c in CASES), *LISTS]
    parser.add_argument("--out", type=Path, default=here, help="where to write (default: beside this file)")
    parser.add_argument("--only", choices=names, help="one case, or one list of models")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="try seeds 1..N, write nothing")
    options = parser.parse_args()

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    for case in CASES:
        if options.only in (None, case.name):
            try_seeds(case, options.seeds) if options.seeds else write_case(case, options.out)
    use_float("float32")
    for name, models in LISTS.items():
        if options.only in (None, name) and not options.seeds:
            options.out.mkdir(parents=True, exist_ok=True)
            layer_models.write(options.out / f"{name}.json", models.to_read(), models.to_refuse())


if __name__ == "__main__":
    main()
