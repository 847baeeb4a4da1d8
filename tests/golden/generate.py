"""Reference traces of whole training runs, made with Keras 3 on TensorFlow.

    python generate.py --out DIR                 every case and layers.json
    python generate.py --out DIR --only NAME     one case, or `layers`
    python generate.py --only NAME --seeds 20    how far float32 strays, seed by seed; writes nothing

Forward and backward passes are Keras's layers and losses under a gradient tape, in float64. The
update is written here, in float64 with the decimal constants, because Keras rounds betas and momentum
to float32 even in a float64 model; the same run with Keras's own optimizer is measured beside it.
README.md explains the files.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import keras
import numpy as np
import tensorflow as tf

import layer_models
from cases import CASES, STEPS, Case, Data, Weights

JITTER = 1e-6


# ---- running ---------------------------------------------------------------------------------------


def as_input(x: np.ndarray) -> np.ndarray:
    """What a model is fed: bytes are scaled by the float32 nearest to 1/255, in float32."""
    return x if x.dtype == np.float32 else x.astype(np.float32) * (np.float32(1) / np.float32(255))


def use_float(dtype: str) -> None:
    """Layers follow the policy, losses and optimizers floatx; floatx alone leaves the layers as they were."""
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)


def tensor_name(variable: keras.Variable) -> str:
    """`layer/variable`; Keras puts the model's name in front, which is left out."""
    return "/".join(variable.path.split("/")[-2:])


def initial_weights(model: keras.Model, rng: np.random.Generator) -> Weights:
    """Glorot uniform kernels; biases off zero, so that an engine that ignores them is found out."""
    weights = {}
    for v in model.trainable_variables:
        if len(v.shape) == 1:
            w = rng.uniform(-0.2, 0.2, v.shape)
        else:
            receptive = math.prod(v.shape[:-2])
            limit = math.sqrt(6 / (receptive * (v.shape[-2] + v.shape[-1])))
            w = rng.uniform(-limit, limit, v.shape)
        weights[tensor_name(v)] = w.astype(np.float32)
    return weights


def batches(case: Case, count: int) -> Iterator[slice]:
    """In order, epoch after epoch; an epoch's last batch is ragged unless remainders are dropped."""
    step = 0
    while step < STEPS:
        stop = count - count % case.batch if case.drop_remainder else count
        for first in range(0, stop, case.batch):
            if step < STEPS:
                yield slice(first, min(first + case.batch, count))
            step += 1


@dataclass
class Trace:
    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    first_grad_norms: dict[str, float] = field(default_factory=dict)
    predictions_first4: list[list[float]] = field(default_factory=list)
    accuracy_initial: float = 0.0

    def deviation(self, exact: Trace) -> dict[str, float]:
        """The largest relative difference over the steps, for the loss and for the gradient's norm."""
        return {k: float(np.max(np.abs(np.array(getattr(self, k)) / getattr(exact, k) - 1)))
                for k in ("loss", "grad_norm")}  # fmt: skip


def run(case: Case, data: Data, initial: Weights, dtype: str, *, keras_update: bool = False,
        jitter: np.random.Generator | None = None) -> Trace:  # fmt: skip
    """Train from `initial`, everything in `dtype`; the update is ours, or Keras's optimizer.

    With `jitter`, every weight is off by up to 1e-6 of itself after every update: ten times what
    float32 rounds, to see whether the trace comes near a kink of ReLU or a tie of max pooling.
    """
    use_float(dtype)
    model, loss_of, optimizer = case.build(), case.loss.keras(), case.optimizer.keras()
    variables = model.trainable_variables
    names = [tensor_name(v) for v in variables]
    weights = {k: initial[k].astype(dtype) for k in names}
    for v, k in zip(variables, names, strict=True):
        v.assign(weights[k])
    update = case.optimizer.updater(weights)

    x, y = as_input(data[0]).astype(dtype), data[1]
    first = model(x).numpy()
    labels = y if y.ndim == 1 else y.argmax(axis=1)
    accuracy = float(np.mean(first.argmax(axis=1) == labels))
    trace = Trace(predictions_first4=first[:4].tolist(), accuracy_initial=accuracy)

    for part in batches(case, len(x)):
        with tf.GradientTape() as tape:
            output = model(tf.constant(x[part]), training=True)
            loss = loss_of(tf.constant(y[part]), output)
        assert loss.dtype == output.dtype == dtype and all(v.dtype == dtype for v in variables)
        assert case.loss.from_logits != hasattr(output, "_keras_logits")
        gradients = tape.gradient(loss, [v.value for v in variables])
        norms = {
            k: float(np.linalg.norm(g.numpy().astype(np.float64)))
            for k, g in zip(names, gradients, strict=True)
        }
        trace.loss.append(float(loss))
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
    return trace


