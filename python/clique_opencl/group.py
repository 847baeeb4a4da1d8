"""Collectives on arrays, over OpenCL devices of any vendors (clique/comm.h)."""

from __future__ import annotations

import ctypes as c
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import _abi as abi
from . import _opencl, errors
from ._handles import Handle
from ._library import library
from .devices import Device, Selection, System

_DTYPES = {
    "float32": abi.Dtype.F32,
    "float64": abi.Dtype.F64,
    "float16": abi.Dtype.F16,
    "int8": abi.Dtype.I8,
    "int16": abi.Dtype.I16,
    "int32": abi.Dtype.I32,
    "int64": abi.Dtype.I64,
    "uint8": abi.Dtype.U8,
    "uint16": abi.Dtype.U16,
    "uint32": abi.Dtype.U32,
    "uint64": abi.Dtype.U64,
    "bool": abi.Dtype.BOOL,
}
_libc_free = c.CDLL(None).free
_libc_free.argtypes = [c.c_void_p]
_libc_free.restype = None


def _word(kind: Any, name: str, what: str) -> int:
    try:
        return int(kind[name.upper().replace("-", "_")])
    except KeyError:
        known = ", ".join(one.name.lower().replace("_", "-") for one in kind)
        raise errors.ArgumentError(f"{what}={name!r}: expected one of {known}") from None


