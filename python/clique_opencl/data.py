"""Datasets: samples, labels and weights."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _abi as abi
from . import errors
from ._handles import Handle
from ._library import encode, library

Arrays = Any  #: an array, a sequence of arrays, or a mapping of names to arrays
_ALL = c.c_size_t(-1).value  # shuffles the whole set
_EXACT = 1 << 24  # float32 represents all whole numbers up to here


def arrays_of(given: Arrays, names: Sequence[str] | None, what: str) -> list[np.ndarray]:
    """The arrays in their order. names: the order of a mapping's keys."""
    if isinstance(given, Mapping):
        if names is None:
            raise errors.ArgumentError(f"{what}: this model's names are not known: give a list in the model's order")
        extra = [key for key in given if key not in names]
        lacking = [name for name in names if name not in given]
        if extra or lacking:
            raise errors.ArgumentError(
                f"{what}: expected {', '.join(names)}; "
                + (f"{extra[0]!r} is none of these" if extra else f"{lacking[0]!r} is missing")
            )
        return [np.asarray(given[name]) for name in names]
    if isinstance(given, (list, tuple)) and given and all(hasattr(one, "__array__") for one in given):
        if all(getattr(one, "ndim", 0) > 0 for one in given):
            return [np.asarray(one) for one in given]
    return [np.asarray(given)]


def _values(array: np.ndarray, what: str) -> np.ndarray:
    """The array as float32, in C order. Whole numbers are accepted only if float32 represents them exactly."""
    if array.dtype.kind not in "fiub":
        raise errors.ArgumentError(f"{what}: expected numbers, not {array.dtype}")
    if array.dtype.kind in "iu" and array.dtype.itemsize > 2 and array.size:
        if max(abs(int(array.max())), abs(int(array.min()))) > _EXACT:
            raise errors.ArgumentError(f"{what}: whole numbers above 2^24 are not exact in float32")
    return np.asarray(array, np.float32, order="C")


def _labels(array: np.ndarray, what: str) -> tuple[np.ndarray, abi.Dtype]:
    if array.dtype.kind == "f":
        return np.asarray(array, np.float32, order="C"), abi.Dtype.F32
    if array.dtype.kind not in "iub":
        raise errors.ArgumentError(f"{what}: expected numbers, not {array.dtype}")
    limits = np.iinfo(np.int32)
    if array.size and (int(array.max()) > limits.max or int(array.min()) < limits.min):
        raise errors.ArgumentError(f"{what}: a label does not fit 32 bits")
    return np.asarray(array, np.int32, order="C"), abi.Dtype.I32


def _elements(array: np.ndarray) -> int:
    return int(np.prod(array.shape[1:], dtype=np.int64))


