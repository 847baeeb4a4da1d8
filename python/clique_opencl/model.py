"""Models: from Keras or by name; training, evaluation and prediction on devices; weights."""

from __future__ import annotations

import contextlib
import ctypes as c
import json
import operator
import os
import pathlib
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _abi as abi
from . import errors, keras_words
from ._fit import Fit
from ._handles import Handle
from ._interrupt import interruptible
from ._library import encode, library
from .callbacks import CSVLogger, EarlyStopping, ModelCheckpoint, ReduceLROnPlateau
from .data import Arrays, Dataset, arrays_of
from .devices import Device, Selection, System
from .history import History
from .settings import Settings, Use, describe, find, text_of

_BATCH = 32  # Keras's
_BY_DATA = frozenset(("sample_dtype", "sample_weights", "inference_only"))  # settings that depend on the data


def _shape(shape: abi.clq_shape) -> tuple[int, ...]:
    return tuple(shape.dims[: shape.rank])


def logs_of(totals: abi.clq_totals, prefix: str = "") -> dict[str, float]:
    """Loss and metrics by name."""
    metrics = totals.metrics
    named = {prefix + metrics.names[i].decode(): metrics.values[i] for i in range(metrics.count)}
    return {prefix + "loss": totals.loss, **named}


class _Trainer(Handle):
    """A model on devices, for samples of one type."""

    def __init__(self, model: Model, config: abi.clq_trainer_config, selection: Selection) -> None:
        pointer = c.c_void_p()
        with selection.system.use:
            library.trainer_create_sized(
                model.pointer, c.byref(selection._devices), c.byref(config), c.sizeof(config), c.byref(pointer)
            )
        super().__init__(pointer, library.trainer_destroy, (model, selection.system))
        self.is_bytes = config.sample_dtype == abi.Dtype.U8
        self.batch = config.global_batch
        self.weighted = bool(config.sample_weights)
        self.inference = bool(config.inference_only)
        self.class_weight: str | None = None
        self.stopped = False  # by Ctrl-C, perhaps after the end of its last work: then its next work would stop
        self.version = -1  # version of the model's weights that the trainer has
        self.rate: float | None = None  # the learning rate that a program set
        self.accumulate = max(config.strategy_options.accumulate, 1)

    def serves(self, is_bytes: bool, batch: int, weighted: bool) -> bool:
        return not self.stopped and self.is_bytes == is_bytes and self.batch >= batch and self.weighted >= weighted


