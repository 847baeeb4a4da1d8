"""Objects that take part in `Model.fit`: Keras's callbacks of these names, and a program's own.

Hooks are those of Keras that the library's training can carry: on_train_begin, on_train_end, on_epoch_begin,
on_epoch_end, on_train_batch_end (each step is then waited for, which costs speed). A class with another hook of Keras
is refused: it would never be called.
"""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import _abi as abi
from . import errors
from ._handles import Handle
from ._library import encode, library

if TYPE_CHECKING:
    from .model import Model

_CARRIED = ("on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end", "on_train_batch_end")
_NOT_CARRIED = (
    *("on_batch_begin", "on_batch_end", "on_train_batch_begin"),
    *("on_test_begin", "on_test_end", "on_test_batch_begin", "on_test_batch_end"),
    *("on_predict_begin", "on_predict_end", "on_predict_batch_begin", "on_predict_batch_end"),
)
Logs = Mapping[str, float]


class Callback:
    """A program's own callback: a subclass overrides the hooks that it wants. `model` is the model that trains. Hooks
    may read and set its weights and learning rate. ``model.stop_training = True`` ends the fit after the present epoch
    or step. `params` has epochs, steps and verbose. If a hook raises an exception, the fit ends, and `fit` raises
    it."""

    model: Model
    params: dict[str, Any]

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Before the first step."""

    def on_train_end(self, logs: Logs | None = None) -> None:
        """After the last step, also if the fit failed."""

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Before the first batch of an epoch, which counts from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """After an epoch and its validation. logs: loss and metrics, and these of the validation as val_loss, …,
        if the epoch had one."""

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """After an update; batch counts from 0 in its epoch. logs: loss and metrics of its samples."""

    def set_model(self, model: Model) -> None:
        """Called before on_train_begin."""
        self.model = model

    def set_params(self, params: dict[str, Any]) -> None:
        """Called before on_train_begin."""
        self.params = params

    def _wants_steps(self) -> bool:
        """Whether the class, or the object, overrides the hook for steps."""
        return getattr(self.on_train_batch_end, "__func__", None) is not Callback.on_train_batch_end

    def _check(self) -> None:
        for hook in _NOT_CARRIED:
            if hasattr(self, hook):
                raise errors.ArgumentError(
                    f"{type(self).__name__}.{hook} would never be called: this package has {', '.join(_CARRIED)}"
                )


class LambdaCallback(Callback):
    """A callback of functions."""

    def __init__(
        self,
        on_epoch_begin: Callable[..., None] | None = None,
        on_epoch_end: Callable[..., None] | None = None,
        on_train_begin: Callable[..., None] | None = None,
        on_train_end: Callable[..., None] | None = None,
        on_train_batch_end: Callable[..., None] | None = None,
    ) -> None:
        functions = {
            "on_epoch_begin": on_epoch_begin,
            "on_epoch_end": on_epoch_end,
            "on_train_begin": on_train_begin,
            "on_train_end": on_train_end,
            "on_train_batch_end": on_train_batch_end,
        }
        for name, function in functions.items():
            if function is not None:
                setattr(self, name, function)


class LearningRateScheduler(Callback):
    """Sets the learning rate before each epoch: schedule(epoch, rate) gives the new one."""

    def __init__(self, schedule: Callable[[int, float], float], verbose: int = 0) -> None:
        self.schedule = schedule
        self.verbose = verbose

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        rate = float(self.schedule(epoch, self.model.learning_rate))
        self.model.learning_rate = rate
        if self.verbose:
            print(f"Epoch {epoch + 1}: learning rate {rate:g}")


# ---- the library's own ----


class _Native(Handle):
    """A callback that the library carries out."""

    def __init__(self, make: Callable[[Any], None]) -> None:
        self._struct = abi.clq_callback()
        make(c.byref(self._struct))
        super().__init__(self._struct, lambda struct: library.callback_destroy(c.byref(struct)))

    @property
    def pointer(self) -> abi.clq_callback:
        """The struct. A fit keeps it by `holding`."""
        if self.closed:
            raise errors.StateError(f"this {type(self).__name__} is closed")
        return self._struct


_MODES = {"auto": 0, "min": 1, "max": 2}


def _monitor(name: str, mode: str, min_delta: float) -> abi.clq_monitor:
    if mode not in _MODES:
        raise errors.ArgumentError(f"mode={mode!r}: expected auto, min or max")
    coded = encode(name)
    if len(coded) >= abi.MONITOR_NAME_MAX:
        raise errors.ArgumentError(f"monitor={name!r}: the name has more than {abi.MONITOR_NAME_MAX - 1} bytes")
    return abi.clq_monitor(coded, _MODES[mode], min_delta)


class EarlyStopping(_Native):
    """Keras's EarlyStopping: ends the fit after `patience` epochs in a row without an improvement."""

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        config = abi.clq_early_stopping(
            _monitor(monitor, mode, abs(min_delta)),
            int(patience),
            int(start_from_epoch),
            baseline is not None,
            baseline if baseline is not None else 0.0,
            restore_best_weights,
        )
        super().__init__(lambda out: library.callback_early_stopping(c.byref(config), out))

    @classmethod
    def parse(cls, text: str) -> EarlyStopping:
        """As ``--early-stopping``: "patience=3,restore_best=1"."""
        config = abi.clq_early_stopping()
        library.early_stopping_parse(encode(text), c.byref(config))
        made = cls.__new__(cls)
        _Native.__init__(made, lambda out: library.callback_early_stopping(c.byref(config), out))
        return made

    def _result(self) -> abi.clq_early_stopping_result:
        result = abi.clq_early_stopping_result()
        library.early_stopping_read(c.byref(self.pointer), c.byref(result))
        return result

    @property
    def stopped(self) -> bool:
        """Whether this callback ended the last fit."""
        return bool(self._result().stopped)

    @property
    def best_epoch(self) -> int | None:
        """The best epoch of the last fit, from 0; None if there is none."""
        result = self._result()
        return int(result.best_epoch) if result.has_best else None

    @property
    def best(self) -> float | None:
        """The watched value there."""
        result = self._result()
        return float(result.best) if result.has_best else None