class Dataset(Handle):
    """Samples with labels, and weights if there are any. The library copies what it is given.

    x: an array (n, …), or one for each input of a model. ``uint8`` stays so until it is on the device, which divides
    it by 255, with the exceptions of docs/data.md (a model that begins with Rescaling, tokens); all other types become
    float32, and so do bytes if another input has another type. (``Model.fit`` takes arrays as Keras does: it makes
    float32 of bytes, too, and divides nothing.)
    y: labels (n, …) for each output; whole numbers or floats. None: no labels, for prediction alone. sample_weight: (n).
    """

    labelled: bool  #: whether samples have labels: without, a dataset is for prediction alone
    # Batch, shuffled, whether a smaller last batch is dropped; None: not set yet.
    _stages: tuple[int, bool, bool] | None = None

    def __init__(self, x: Arrays, y: Arrays | None = None, sample_weight: Any = None) -> None:
        inputs = arrays_of(x, None, "x")
        if not all(one.dtype == np.uint8 for one in inputs):
            inputs = [_values(one, "x") for one in inputs]
        labels = arrays_of(y, None, "y") if y is not None else None
        self._make(inputs, labels, sample_weight)

    @classmethod
    def _of_values(
        cls, inputs: Sequence[np.ndarray], labels: Sequence[np.ndarray] | None, sample_weight: Any
    ) -> Dataset:
        """Takes arrays as Keras does: all become float32."""
        made = cls.__new__(cls)
        made._make([_values(one, "x") for one in inputs], labels, sample_weight)
        return made

    @classmethod
    def open(cls, name: str | os.PathLike[str], part: str = "train", *, window: int | None = None) -> Dataset:
        """As ``--data``: "fashion-mnist", "synthetic", "text:FILE", or a folder. part: "train" or "test". window: the
        tokens of a text's window."""
        pointer = c.c_void_p()
        library.dataset_open(encode(name), encode(part), c.byref(pointer))
        made = cls.__new__(cls)
        Handle.__init__(made, pointer, library.dataset_destroy)
        if window is not None:
            library.dataset_window(made.pointer, window)
        made.labelled = True
        return made

    def _make(self, inputs: Sequence[np.ndarray], labels: Sequence[np.ndarray] | None, weights: Any) -> None:
        first = inputs[0]
        count = len(first) if first.ndim else 0
        for array, what in [(one, "x") for one in inputs] + [(one, "y") for one in labels or []]:
            if array.ndim == 0 or len(array) != count or count == 0:
                raise errors.ArgumentError(
                    f"{what}: expected rows of {count} samples, as the first array of x has, not an array {array.shape}"
                    if count
                    else f"{what}: expected at least one sample, not an array {array.shape}"
                )
            if array.size == 0:
                raise errors.ArgumentError(f"{what}: a sample has no value in an array {array.shape}")
        # The library copies labels, and needs some for each sample. If there are none, it gets zeros.
        held = [_labels(one, "y") for one in labels] if labels else [(np.zeros(count, np.int32), abi.Dtype.I32)]
        kind = abi.Dtype.U8 if first.dtype == np.uint8 else abi.Dtype.F32
        inputs = [np.ascontiguousarray(one) for one in inputs]
        shape = first.shape[1:] or (1,)
        if len(shape) > abi.SHAPE_MAX:
            raise errors.ArgumentError(f"x: {len(shape)} axes of a sample are more than {abi.SHAPE_MAX}")
        pointer = c.c_void_p()
        library.dataset_arrays(
            inputs[0].ctypes.data,
            kind,
            count,
            len(shape),
            (c.c_size_t * len(shape))(*shape),
            held[0][0].ctypes.data,
            held[0][1],
            _elements(held[0][0]),
            c.byref(pointer),
        )
        super().__init__(pointer, library.dataset_destroy)
        self.labelled = bool(labels)
        for one in inputs[1:]:
            library.dataset_add_samples(pointer, one.ctypes.data, kind, _elements(one))
        for array, dtype in held[1:]:
            library.dataset_add_labels(pointer, array.ctypes.data, dtype, _elements(array))
        if weights is not None:
            array = np.asarray(weights, np.float32, order="C")
            if array.shape != (count,):
                raise errors.ArgumentError(f"sample_weight: expected ({count},), not {array.shape}")
            library.dataset_set_weights(pointer, array.ctypes.data)

    def _cut(self, batch: int, shuffle: bool, seed: int, drop_remainder: bool = False) -> None:
        """Starts again at the first batch of epoch 0."""
        held = self.pointer
        library.dataset_shuffle(held, _ALL if shuffle else 0, seed)
        library.dataset_batch(held, batch, drop_remainder)
        library.dataset_prefetch(held, -1)
        self._stages = batch, shuffle, drop_remainder

    def _info(self) -> abi.clq_dataset_info:
        held = self.pointer
        info = abi.clq_dataset_info()
        c.pointer(info)[0] = library.dataset_get_info(held).contents
        return info

    def __len__(self) -> int:
        return self._info().samples

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of a sample; with several inputs, the number of all their values."""
        info = self._info()
        return tuple(info.shape[: info.rank])

    @property
    def is_bytes(self) -> bool:
        """Whether samples are ``uint8``."""
        return self._info().sample_dtype == abi.Dtype.U8

    @property
    def weighted(self) -> bool:
        """Whether samples have weights."""
        return bool(self._info().weighted)

    def take(self, samples: int) -> Dataset:
        """Keeps only the first samples; returns the dataset."""
        library.dataset_take(self.pointer, samples)
        return self

    def label_by_samples(self, factor: float = 1.0) -> Dataset:
        """Labels are the samples times `factor`, for autoencoders; returns the dataset."""
        library.dataset_label_by_samples(self.pointer, factor)
        self.labelled = True
        return self