class Model(Handle):
    """A network. Made by `from_keras`, `from_name` or `from_file`; `compile` says how it is trained. One thread at a
    time is in its functions: a second one waits."""

    def __init__(self, pointer: Any, *, keras_text: str | None = None, weights: Any = None) -> None:
        super().__init__(pointer, library.model_destroy)
        self._lock = threading.RLock()
        self._keras_text = keras_text
        self._pending: list[np.ndarray] | None = None  # weights that no trainer has yet
        self._file: _Copy | None = weights
        self._version = 0
        self._trainer: _Trainer | None = None
        self._reader: _Trainer | None = None  # evaluates and predicts what the trainer does not take
        self._settings: Settings | None = None
        self._selection: Selection | None = None
        self._metrics_given = False
        self._class_weights: str | None = None  # the class weights of compile
        self._updated = False  # whether the trainer made updates since it was made or compiled
        self._lost = False  # the weights, with a device that failed in a fit; nothing has replaced them since
        self._epochs = 0  # number of the data's epochs before the next fit: each epoch has its own order
        self._fit: Fit | None = None
        self._rate: float | None = None  # the rate that a program set and no trainer has yet
        self._was_on_devices = False  # after that, layers may no longer be frozen
        self._keras_ready = True  # prepared to be saved as .keras, if the model supports that
        self._infos = self._read_variables()

    # ---- making one ----

    @classmethod
    def from_name(cls, name: str, *, input_shape: Sequence[int] | None = None, classes: int = 0) -> Model:
        """A model by its name, as ``--model``: "resnet18", "gpt:layers=2,width=64" (docs/models.md). input_shape and
        classes take the place of what the options leave open."""
        pointer = c.c_void_p()
        shape = _shape_struct(input_shape or ())
        library.model_builtin_for(encode(name), shape, classes, c.byref(pointer))
        made = cls(pointer)
        made._keras_ready = False
        return made

    def _prepare_keras(self) -> None:
        """Prepares a model that was made by name for saving as .keras: after `freeze`, before its first trainer."""
        if not self._keras_ready:
            with contextlib.suppress(errors.UnsupportedError):  # then saving as .keras reports it
                library.model_prepare_keras(self.pointer)
            self._keras_ready = True

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, input_shape: Any = None) -> Model:
        """A file of Keras: ``.keras``, with the weights that it has, or what ``model.to_json()`` gave. input_shape: of
        a model that leaves sizes open, the shape of its input (a tuple) or of each input (a list of tuples), or a
        number: every open size."""
        name = os.fspath(path)
        sizes, _held = _sizes(input_shape)
        pointer = c.c_void_p()
        if not name.endswith(".keras"):
            library.model_read_keras_json_sized(encode(name), sizes, c.byref(pointer))
            return cls(pointer, keras_text=pathlib.Path(name).read_text(encoding="utf-8"))
        library.model_read_keras(encode(name), sizes, c.byref(pointer))
        return cls(pointer, keras_text=_text_in_archive(name), weights=_Copy(name))

    @classmethod
    def from_keras(cls, model: Any, *, input_shape: Any = None) -> Model:
        """A model of Keras with its weights, the text of ``model.to_json()``, or a file (`from_file`). Weights go by
        their names and are checked: each variable of either side has one of the other. What the library would compute
        otherwise is refused (UnsupportedError)."""
        if not isinstance(model, str) and hasattr(model, "to_json"):
            made = cls._of_text(model.to_json(), input_shape)
            made._pending = [
                keras_words.values_of(one) for one in keras_words.match(model, made.weight_names, made.weight_shapes)
            ]
            return made
        if isinstance(model, str) and model.lstrip().startswith("{"):
            return cls._of_text(model, input_shape)
        if isinstance(model, (str, os.PathLike)):
            return cls.from_file(model, input_shape=input_shape)
        raise errors.ArgumentError(
            f"from_keras: expected a model of Keras, its JSON or a path, not {type(model).__name__}"
        )

    @classmethod
    def _of_text(cls, text: str, input_shape: Any) -> Model:
        sizes, _held = _sizes(input_shape)
        pointer = c.c_void_p()
        with tempfile.TemporaryDirectory(prefix="clique-") as folder:
            path = pathlib.Path(folder, "model.json")
            path.write_text(text, encoding="utf-8")
            library.model_read_keras_json_sized(encode(path), sizes, c.byref(pointer))
        return cls(pointer, keras_text=text)

    def to_json(self) -> str:
        """The model as JSON of Keras 3: what it was read from, else a Functional model."""
        if self._keras_text is not None:
            return self._keras_text
        with tempfile.TemporaryDirectory(prefix="clique-") as folder:
            path = pathlib.Path(folder, "model.json")
            library.model_write_keras_json(self.pointer, encode(path))
            return path.read_text(encoding="utf-8")

    def to_keras(self, model: Any = None) -> Any:
        """Gives the weights to a model of Keras, which it returns. None: one that Keras makes of `to_json`."""
        if model is None:
            import keras

            model = keras.models.model_from_json(self.to_json())
        for variable, value in zip(
            keras_words.match(model, self.weight_names, self.weight_shapes), self.get_weights()
        ):
            variable.assign(value)
        return model

    # ---- what it is ----

    def _read_variables(self) -> list[tuple[str, tuple[int, ...], bool]]:
        infos = []
        for i in range(library.model_variable_count(self.pointer)):
            info = abi.clq_variable_info()
            library.model_variable(self.pointer, i, c.byref(info))
            infos.append((info.name.decode(), _shape(info.shape), bool(info.trainable)))
        return infos

    @property
    def name(self) -> str:
        """The model's name."""
        return library.model_name(self.pointer).decode()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of a sample, without the batch."""
        return _shape(library.model_input_shape(self.pointer))

    @property
    def output_names(self) -> list[str]:
        """The names of the layers that make the outputs."""
        count = library.model_output_count(self.pointer)
        return [library.model_output_name(self.pointer, i).decode() for i in range(count)]

    @property
    def output_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the outputs, without the batch."""
        count = library.model_output_count(self.pointer)
        return [_shape(library.model_output_shape(self.pointer, i)) for i in range(count)]

    @property
    def weight_names(self) -> list[str]:
        """The names of all variables, such as "conv2d/kernel", in the order of `get_weights`."""
        return [name for name, _, _ in self._infos]

    @property
    def weight_shapes(self) -> list[tuple[int, ...]]:
        """Keras's shapes, in the order of `get_weights`."""
        return [shape for _, shape, _ in self._infos]

    @property
    def trainable_names(self) -> list[str]:
        """The names of the variables that have a gradient."""
        return [name for name, _, trainable in self._infos if trainable]

    def count_params(self) -> int:
        """Values of all variables."""
        return library.model_parameter_count(self.pointer)

    def freeze(self, names: str) -> Model:
        """Excludes layers from training: names separated by commas, * for any characters. Call it before the model is
        on devices; returns the model."""
        with self._lock:
            if self._was_on_devices:
                raise errors.StateError("freeze: the model is on devices already: freeze layers before anything else")
            library.model_freeze(self.pointer, encode(names))
            self._infos = self._read_variables()
        return self

    def _input_names(self) -> list[str] | None:
        """The names in the order of the model's inputs. A dictionary's names are sorted."""
        try:
            inputs = json.loads(self._keras_text or "")["config"]["input_layers"]
        except (ValueError, KeyError, TypeError):
            return None
        if isinstance(inputs, Mapping):
            return sorted(inputs)
        if inputs and isinstance(inputs[0], str):
            return [inputs[0]]
        return [one[0] for one in inputs]

    # ---- how it is trained ----

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        *,
        strategy: str | None = None,
        devices: str | int | Device | Selection | Sequence[int | Device] | None = None,
        batch: int | None = None,
        **settings: Any,
    ) -> None:
        """How the model is trained, in Keras's words.

        optimizer: a name with Keras's defaults, "sgd:lr=0.1,momentum=0.9", or an optimizer of Keras. loss: a name,
        "huber:delta=2", or a loss of Keras; of several outputs a list, or a mapping of outputs' names. metrics: names;
        of several outputs a mapping of outputs' names, or a list with one entry for each; a single name
        is all outputs'. loss_weights: a mapping or a list. strategy, devices: as of
        ``--strategy`` and ``--devices``. batch: the global batch if `fit` is not given one.

        settings: any setting of a training with underscores for dashes, such as ``clip="norm=1"``,
        ``shard_optimizer=True``, ``precision="mixed"``, ``tune="quick"``; `clique_opencl.settings.describe` lists them.
        class_weights holds for each fit that is not given class_weight.
        Weights stay, and what the optimizer kept is forgotten.
        """
        if loss is None:
            raise errors.ArgumentError("compile: a loss is needed, such as loss='sparse_categorical_crossentropy'")
        given: dict[str, Any] = {**keras_words.optimizer_settings(optimizer), **settings}
        given["loss"] = self._of_outputs("loss", loss, keras_words.loss_text)
        given["metrics"] = self._of_outputs("metrics", metrics, _metrics_text) if metrics else "none"
        if loss_weights is not None:
            given["loss_weight"] = self._of_outputs("loss_weights", loss_weights, lambda one: repr(float(one)))
        if strategy is not None:
            given["strategy"] = strategy
        if batch is not None:
            given["batch"] = batch
        per_replica = given.pop("batch_per_replica", None)
        if batch is not None and per_replica is not None:
            raise errors.ArgumentError("compile: batch and batch_per_replica exclude each other")
        for keyword in _BY_DATA & given.keys():
            raise errors.ArgumentError(f"compile: {keyword} follows from what fit, evaluate and predict are given")
        values, of_system = Settings(), False
        for keyword, value in given.items():
            use = find(keyword).use
            if not use & (Use.TRAINER | Use.SYSTEM):
                raise errors.ArgumentError(f"compile: {keyword} is a setting of {_home(use)}")
            of_system = of_system or (bool(use & Use.SYSTEM) and value is not None)
            values.set(keyword, value)
        selection = devices
        if isinstance(selection, Selection) and of_system:
            raise errors.ArgumentError(
                "compile: devices is a Selection, whose System has its settings: give these to that System"
            )
        if not isinstance(selection, Selection):
            system = System._of(values) if of_system else System.default()
            selection = system.select(selection)
        with self._lock:
            self._refuse_in_fit("compile")
            self._hold_weights()
            self._drop_trainers()
            self._settings, self._selection = values, selection
            self._metrics_given = bool(metrics)
            self._class_weights = text_of(given.get("class_weights"))
            self._batch = batch if per_replica is None else int(per_replica) * len(selection)
            self._updated, self._rate, self._epochs = False, None, 0
            self._seed = int(settings.get("seed") or 0)

    def _refuse_in_fit(self, what: str) -> None:
        if self._fit:
            raise errors.StateError(f"{what}: a callback may not call it: the fit needs the model as it is")

    def _of_outputs(self, what: str, given: Any, text: Any) -> Any:
        names = self.output_names
        if isinstance(given, Mapping):
            for name in given:
                if name not in names:
                    raise errors.ArgumentError(
                        f"{what}: the model has no output {name!r}, only {', '.join(names)}"
                    )
            given = [given.get(name) for name in names] if what == "metrics" else given
            if isinstance(given, Mapping):
                return {name: text(one) for name, one in given.items()}
        is_list = isinstance(given, (list, tuple))
        nested = is_list and any(isinstance(one, (list, tuple)) for one in given)
        if not is_list or (what == "metrics" and not nested and len(names) == 1):
            return text(given)
        if len(given) != len(names):
            raise errors.ArgumentError(f"{what}: expected one for each of the {len(names)} outputs, not {len(given)}")
        if len(names) == 1:
            return text(given[0])
        # An output without metrics has none; the library's default would be accuracy.
        return {name: text(one) for name, one in zip(names, given) if one is not None or what == "metrics"}

    # ---- trainers ----

    def _drop_trainers(self) -> None:
        for trainer in (self._trainer, self._reader):
            if trainer:
                trainer.close()
        self._trainer = self._reader = None

    def _hold_weights(self) -> None:
        """Takes the weights out of the trainer that has them."""
        if self._pending is None and (holder := self._holder()):
            self._pending = self._read_weights(holder)

    def _holder(self) -> _Trainer | None:
        return next((one for one in (self._trainer, self._reader) if one and one.version == self._version), None)

    def _read_weights(self, trainer: _Trainer) -> list[np.ndarray]:
        values = []
        for i, shape in enumerate(self.weight_shapes):
            array = np.empty(shape, np.float32)
            library.trainer_get_variable(trainer.pointer, i, array.ctypes.data)
            values.append(array)
        return values

    def _advance(self) -> None:
        """Records that the trainer made updates: all other trainers now have older weights."""
        assert self._trainer
        self._version += 1
        self._trainer.version = self._version

    def _give_weights(self, trainer: _Trainer, lost_too: bool = False) -> None:
        """Gives the weights to a trainer that has others. lost_too: allows lost weights, since the trainer will get
        weights otherwise."""
        if trainer.version == self._version:
            return
        if self._lost and not lost_too:
            raise errors.StateError(
                "the trainer failed, and the weights are lost: give the model some by set_weights or "
                "load_weights, or go on by fit(checkpoint=…, resume=True)"
            )
        if self._file:
            library.trainer_load(trainer.pointer, encode(self._file.path))
            self._file.remove()
            self._file = None
        else:
            self._hold_weights()
            for i, array in enumerate(self._pending or []):
                library.trainer_set_variable(trainer.pointer, i, array.ctypes.data)
        self._pending, self._lost = None, False
        trainer.version = self._version

    def _new_trainer(
        self, is_bytes: bool, batch: int, weighted: bool, class_weight: str | None, inference: bool
    ) -> _Trainer:
        self._prepare_keras()
        settings, selection = self._settings, self._selection
        if settings is None:
            settings = Settings()
            settings.set("loss", "mean_squared_error")  # no loss is computed, and this one fits every output
            settings.set("metrics", "none")
        if selection is None:
            selection = self._selection = System.default().select()
        settings.set("batch", max(batch, len(selection)))
        settings.set("class-weights", None if inference else class_weight)
        config = settings.trainer_config(self.pointer, len(selection))
        config.sample_dtype = abi.Dtype.U8 if is_bytes else abi.Dtype.F32
        config.sample_weights = weighted
        config.inference_only = inference
        self._was_on_devices = True
        trainer = _Trainer(self, config, selection)
        trainer.class_weight = class_weight
        return trainer

    def _to_train(
        self, data: Dataset, batch: int, weighted: bool, class_weight: str | None, lost_too: bool = False
    ) -> _Trainer:
        old = self._trainer
        if old and old.serves(data.is_bytes, batch, weighted) and old.class_weight == class_weight:
            self._give_weights(old, lost_too)
            return old
        new = self._new_trainer(
            data.is_bytes,
            max(batch, old.batch if old else 0),
            weighted or bool(old and old.weighted),
            class_weight,
            inference=False,
        )
        rate = old.rate if old else self._rate
        if old and self._updated:
            _carry_over(old, new)
        elif rate is not None:
            library.trainer_set_learning_rate(new.pointer, rate)
            new.rate = rate
        self._give_weights(new, lost_too)
        if old:
            old.close()
        self._trainer, self._rate = new, None
        return new

    def _to_read(self, is_bytes: bool, batch: int, weighted: bool, lost_too: bool = False) -> _Trainer:
        """A trainer for evaluation and prediction, whose results do not depend on the batch."""
        for one in (self._trainer, self._reader):
            if one and one.serves(is_bytes, 1, weighted):
                self._give_weights(one)
                return one
        trainer = self._new_trainer(is_bytes, batch, weighted, None, inference=True)
        self._give_weights(trainer, lost_too)
        if self._reader:
            self._reader.close()
        self._reader = trainer
        return trainer

    def _any(self) -> _Trainer:
        """A trainer that has the weights."""
        return self._holder() or self._to_read(False, _BATCH, False)

    # ---- fit, evaluate, predict ----

    def _dataset(self, x: Any, y: Any, weights: Any, what: str) -> tuple[Dataset, bool]:
        """The dataset, and whether the caller must close it."""
        if isinstance(x, Dataset):
            if y is not None or weights is not None:
                raise errors.ArgumentError(f"{what}: a Dataset has its labels and weights: leave y and weights out")
            return x, False
        inputs = arrays_of(x, self._input_names(), "x")
        labels = arrays_of(y, self.output_names, "y") if y is not None else None
        return Dataset._of_values(inputs, labels, weights), True

    def _with_labels(self, x: Any, y: Any, weights: Any, what: str) -> tuple[Dataset, bool]:
        """Like _dataset, for calls that compute losses."""
        data, owned = self._dataset(x, y, weights, what)
        if not data.labelled:
            raise errors.ArgumentError(f"{what}: the samples have no labels: give y, or a Dataset with labels")
        return data, owned

    def _is_walked(self, data: Dataset) -> bool:
        """Whether the present fit walks over the data, so that their batches are the fit's. (An evaluation or a
        prediction returns to the fit's position afterwards.)"""
        return bool(self._fit and any(data is one for one in (self._fit.data, self._fit.validation)))

    def _need_compiled(self, what: str) -> None:
        if self._settings is None:
            raise errors.StateError(f"{what}: the model has no optimizer and no loss: call compile first")

    def fit(
        self,
        x: Arrays | Dataset,
        y: Arrays | None = None,
        batch_size: int | None = None,
        epochs: int | None = None,
        verbose: int | str = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        *,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int = 1,
        steps: int = 0,
        drop_remainder: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 0,
        keep: int = 3,
        resume: bool = False,
        early_stopping: str | None = None,
        reduce_lr: str | None = None,
        save_best: str | os.PathLike[str] | None = None,
        monitor: str | None = None,
        csv: str | os.PathLike[str] | None = None,
    ) -> History:
        """Trains, as Keras's fit with the same arguments. x, y: arrays, or lists or mappings of them, or a `Dataset`
        as x. Arrays become float32 and are taken as they are, bytes too; a Dataset of bytes goes by docs/data.md.

        epochs: None is 1, or as many as `steps` needs. steps: end after this number of updates. checkpoint: a folder,
        from which ``resume=True`` goes on bit for bit, in this process or another; checkpoint_every: updates between
        two; keep: how many stay. early_stopping, reduce_lr, save_best, monitor, csv: as the options of the command.
        initial_epoch: the number of the first epoch for the History and for callbacks in Python; the library's own
        count from 0. validation_freq: a whole number; the validation comes after each epoch whose number, counted from
        1, is a multiple of it. validation_steps: the number of batches, from the first one, of validation data in arrays;
        `Dataset.take` shortens a Dataset, and also an epoch, since Keras's steps_per_epoch is not there.

        Ctrl-C ends the training with a checkpoint, if there is a folder, and raises KeyboardInterrupt, as it does in
        `evaluate` and `predict`; the weights are those of the last update. That holds in the main thread of a program
        that has no handler of its own for SIGINT; asyncio.run has one.
        """
        self._need_compiled("fit")
        if monitor and not save_best:
            raise errors.ArgumentError("fit: monitor is what save_best goes by: give save_best, too")
        validation_freq = _count(validation_freq, "fit: validation_freq")
        has_validation = bool(validation_split) or validation_data is not None
        if validation_steps is not None and not has_validation:
            raise errors.ArgumentError("fit: validation_steps is for validation data: give validation_data, too")
        if has_validation and initial_epoch % validation_freq:  # the library counts epochs from 0
            raise errors.ArgumentError(
                f"fit: initial_epoch={initial_epoch} must be a multiple of validation_freq={validation_freq}"
            )
        with self._lock, contextlib.ExitStack() as stack:
            if self._fit:
                raise errors.StateError("fit: a callback may not call fit")
            if validation_split:
                if validation_data is not None:
                    raise errors.ArgumentError("fit: validation_split and validation_data exclude each other")
                (x, y, sample_weight), validation_data = self._split(x, y, sample_weight, validation_split)
            batch = batch_size or self._batch or _BATCH
            data, owned = self._with_labels(x, y, sample_weight, "fit")
            if owned:
                stack.enter_context(data)
            validation, largest = None, batch
            if validation_data is not None:
                of_validation = _parts(validation_data)
                if validation_steps is not None:
                    taken = _count(validation_steps, "fit: validation_steps") * (validation_batch_size or batch)
                    of_validation = self._part(*of_validation, slice(taken), "fit: validation_steps")
                validation, owned = self._with_labels(*of_validation, "validation_data")
                if owned:
                    stack.enter_context(validation)
                if validation is data and drop_remainder and len(data) % batch:
                    raise errors.ArgumentError("fit: drop_remainder would leave out samples of validation_data, too")
                if validation.is_bytes != data.is_bytes:
                    raise errors.ArgumentError("fit: samples and validation data are to be of one type")
                validation._cut(validation_batch_size or batch, False, 0)
                largest = max(batch, validation_batch_size or batch)
            # Successive fits of one model use successive orders of one seed, so that a fit from a checkpoint can repeat
            # them.
            data._cut(batch, shuffle, self._seed % 2**64, drop_remainder)
            library.dataset_seek(data.pointer, self._epochs, 0)
            weighted = data.weighted or bool(validation and validation.weighted)
            goes_on = checkpoint is not None and resume
            by_class = self._class_weights if class_weight is None else _class_weight_text(class_weight)
            trainer = self._to_train(data, largest, weighted, by_class, lost_too=goes_on)
            native = [
                EarlyStopping.parse(early_stopping) if early_stopping else None,
                ReduceLROnPlateau.parse(reduce_lr) if reduce_lr else None,
                ModelCheckpoint(save_best, monitor or "val_loss") if save_best else None,
                CSVLogger(csv, resume) if csv else None,
            ]
            for one in native:
                if one:
                    stack.enter_context(one)
            all_callbacks = [one for one in native if one] + _callback_list(callbacks)
            checkpoints = None
            if checkpoint is not None:
                checkpoints = stack.enter_context(Checkpoints(checkpoint, checkpoint_every, keep, resume))
                if resume and checkpoints.restore(trainer, data):
                    self._version += 1
                    trainer.version, trainer.rate, self._lost = self._version, None, False
            self._give_weights(trainer)  # if there was no checkpoint to resume from
            fit = Fit(self, trainer, data, validation, all_callbacks, verbose, validation_freq)
            self._fit = fit
            before = self._version
            try:
                self._advance()
                with interruptible(trainer) as interruption:
                    fit.run(epochs, int(initial_epoch), int(steps), checkpoints, interruption)
            finally:
                self._fit = None
                self._epochs += fit.epochs_begun
                self._updated = True
                self._advance()
                if library.raw("trainer_wait")(trainer.pointer):
                    self._lose(trainer, before)
            return fit.history

    def _lose(self, trainer: _Trainer, before: int) -> None:
        """Handles a trainer that has failed for good, and lost its weights. The weights from before the fit remain if a
        reader has them. A reader's later weights would belong to an unknown update."""
        self._trainer = None
        trainer.close()
        if self._reader and self._reader.version == before:
            self._reader.version = self._version
        else:
            self._lost = True

    def _split(self, x: Any, y: Any, weights: Any, share: float) -> tuple[tuple[Any, Any, Any], Any]:
        if not 0.0 < share < 1.0:
            raise errors.ArgumentError(f"fit: validation_split={share}: expected a number between 0 and 1")
        if isinstance(x, Dataset):
            raise errors.ArgumentError("fit: validation_split is for arrays; give validation_data a Dataset")
        at = int(len(arrays_of(x, self._input_names(), "x")[0]) * (1.0 - share))
        if at == 0:
            raise errors.ArgumentError(f"fit: validation_split={share} leaves no sample to train on")
        front, back = slice(at), slice(at, None)
        return self._part(x, y, weights, front, "x"), self._part(x, y, weights, back, "x")

    def _part(self, x: Any, y: Any, weights: Any, part: slice, what: str) -> tuple[Any, Any, Any]:
        """Views of samples, labels and weights."""
        if isinstance(x, Dataset):
            raise errors.ArgumentError(f"{what} is for arrays; Dataset.take shortens a Dataset")
        inputs = arrays_of(x, self._input_names(), "x")
        labels = arrays_of(y, self.output_names, "y") if y is not None else []
        return (
            [np.asarray(one)[part] for one in inputs],
            [np.asarray(one)[part] for one in labels] or None,
            None if weights is None else np.asarray(weights)[part],
        )

    def evaluate(
        self,
        x: Arrays | Dataset,
        y: Arrays | None = None,
        batch_size: int | None = None,
        verbose: int | str = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        *,
        return_dict: bool = False,
    ) -> Any:
        """Loss and metrics, as Keras's evaluate: a number without metrics, else a list, or a mapping by name. steps: the
        number of batches, from the first one, of data in arrays. verbose: in Keras's place; nothing is printed. Keras's
        callbacks are not there."""
        self._need_compiled("evaluate")
        with self._lock, contextlib.ExitStack() as stack:
            batch = batch_size or self._batch or _BATCH
            if steps is not None:
                taken = slice(_count(steps, "evaluate: steps") * batch)
                x, y, sample_weight = self._part(x, y, sample_weight, taken, "evaluate: steps")
            data, owned = self._with_labels(x, y, sample_weight, "evaluate")
            if owned:
                stack.enter_context(data)
            trainer = self._to_read(data.is_bytes, batch, data.weighted)
            if self._is_walked(data):
                self._need_order(data, "evaluate", shuffled_too=True)
            else:
                data._cut(min(batch, trainer.batch), False, 0)
            totals = abi.clq_totals()
            _interruptibly(
                trainer, "evaluate_sized", trainer.pointer, data.pointer, c.byref(totals), c.sizeof(totals)
            )
            logs = logs_of(totals)
        if return_dict:
            return logs
        return list(logs.values()) if len(logs) > 1 else logs["loss"]

    def _need_order(self, data: Dataset, what: str, shuffled_too: bool) -> None:
        """Checks that the present fit, which walks over the data, takes all samples, in order unless `shuffled_too`."""
        assert data._stages
        batch, shuffled, drops = data._stages
        if (shuffled and not shuffled_too) or (drops and len(data) % batch):
            left = "shuffles it" if shuffled and not shuffled_too else "leaves its last samples out"
            raise errors.StateError(f"{what}: the fit walks over this Dataset and {left}: give {what} another Dataset")

    def predict(
        self,
        x: Arrays | Dataset,
        batch_size: int | None = None,
        verbose: int | str = "auto",
        steps: int | None = None,
    ) -> Any:
        """The model's output for each sample (n, …) as float32, in the order of x; a list if it has several. Needs no
        `compile`. steps: the number of batches, from the first one, of samples in arrays. verbose: in Keras's place;
        nothing is printed. Keras's callbacks are not there."""
        with self._lock, contextlib.ExitStack() as stack:
            batch = batch_size or _BATCH
            if steps is not None:
                x = self._part(x, None, None, slice(_count(steps, "predict: steps") * batch), "predict: steps")[0]
            data, owned = self._dataset(x, None, None, "predict")
            if owned:
                stack.enter_context(data)
            trainer = self._to_read(data.is_bytes, batch, False)
            if self._is_walked(data):
                self._need_order(data, "predict", shuffled_too=False)
            else:
                data._cut(min(batch, trainer.batch), False, 0)
            outputs = [np.empty((len(data), *shape), np.float32) for shape in self.output_shapes]
            pointers = (c.c_void_p * len(outputs))(*(one.ctypes.data for one in outputs))
            _interruptibly(trainer, "predict_outputs", trainer.pointer, data.pointer, pointers)
        return outputs[0] if len(outputs) == 1 else outputs

    # ---- while it trains ----

    @property
    def stop_training(self) -> bool:
        """Set to True by a callback: the fit ends after the present step or epoch."""
        return bool(self._fit and self._fit.stopping)

    @stop_training.setter
    def stop_training(self, value: bool) -> None:
        if not value:
            return
        if not self._fit:
            raise errors.StateError("stop_training: no fit is under way")
        self._fit.stop()

    @property
    def learning_rate(self) -> float:
        """Of the next update; before the first fit, that of the optimizer. May be set, also by callbacks, unless a
        schedule sets it."""
        self._need_compiled("learning_rate")
        with self._lock:
            if self._trainer:
                return library.trainer_next_learning_rate(self._trainer.pointer)
            if self._rate is not None:
                return self._rate
            assert self._settings is not None and self._selection is not None
            return self._settings.trainer_config(self.pointer, len(self._selection)).optimizer.values[0]

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._need_compiled("learning_rate")
        with self._lock:
            if self._trainer:
                library.trainer_set_learning_rate(self._trainer.pointer, float(rate))
                self._trainer.rate = float(rate)
            else:
                self._rate = float(rate)

    # ---- weights ----

    def get_weights(self) -> list[np.ndarray]:
        """Copies of all variables in the order of `weight_names`, in Keras's layouts."""
        with self._lock:
            if self._pending is not None:
                return [one.copy() for one in self._pending]
            return self._read_weights(self._any())

    def get_weights_by_name(self) -> dict[str, np.ndarray]:
        """The same by names."""
        return dict(zip(self.weight_names, self.get_weights()))

    def set_weights(self, weights: Sequence[Any] | Mapping[str, Any]) -> None:
        """All variables: in the order of `get_weights`, or by name."""
        if isinstance(weights, Mapping):
            extra = [name for name in weights if name not in self.weight_names]
            lacking = [name for name in self.weight_names if name not in weights]
            if extra or lacking:
                raise errors.MismatchError(
                    f"set_weights: the model has no variable {extra[0]}"
                    if extra
                    else f"set_weights: variable {lacking[0]} is missing"
                )
            weights = [weights[name] for name in self.weight_names]
        if len(weights) != len(self._infos):
            raise errors.MismatchError(f"set_weights: expected {len(self._infos)} variables, not {len(weights)}")
        taken = []
        for (name, shape, _), value in zip(self._infos, weights):
            array = np.array(value, np.float32, order="C", ndmin=len(shape))
            if array.shape != shape:
                raise errors.MismatchError(f"set_weights: variable {name} is {shape}, not {array.shape}")
            taken.append(array)
        with self._lock:
            self._pending, self._file, self._lost = taken, None, False
            self._version += 1
            if self._fit and self._trainer:
                self._give_weights(self._trainer)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """By the path's ending: ``.keras`` and ``.weights.h5`` are Keras's files, all others safetensors with tensors
        named layer/variable."""
        with self._lock:
            trainer = self._any()
            self._give_weights(trainer)
            library.trainer_save(trainer.pointer, encode(path))

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Loads a file that `save_weights` or Keras wrote. Nothing changes if it fails."""
        with self._lock:
            trainer = self._trainer or self._reader or self._to_read(False, _BATCH, False, lost_too=True)
            library.trainer_load(trainer.pointer, encode(path))
            self._version += 1
            self._pending, self._file, self._lost = None, None, False
            trainer.version = self._version

    def swap_average(self) -> None:
        """The weights and their moving averages (``compile(ema=0.99)``) change places; a second call puts both back."""
        with self._lock:
            self._refuse_in_fit("swap_average")
            if not self._trainer:
                raise errors.StateError("swap_average: no update was made yet")
            library.trainer_swap_average(self._trainer.pointer)
            self._version += 1
            self._trainer.version = self._version

    def replicas(self) -> list[tuple[Device, int]]:
        """For each replica of the training, its device, and how many samples of a full batch it takes."""
        with self._lock:
            trainer = self._trainer or self._any()
            found = []
            for i in range(library.trainer_replicas(trainer.pointer)):
                info, share = abi.clq_device_info(), c.c_size_t()
                library.trainer_replica(trainer.pointer, i, c.byref(info), c.byref(share))
                found.append((Device._of(info), share.value))
            return found

    def close(self) -> None:
        """Gives back the devices' memory and the model."""
        with self._lock:
            self._refuse_in_fit("close")
            self._drop_trainers()
            if self._file:
                self._file.remove()
            super().close()