def worst_jittered(case: Case, data: Data, initial: Weights, exact: Trace) -> dict[str, float]:
    runs = (run(case, data, initial, "float64", jitter=np.random.default_rng(i)) for i in range(5))
    found = [r.deviation(exact) for r in runs]
    return {k: max(d[k] for d in found) for k in found[0]}


def prepare(case: Case) -> tuple[str, Data, Weights]:
    """The model as JSON, its data and its initial weights: all that depends on the seed."""
    use_float("float32")
    model = case.build()
    rng = np.random.default_rng(case.seed)
    data = case.data(rng)
    return model.to_json(), data, initial_weights(model, rng)


# ---- writing ---------------------------------------------------------------------------------------


def write_safetensors(path: Path, tensors: Weights) -> None:
    """Length of the header (u64, little-endian), JSON header padded to 8 bytes, tensors back to back."""
    header, at = {}, 0
    for k, t in tensors.items():
        header[k] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    values = b"".join(t.astype("<f4").tobytes() for t in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + values)


def write_case(case: Case, out: Path) -> None:
    model_json, data, initial = prepare(case)
    exact = run(case, data, initial, "float64")
    single = run(case, data, initial, "float32")
    keras64 = run(case, data, initial, "float64", keras_update=True)
    keras32 = run(case, data, initial, "float32", keras_update=True)
    assert exact.accuracy_initial == single.accuracy_initial

    deviation = {
        "f32": single.deviation(exact),
        "jitter_f64": worst_jittered(case, data, initial, exact),
        "keras_optimizer_f64": keras64.deviation(exact),
        "keras_optimizer_f32": keras32.deviation(exact),
    }
    record = {
        "name": case.name,
        "args": case.args(),
        "tolerance": {"loss": case.tolerance_loss, "grad_norm": case.tolerance_grad_norm},
        "steps": STEPS,
        "samples": len(data[0]),
        "loss": exact.loss,
        "loss_f32": single.loss,
        "grad_norm": exact.grad_norm,
        "first_grad_norms": exact.first_grad_norms,
        "predictions_first4": exact.predictions_first4,
        "accuracy_initial": exact.accuracy_initial,
        "deviation": deviation,
        "seed": case.seed,
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
    }
    folder = out / case.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(model_json + "\n")
    (folder / "case.json").write_text(json.dumps(record, indent=1) + "\n")
    write_safetensors(folder / "init.safetensors", initial)
    np.save(folder / "x_train.npy", data[0])
    np.save(folder / "y_train.npy", data[1])
    found = (f"{k} {d['loss']:.1e} {d['grad_norm']:.1e}" for k, d in deviation.items())
    print(case.name, f"loss {exact.loss[0]:.4f} -> {exact.loss[-1]:.4f}", *found, sep="  ")


def try_seeds(case: Case, count: int) -> None:
    """How far rounding and jitter move the float64 run, for picking a case's seed."""
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
    here, names = Path(__file__).parent, [*(c.name for c in CASES), "layers"]
    parser.add_argument("--out", type=Path, default=here, help="where to write (default: beside this file)")
    parser.add_argument("--only", choices=names, help="one case, or layers.json alone")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="try seeds 1..N, write nothing")
    options = parser.parse_args()

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    for case in CASES:
        if options.only in (None, case.name):
            try_seeds(case, options.seeds) if options.seeds else write_case(case, options.out)
    if options.only in (None, "layers") and not options.seeds:
        use_float("float32")
        options.out.mkdir(parents=True, exist_ok=True)
        layer_models.write(options.out / "layers.json")


if __name__ == "__main__":
    main()
