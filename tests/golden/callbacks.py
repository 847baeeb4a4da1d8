"""Records what Keras's callbacks decide, epoch by epoch, for sequences of a monitored value: callbacks.json.

    python callbacks.py [--out FILE]

The model has one weight. When an epoch ends, it equals the epoch's number, so that restored weights show their epoch.
Values are multiples of 1/64, and so are the deltas, so that ties are exact.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import keras
import numpy as np

EPOCHS = 24
RATE = 0.5


def sequences() -> list[list[float]]:
    """Sequences that fall with noise, fall and rise again, stay on a plateau, fall in steps, or rise; with NaN in
    between, NaN first, or infinity first."""
    rng = np.random.default_rng(7)
    epoch = np.arange(EPOCHS)
    shapes = [2.0 * 0.85**epoch + 0.2 * rng.normal(size=EPOCHS), (epoch - 9) ** 2 / 40 + 0.1 * rng.normal(size=EPOCHS),
              1 + 0.05 * rng.normal(size=EPOCHS), 3 - epoch // 5 * 0.5, 0.5 + epoch / 16]  # fmt: skip
    values = [(np.rint(64 * one) / 64).tolist() for one in shapes]
    between = [float("nan") if i % 3 == 1 else v for i, v in enumerate(values[0])]
    return [*values, between, [float("nan"), *values[0][1:]], [float("inf"), *values[0][1:]]]


STOPPING = (
    {"patience": 0},
    {"patience": 1},
    {"patience": 3, "restore_best_weights": True},
    {"patience": 2, "min_delta": 0.125, "restore_best_weights": True},
    {"patience": 3, "start_from_epoch": 6, "restore_best_weights": True},
    {"patience": 4, "baseline": 0.75, "restore_best_weights": True},
    {"patience": 2, "mode": "max", "restore_best_weights": True},
)
REDUCING = (
    {"patience": 1, "factor": 0.5, "min_delta": 0.0},
    {"patience": 2, "factor": 0.1, "min_delta": 0.125},
    {"patience": 2, "factor": 0.5, "min_delta": 0.0, "cooldown": 3},
    {"patience": 1, "factor": 0.25, "min_delta": 0.0, "cooldown": 1, "min_lr": 0.0625},
    {"patience": 3, "factor": 0.5, "min_delta": 0.03125, "mode": "max"},
)


SAVING = ({}, {"mode": "max"})


def saves(options: dict, values: list[float]) -> dict:
    """Runs two fits with one callback, each with half of the epochs."""

    class Counting(keras.callbacks.ModelCheckpoint):
        def on_epoch_end(self, epoch, logs=None):
            self.epoch = epoch
            super().on_epoch_end(epoch, logs)

    callback = Counting("best.weights.h5", save_best_only=True, save_weights_only=True, **options)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    saved = []
    model.save_weights = lambda *_, **__: saved.append(callback.epoch)
    callback.set_model(model)
    for epoch, value in enumerate(values):
        if epoch % (EPOCHS // 2) == 0:
            callback.on_train_begin()
        callback.on_epoch_end(epoch, {"val_loss": value})
        if epoch % (EPOCHS // 2) == EPOCHS // 2 - 1:
            callback.on_train_end()
    return {"saved": saved}


def play(callback: keras.callbacks.Callback, values: list[float]) -> dict:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(RATE), "mse")
    callback.set_model(model)
    model.stop_training = False
    callback.on_train_begin()
    rates = []
    for epoch, value in enumerate(values):
        model.set_weights([np.full((1, 1), float(epoch))])
        callback.on_epoch_end(epoch, {"val_loss": value})
        rates.append(float(model.optimizer.learning_rate.numpy()))
        if model.stop_training:
            break
    callback.on_train_end()
    return {"epochs": len(rates), "stopped": bool(model.stop_training), "rates": rates,
            "weights_of": int(model.get_weights()[0][0, 0])}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("callbacks.json"))
    values = sequences()
    kinds = (("early_stopping", keras.callbacks.EarlyStopping, STOPPING),
             ("reduce_lr", keras.callbacks.ReduceLROnPlateau, REDUCING))  # fmt: skip
    cases = []
    for kind, make, all_options in kinds:
        for options in all_options:
            for i, sequence in enumerate(values):
                found = play(make(**{"mode": "min", **options}), sequence)
                if kind == "early_stopping":
                    del found["rates"]
                else:
                    del found["stopped"], found["weights_of"], found["epochs"]
                cases.append({"callback": kind, "options": options, "values": i, **found})
    for options in SAVING:
        for i, sequence in enumerate(values):
            found = saves({"mode": "min", **options}, sequence)
            cases.append({"callback": "save_best", "options": options, "values": i, **found})
    values = [[None if np.isnan(v) else "inf" if np.isinf(v) else v for v in one] for one in values]
    record = {"keras": keras.__version__, "rate": RATE, "values": values}
    rows = ",\n  ".join(json.dumps(case) for case in cases)
    text = json.dumps(record)[:-1] + f', "cases": [\n  {rows}\n]}}\n'
    parser.parse_args().out.write_text(text)


if __name__ == "__main__":
    main()
