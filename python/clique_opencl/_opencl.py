"""The few calls of OpenCL that a group's ranks need: contexts, queues and transfers."""

from __future__ import annotations

import ctypes as c
from typing import Any

from . import errors

_p = c.c_void_p
_P = c.POINTER
_SUCCESS = 0
_TYPE_ALL = 0xFFFFFFFF
_PARTITION_EQUALLY = 0x1086
_DEVICE_NAME, _DEVICE_MAX_COMPUTE_UNITS = 0x102B, 0x1002
_BLOCKING = 1

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "clGetPlatformIDs": (c.c_int, [c.c_uint, _P(_p), _P(c.c_uint)]),
    "clGetDeviceIDs": (c.c_int, [_p, c.c_uint64, c.c_uint, _P(_p), _P(c.c_uint)]),
    "clGetDeviceInfo": (c.c_int, [_p, c.c_uint, c.c_size_t, _p, _p]),
    "clCreateSubDevices": (c.c_int, [_p, _P(c.c_ssize_t), c.c_uint, _P(_p), _P(c.c_uint)]),
    "clReleaseDevice": (c.c_int, [_p]),
    "clCreateContext": (_p, [_p, c.c_uint, _P(_p), _p, _p, _P(c.c_int)]),
    "clReleaseContext": (c.c_int, [_p]),
    "clCreateCommandQueue": (_p, [_p, _p, c.c_uint64, _P(c.c_int)]),
    "clReleaseCommandQueue": (c.c_int, [_p]),
    "clEnqueueWriteBuffer": (c.c_int, [_p, _p, c.c_uint, c.c_size_t, c.c_size_t, _p, c.c_uint, _p, _p]),
    "clEnqueueReadBuffer": (c.c_int, [_p, _p, c.c_uint, c.c_size_t, c.c_size_t, _p, c.c_uint, _p, _p]),
}


class _OpenCL:
    def __init__(self) -> None:
        try:
            handle = c.CDLL("libOpenCL.so.1")
        except OSError as failure:
            raise errors.LibraryError(f"OpenCL's loader was not found: {failure}") from None
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(handle, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


_loaded: _OpenCL | None = None


def _opencl() -> Any:
    global _loaded
    if _loaded is None:
        _loaded = _OpenCL()
    return _loaded


def _check(error: int, what: str) -> None:
    if error != _SUCCESS:
        raise errors.DeviceError(f"{what} failed with OpenCL's error {error}")


def _list(call: Any, *arguments: Any) -> list[int]:
    count = c.c_uint()
    if call(*arguments, 0, None, c.byref(count)) != _SUCCESS or count.value == 0:
        return []
    ids = (_p * count.value)()
    _check(call(*arguments, count.value, ids, None), call.__name__)
    return [one for one in ids if one]


def device_ids() -> list[int]:
    """All devices, in the order in which the library numbers them: platform by platform."""
    cl = _opencl()
    return [one for platform in _list(cl.clGetPlatformIDs) for one in _list(cl.clGetDeviceIDs, platform, _TYPE_ALL)]


def device_name(device: int) -> str:
    """A device's name."""
    text = c.create_string_buffer(1024)
    _check(_opencl().clGetDeviceInfo(device, _DEVICE_NAME, c.sizeof(text), text, None), "clGetDeviceInfo")
    return text.value.decode(errors="replace")


class Queue:
    """A context and an in-order queue on a device, or on part `part` of `parts` of it."""

    def __init__(self, device: int, part: int = 0, parts: int = 1) -> None:
        self._cl = cl = _opencl()
        self._parts: list[int] = []
        self.context = self.queue = None
        self.device = device
        try:
            if parts > 1:
                self.device = self._divide(device, part, parts)
            error = c.c_int()
            one = (_p * 1)(self.device)
            self.context = cl.clCreateContext(None, 1, one, None, None, c.byref(error))
            _check(error.value, "clCreateContext")
            self.queue = cl.clCreateCommandQueue(self.context, self.device, 0, c.byref(error))
            _check(error.value, "clCreateCommandQueue")
        except BaseException:
            self.release()
            raise

    def _divide(self, device: int, part: int, parts: int) -> int:
        units = c.c_uint()
        cl = self._cl
        _check(
            cl.clGetDeviceInfo(device, _DEVICE_MAX_COMPUTE_UNITS, c.sizeof(units), c.byref(units), None),
            "clGetDeviceInfo",
        )
        properties = (c.c_ssize_t * 3)(_PARTITION_EQUALLY, units.value // parts, 0)
        count = c.c_uint()
        _check(cl.clCreateSubDevices(device, properties, 0, None, c.byref(count)), "clCreateSubDevices")
        found = (_p * count.value)()
        _check(cl.clCreateSubDevices(device, properties, count.value, found, None), "clCreateSubDevices")
        self._parts = [one for one in found if one]
        if part >= len(self._parts):
            raise errors.NoDeviceError(f"the device has {len(self._parts)} parts, and number {part} is none of them")
        return self._parts[part]

    def write(self, memory: Any, offset: int, array: Any) -> None:
        """Writes an array's bytes into a buffer. Returns when they are there."""
        if array.nbytes:
            _check(
                self._cl.clEnqueueWriteBuffer(
                    self.queue, memory, _BLOCKING, offset, array.nbytes, array.ctypes.data, 0, None, None
                ),
                "clEnqueueWriteBuffer",
            )

    def read(self, memory: Any, offset: int, array: Any) -> None:
        """Reads a buffer's bytes into an array."""
        if array.nbytes:
            _check(
                self._cl.clEnqueueReadBuffer(
                    self.queue, memory, _BLOCKING, offset, array.nbytes, array.ctypes.data, 0, None, None
                ),
                "clEnqueueReadBuffer",
            )

    def release(self) -> None:
        """Releases the queue, the context and the device's parts. May be called twice."""
        if self.queue:
            self._cl.clReleaseCommandQueue(self.queue)
        if self.context:
            self._cl.clReleaseContext(self.context)
        for one in self._parts:
            self._cl.clReleaseDevice(one)
        self.queue = self.context = None
        self._parts = []