Model.compile.__doc__ = f"{Model.compile.__doc__}\n        Settings:\n" + "".join(
    f"        - {one}\n" for one in describe(Use.SYSTEM | Use.TRAINER)
)

# ---- what else a model is made with ----


class Checkpoints(Handle):
    """A folder of checkpoints (clique/checkpoint.h)."""

    def __init__(self, folder: str | os.PathLike[str], every: int = 0, keep: int = 3, resume: bool = False) -> None:
        config = abi.clq_checkpoints_config(encode(folder), every, keep, resume, None)
        pointer = c.c_void_p()
        library.checkpoints_open_sized(c.byref(config), c.sizeof(config), c.byref(pointer))
        super().__init__(pointer, library.checkpoints_close)

    def restore(self, trainer: Handle, data: Dataset | None) -> int:
        """The update after which the checkpoint was taken; 0 if there is none."""
        step = c.c_uint64()
        library.checkpoints_restore(
            self.pointer, trainer.pointer, data.pointer if data else None, c.byref(step)
        )
        return step.value

    def continues_at(self) -> tuple[int, int] | None:
        """The epoch, and the batch in it, at which the next fit resumes; None if it begins an epoch."""
        epoch, batch = c.c_uint64(), c.c_uint64()
        if not library.checkpoints_continue_at(self.pointer, c.byref(epoch), c.byref(batch)):
            return None
        return epoch.value, batch.value