class ReduceLROnPlateau(_Native):
    """Keras's ReduceLROnPlateau: multiplies the learning rate by `factor` after `patience` epochs without an
    improvement."""

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
    ) -> None:
        config = abi.clq_reduce_lr(
            _monitor(monitor, mode, abs(min_delta)), factor, int(patience), int(cooldown), min_lr
        )
        super().__init__(lambda out: library.callback_reduce_lr(c.byref(config), out))

    @classmethod
    def parse(cls, text: str) -> ReduceLROnPlateau:
        """As ``--reduce-lr``: "factor=0.5,patience=2"."""
        config = library.reduce_lr_default()
        library.reduce_lr_parse(encode(text), c.byref(config))
        made = cls.__new__(cls)
        _Native.__init__(made, lambda out: library.callback_reduce_lr(c.byref(config), out))
        return made


class ModelCheckpoint(_Native):
    """Keras's ModelCheckpoint with save_best_only and save_weights_only: writes the weights to `filepath`
    (safetensors, .keras or .weights.h5) whenever an epoch is an improvement. (``fit(checkpoint=FOLDER)`` makes
    checkpoints from which a training goes on.)"""

    def __init__(self, filepath: str | os.PathLike[str], monitor: str = "val_loss", mode: str = "auto") -> None:
        watched = _monitor(monitor, mode, 0.0)
        path = encode(filepath)
        super().__init__(lambda out: library.callback_save_best(path, c.byref(watched), out))


class CSVLogger(_Native):
    """Keras's CSVLogger: a line for each epoch."""

    def __init__(self, filename: str | os.PathLike[str], append: bool = False) -> None:
        path = encode(filename)
        super().__init__(lambda out: library.callback_csv(path, append, out))