class Group(Handle):
    """Ranks, one on each device, and collectives among them.

    devices: as of `System.select`; a device may be several ranks ("cpu*2"), or several parts ("cpu/2"). algorithm,
    transport: as ``clique bench --cross-device-ops`` has them; "auto" takes what was measured. deadline: the seconds
    that a collective may take; 0: 30.

    Arrays go to the devices, and the results come back as new arrays. One thread at a time is in a group's calls.
    """

    def __init__(
        self,
        devices: str | int | Device | Selection | Iterable[int | Device] | None = None,
        *,
        algorithm: str = "auto",
        transport: str = "auto",
        deadline: float = 0.0,
    ) -> None:
        selection = devices if isinstance(devices, Selection) else System.default().select(devices)
        config = abi.clq_group_config(
            algorithm=_word(abi.Algorithm, algorithm, "algorithm"),
            transport=_word(abi.Transport, transport, "transport"),
            deadline_s=float(deadline),
        )
        self._lock = threading.RLock()
        self._memory: list[tuple[Any, int]] = []  # for each rank, the memory and its number of bytes
        self._queues = _queues(selection)
        ranks = (abi.clq_rank * len(self._queues))(
            *(abi.clq_rank(one.context, one.device, one.queue) for one in self._queues)
        )
        pointer = c.c_void_p()
        queues = self._queues
        try:
            with selection.system.use:
                library.group_create(ranks, len(ranks), c.byref(config), c.byref(pointer))
        except BaseException:
            _release(queues)
            raise

        def destroy(group: Any) -> None:
            library.group_destroy(group)
            _release(queues)

        super().__init__(pointer, destroy, (selection.system,))

    def __len__(self) -> int:
        return len(self._queues)

    # ---- memory ----

    def _slices(self, bytes_of_rank: int) -> Any:
        """Memory for each rank. The group reuses its earlier memory if that is large enough."""
        if not self._memory or self._memory[0][1] < bytes_of_rank:
            before, self._memory = self._memory, []
            for memory, _ in before:
                library.group_free(self.pointer, memory)
            made: list[tuple[Any, int]] = []
            try:
                for rank in range(len(self)):
                    memory = c.c_void_p()
                    library.group_alloc(self.pointer, rank, max(bytes_of_rank, 1), c.byref(memory))
                    made.append((memory, bytes_of_rank))
            except BaseException:
                for memory, _ in made:
                    library.group_free(self.pointer, memory)
                raise
            self._memory = made
        return [memory for memory, _ in self._memory]

    def _arrays(self, given: Sequence[Any]) -> tuple[list[np.ndarray], abi.Dtype]:
        arrays = [np.asarray(one, order="C") for one in given]
        if len(arrays) != len(self):
            raise errors.ArgumentError(f"expected an array for each of the {len(self)} ranks, not {len(arrays)}")
        first = arrays[0]
        for one in arrays:
            if one.dtype != first.dtype or one.shape != first.shape:
                raise errors.ArgumentError(
                    f"expected arrays of one shape and type, not {first.shape} {first.dtype} and "
                    f"{one.shape} {one.dtype}"
                )
        return arrays, _dtype(first)

    def _run(
        self, arrays: Sequence[np.ndarray | None], result_elements: int, dtype: np.dtype, call: Any
    ) -> list[np.ndarray]:
        """Runs a collective. Arrays are at the start of each rank's memory, results after them. call: (in, out)."""
        held = self.pointer  # holds the group, and so its queues
        size = max((one.nbytes for one in arrays if one is not None), default=0)
        at = -(-size // 64) * 64
        memory = self._slices(at + result_elements * dtype.itemsize)
        for queue, one, where in zip(self._queues, arrays, memory):
            if one is not None:
                queue.write(where, 0, one)
        kind = abi.clq_slice * len(self)
        call(kind(*(abi.clq_slice(one, 0) for one in memory)), kind(*(abi.clq_slice(one, at) for one in memory)))
        results = []
        for queue, where in zip(self._queues, memory):
            result = np.empty(result_elements, dtype)
            queue.read(where, at, result)
            results.append(result)
        del held
        return results

    # ---- collectives ----

    def all_reduce(self, arrays: Sequence[Any], op: str = "sum") -> list[np.ndarray]:
        """Each rank gets the reduction of all arrays, element by element. op: sum, prod, min, max or avg."""
        with self._lock:
            given, dtype = self._arrays(arrays)
            first, code = given[0], _word(abi.Redop, op, "op")
            results = self._run(
                given,
                first.size,
                first.dtype,
                lambda i, o: library.all_reduce(self.pointer, i, o, first.size, dtype, code, None, None),
            )
            return [one.reshape(first.shape) for one in results]

    def reduce(self, arrays: Sequence[Any], root: int = 0, op: str = "sum") -> np.ndarray:
        """The reduction of all arrays, as rank `root` gets it."""
        with self._lock:
            given, dtype = self._arrays(arrays)
            first, code = given[0], _word(abi.Redop, op, "op")
            results = self._run(
                given,
                first.size,
                first.dtype,
                lambda i, o: library.reduce(
                    self.pointer, i, o, first.size, dtype, code, self._rank(root, "root"), None, None
                ),
            )
            return results[root].reshape(first.shape)

    def reduce_scatter(self, arrays: Sequence[Any], op: str = "sum") -> list[np.ndarray]:
        """Each rank gets its part of the reduction, cut along the first axis. The number of ranks must divide this
        axis's length."""
        with self._lock:
            given, dtype = self._arrays(arrays)
            first, code = given[0], _word(abi.Redop, op, "op")
            if first.ndim == 0 or len(first) % len(self):
                raise errors.ArgumentError(f"reduce_scatter: {len(self)} ranks do not divide an array {first.shape}")
            count = first.size // len(self)
            results = self._run(
                given,
                count,
                first.dtype,
                lambda i, o: library.reduce_scatter(self.pointer, i, o, count, dtype, code, None, None),
            )
            return [one.reshape(len(first) // len(self), *first.shape[1:]) for one in results]

    def all_gather(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Each rank gets all arrays, concatenated along the first axis."""
        with self._lock:
            given, dtype = self._arrays(arrays)
            first = given[0]
            results = self._run(
                given,
                first.size * len(self),
                first.dtype,
                lambda i, o: library.all_gather(self.pointer, i, o, first.size, dtype, None, None),
            )
            shape = (len(self) * len(first), *first.shape[1:]) if first.ndim else (len(self),)
            return [one.reshape(shape) for one in results]

    def broadcast(self, array: Any, root: int = 0) -> list[np.ndarray]:
        """Each rank gets the array of rank `root`."""
        with self._lock:
            first = np.asarray(array, order="C")
            given = [first if rank == self._rank(root, "root") else None for rank in range(len(self))]
            results = self._run(
                given,
                first.size,
                first.dtype,
                lambda i, o: library.broadcast(self.pointer, i, o, first.size, _dtype(first), root, None, None),
            )
            return [one.reshape(first.shape) for one in results]

    def send_recv(self, array: Any, source: int, destination: int) -> np.ndarray:
        """The array of rank `source`, as rank `destination` gets it."""
        with self._lock:
            first = np.asarray(array, order="C")
            given = [first if rank == self._rank(source, "source") else None for rank in range(len(self))]
            to = self._rank(destination, "destination")
            results = self._run(
                given,
                first.size,
                first.dtype,
                lambda i, o: library.send_recv(
                    self.pointer, source, i[source], to, o[to], first.size, _dtype(first), None, None
                ),
            )
            return results[to].reshape(first.shape)

    def barrier(self) -> None:
        """Returns when every rank has come."""
        with self._lock:
            library.group_barrier(self.pointer, None, None)

    def explain(self) -> str:
        """A line for each link and range of sizes: which algorithm and transport is used, and why."""
        with self._lock:
            text = c.c_void_p()
            library.group_explain(self.pointer, c.byref(text))
            try:
                return c.string_at(text.value or 0).decode() if text.value else ""
            finally:
                _libc_free(text)

    def close(self) -> None:
        """Frees the devices' memory. Waits for a call that is running in another thread."""
        with self._lock:
            super().close()

    def abort(self) -> None:
        """Ends all running and later calls. May be called from any thread."""
        library.group_abort(self.pointer)

    def _rank(self, rank: int, what: str) -> int:
        if not 0 <= rank < len(self):
            raise errors.ArgumentError(f"{what}={rank}: the ranks are 0 to {len(self) - 1}")
        return rank


def _dtype(array: np.ndarray) -> abi.Dtype:
    if array.dtype.name not in _DTYPES or not array.dtype.isnative:
        raise errors.ArgumentError(f"arrays of {array.dtype} are none that collectives take: {', '.join(_DTYPES)}")
    return _DTYPES[array.dtype.name]


def _queues(selection: Selection) -> list[_opencl.Queue]:
    ids, known = _opencl.device_ids(), selection.system.devices()
    queues: list[_opencl.Queue] = []
    try:
        for index, part, parts in selection.choices:
            if index >= len(ids) or _opencl.device_name(ids[index]).strip() != known[index].name:
                raise errors.DeviceError(f"device {index} ({known[index].name}) is not where OpenCL had listed it")
            queues.append(_opencl.Queue(ids[index], part, parts))
    except BaseException:
        _release(queues)
        raise
    return queues


def _release(queues: Iterable[_opencl.Queue]) -> None:
    for one in queues:
        one.release()