def _count(value: Any, what: str) -> int:
    try:
        count = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = 0
    if not 1 <= count <= 10**9:
        raise errors.ArgumentError(f"{what}: expected a whole number from 1 to 1000000000")
    return count


def _parts(data: Any) -> tuple[Any, Any, Any]:
    """Samples, labels and weights of validation_data. A list is a tuple, as Keras has it."""
    if not isinstance(data, (tuple, list)):
        return data, None, None
    if not 1 <= len(data) <= 3:
        raise errors.ArgumentError(f"validation_data: expected (x, y) or (x, y, sample_weight), not {len(data)} members")
    return (*data, None, None)[:3]


def _interruptibly(trainer: _Trainer, function: str, *arguments: Any) -> None:
    """Calls a function that Ctrl-C may end."""
    with interruptible(trainer) as interruption:
        status = library.raw(function)(*arguments)
        if status and not interruption.came:
            raise library.failure(status)


def _carry_over(old: _Trainer, new: _Trainer) -> None:
    """Copies weights and optimizer state."""
    with tempfile.TemporaryDirectory(prefix="clique-") as folder:
        with Checkpoints(folder) as written:
            library.checkpoints_save(written.pointer, old.pointer, None)
            library.checkpoints_wait(written.pointer)
        with Checkpoints(folder, resume=True) as read:
            read.restore(new, None)


