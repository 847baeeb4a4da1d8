"""One run of Model.fit: the functions that the library calls, and what they call."""

from __future__ import annotations

import contextlib
import ctypes as c
import sys
import time
from typing import TYPE_CHECKING, Any

from . import _abi as abi
from . import errors
from ._interrupt import Interruption
from ._library import library
from .callbacks import Callback, EarlyStopping, LearningRateScheduler, _Native
from .history import History

if TYPE_CHECKING:
    from .data import Dataset
    from .model import Model

_INTERRUPTED = errors.STATUSES.index("INTERRUPTED") + 1


class Fit:
    """One fit. Keeps a callback's exception while the library ends the training, and raises it afterwards."""

    def __init__(
        self,
        model: Model,
        trainer: Any,
        data: Dataset,
        validation: Dataset | None,
        callbacks: list[Any],
        verbose: int | str,
        validation_freq: int,
    ) -> None:
        self.model, self.trainer, self.data, self.validation = model, trainer, data, validation
        self.validation_freq = validation_freq
        self.callbacks = callbacks
        for one in callbacks:
            if not isinstance(one, (Callback, _Native)):
                raise errors.ArgumentError(
                    f"callbacks: expected objects of clique_opencl.callbacks, not {type(one).__name__}"
                )
            if isinstance(one, Callback):
                one._check()
        self.verbose = 1 if verbose == "auto" else int(verbose)
        self.history = History()
        self._logs: dict[str, float] = {}  # logs of the last epoch
        self.stopping = False
        self._failure: BaseException | None = None
        self._initial = self._epochs = 0
        self._epoch, self._batch, self._step = 0, -1, 0
        self.epochs_begun = 0
        self._count: int | None = None
        self.interruption = Interruption()
        self._told = 0.0
        self._line_open = False

    def stop(self) -> None:
        library.fit_stop(self.trainer.pointer)
        self.stopping = True

    def run(
        self, epochs: int | None, initial_epoch: int, steps: int, checkpoints: Any, interruption: Interruption
    ) -> None:
        """epochs: the number of the last epoch, counted from 1; None: 1, or as many as steps needs."""
        self.interruption = interruption
        needed = -(-steps // self._updates()) if steps else 1
        total = max(int(epochs) - initial_epoch, 0) if epochs is not None else needed
        if total == 0:
            return
        self._initial = initial_epoch
        self._epochs = initial_epoch + (min(total, needed) if steps else total)
        self.history.params = {"epochs": self._epochs, "steps": self._batches(), "verbose": self.verbose}
        self._epoch, self._batch = self._place(checkpoints)
        self.epochs_begun = self._epoch
        structs = [self._struct_of(i, one) for i, one in enumerate(self.callbacks)] + self._begins()
        array = (abi.clq_callback * max(len(structs), 1))(*structs)
        # These variables hold the objects: if a callback or another thread closes one, it is destroyed after the fit.
        held_validation = self.validation.pointer if self.validation else None
        held_checkpoints = checkpoints.pointer if checkpoints else None
        config = abi.clq_fit_config(
            epochs=total if epochs is not None else 0 if steps else 1,
            steps=steps,
            validation=held_validation.value if held_validation else None,
            on_progress=abi.ON_PROGRESS(self._guarded(self._on_progress)),
            on_epoch=abi.ON_EPOCH(self._guarded(self._on_epoch)),
            checkpoints=held_checkpoints.value if held_checkpoints else None,
            callbacks=array if structs else None,
            callback_count=len(structs),
            validation_freq=self.validation_freq,
        )
        with contextlib.ExitStack() as stack:
            for one in self.callbacks:
                if isinstance(one, _Native):
                    stack.enter_context(one.holding())
            status = library.raw("fit_sized")(
                self.trainer.pointer, self.data.pointer, c.byref(config), c.sizeof(config)
            )
        del held_validation, held_checkpoints
        self._end_line()
        self.epochs_begun += bool(status)  # the fit ended in the middle of an epoch
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if status and not (status == _INTERRUPTED and interruption.came):
            raise library.failure(status)

    def _batches(self) -> int:
        """The batches of an epoch. They are counted once, since a callback may close the data."""
        if self._count is None:
            self._count = library.dataset_batches(self.data.pointer)
        return self._count

    def _updates(self) -> int:
        """The updates of an epoch."""
        return max(-(-self._batches() // self.trainer.accumulate), 1)

    def _place(self, checkpoints: Any) -> tuple[int, int]:
        """The epoch of this fit that begins or continues, and the last update in it that callbacks were told of; -1 if
        there is none."""
        place = checkpoints.continues_at() if checkpoints else None
        return (place[0], place[1] // self.trainer.accumulate - 1) if place else (0, -1)

    def _hook(self, function: Any, *arguments: Any) -> None:
        """Calls a program's own callback. Other trainers that took weights before now have older ones."""
        self.model._advance()
        with self.interruption.hook():
            function(*arguments)

    def _guarded(self, function: Any) -> Any:
        """A function that the library calls: what it raises ends the fit."""

        def call(*arguments: Any) -> int:
            try:
                if self._failure is not None:
                    return _INTERRUPTED
                function(*arguments)
            except BaseException as failure:
                self._failure = failure
                return _INTERRUPTED
            return 0

        return call

    # ---- callbacks ----

    def _struct_of(self, index: int, callback: Any) -> abi.clq_callback:
        if isinstance(callback, _Native):
            return callback.pointer
        callback.set_params(self.history.params)
        callback.set_model(self.model)

        def end(_context: Any, _trainer: Any, _status: int) -> int:
            # The library calls this in every case. An earlier failure stays the failure.
            try:
                self._hook(callback.on_train_end, self._last_logs())
            except BaseException as failure:
                self._failure = self._failure or failure
                return _INTERRUPTED
            return 0

        struct = abi.clq_callback(
            name=f"{type(callback).__name__} {index}".encode(),
            on_begin=abi.BEGIN(self._guarded(lambda *_: self._hook(callback.on_train_begin, {}))),
            on_epoch=abi.EPOCH(
                self._guarded(
                    lambda _c, _t, info: self._hook(
                        callback.on_epoch_end, self._initial + info.contents.epoch, self._last_logs()
                    )
                )
            ),
            on_end=abi.END(end),
        )
        if callback._wants_steps():
            struct.on_step = abi.STEP(self._guarded(lambda _c, _t, info: self._tell_step(callback, info.contents)))
        return struct

    def _begins(self) -> list[abi.clq_callback]:
        """A callback after all others: an epoch begins when each of them knows that the previous one has ended."""
        own = [one for one in self.callbacks if isinstance(one, Callback)]
        if not own:
            return []

        def begin(epoch: int, anew: bool = True) -> None:
            for one in own:
                if anew or not isinstance(one, LearningRateScheduler):
                    self._hook(one.on_epoch_begin, epoch, {})

        def go_on_or_begin() -> None:
            # A fit that resumes in the middle of an epoch has that epoch's rate from its checkpoint, and a schedule
            # would change it again. An epoch whose training is complete, and which only needs to be reported, does not
            # begin again.
            if self._initial + self._epoch < self._epochs and self._batch + 1 < self._updates():
                begin(self._initial + self._epoch, anew=self._batch < 0)

        def go_on(_context: Any, _trainer: Any, info: Any) -> None:
            self._batch = -1
            self._epoch = info.contents.epoch + 1
            epoch = self._initial + info.contents.epoch + 1
            stopped = any(isinstance(one, EarlyStopping) and one.stopped for one in self.callbacks)
            if epoch < self._epochs and not self.stopping and not stopped:
                begin(epoch)

        return [
            abi.clq_callback(
                name=b"epochs",
                on_begin=abi.BEGIN(self._guarded(lambda *_: go_on_or_begin())),
                on_epoch=abi.EPOCH(self._guarded(go_on)),
            )
        ]

    def _tell_step(self, callback: Callback, info: abi.clq_step_info) -> None:
        metrics = info.metrics
        logs = {metrics.names[i].decode(): metrics.values[i] for i in range(metrics.count)}
        self._hook(callback.on_train_batch_end, self._batch_of(info.step), {"loss": info.loss, **logs})

    def _batch_of(self, step: int) -> int:
        """The step's batch in the present epoch, from 0. Several callbacks are told of the same step."""
        if step != self._step:
            self._step = step
            self._batch += 1
        return self._batch

    def _last_logs(self) -> dict[str, float]:
        return dict(self._logs)

    # ---- the library's own ----

    def _on_epoch(self, _context: Any, info: Any) -> None:
        from .model import logs_of

        it = info.contents
        logs = logs_of(it.train) if it.train.samples else {}
        if it.validation.samples:
            logs |= logs_of(it.validation, "val_")
        self._logs = logs
        epoch = self._initial + it.epoch
        self.epochs_begun = it.epoch + 1
        self.history._add(epoch, logs, it.train.seconds, it.train.input_s)
        if self.verbose:
            rate = it.train.samples / it.train.seconds if it.train.seconds > 0.0 else 0.0
            figures = "  ".join(f"{name} {value:.4f}" for name, value in logs.items())
            self._line(f"Epoch {epoch + 1}/{self._epochs}  {figures}  {it.train.seconds:.1f} s  {rate:.0f} samples/s")
            self._end_line()

    def _on_progress(self, _context: Any, info: Any) -> None:
        now = time.monotonic()
        if self.verbose != 1 or now - self._told < 0.25 or not sys.stdout.isatty():
            return
        self._told = now
        it = info.contents
        done = f"{it.batch}/{it.batches}"
        if it.validation_batches:
            done = f"validation {it.validation_batch}/{it.validation_batches}"
        self._line(f"Epoch {self._initial + it.epoch + 1}/{self._epochs}  {done}  loss {it.totals.loss:.4f}")

    def _line(self, text: str) -> None:
        sys.stdout.write(("\r\033[K" if self._line_open else "") + text)
        sys.stdout.flush()
        self._line_open = True

    def _end_line(self) -> None:
        if self._line_open:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._line_open = False