class _Copy:
    """A copy of a file in its present state, for later."""

    def __init__(self, path: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="clique-")
        self.path = os.path.join(self._folder, os.path.basename(path))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        shutil.copyfile(path, self.path)

    def remove(self) -> None:
        self._finalizer()


def _text_in_archive(path: str) -> str | None:
    import zipfile

    with zipfile.ZipFile(path) as archive:
        return archive.read("config.json").decode("utf-8")


def _shape_struct(shape: Sequence[int]) -> abi.clq_shape:
    if len(shape) > abi.SHAPE_MAX:
        raise errors.ArgumentError(f"input_shape: {len(shape)} axes are more than {abi.SHAPE_MAX}")
    return abi.clq_shape(len(shape), (c.c_size_t * abi.SHAPE_MAX)(*(int(one or 0) for one in shape)))


def _sizes(given: Any) -> tuple[Any, Any]:
    """The struct, and the array that it points to."""
    if given is None:
        return None, None
    if isinstance(given, int):
        return c.byref(abi.clq_keras_sizes(given, None, 0)), None
    shapes = given if given and isinstance(given[0], (list, tuple)) else [given]
    array = (abi.clq_shape * len(shapes))(*(_shape_struct(one) for one in shapes))
    return c.byref(abi.clq_keras_sizes(0, array, len(shapes))), array


def _metrics_text(given: Any) -> str:
    names = [given] if isinstance(given, str) else given or []
    for one in names:
        if not isinstance(one, str):
            raise errors.ArgumentError(
                f"metrics: expected names, as 'accuracy' or 'precision:threshold=0.7', not {type(one).__name__}"
            )
    return ",".join(names) or "none"


def _class_weight_text(given: Mapping[int, float] | None) -> str | None:
    if given is None:
        return None
    return ",".join(f"{int(key)}={float(value)!r}" for key, value in sorted(given.items())) or None


def _callback_list(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _home(use: Use) -> str:
    return "fit" if use & Use.FIT else "the command alone"
