"""The machine's OpenCL devices."""

from __future__ import annotations

import ctypes as c
import dataclasses
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Sequence

from . import _abi as abi
from . import errors
from ._handles import Handle
from ._library import encode, library

_TYPES = ("cpu", "gpu", "accelerator", "other")


@dataclasses.dataclass(frozen=True)
class Device:
    """An OpenCL device, as ``clique devices`` lists it."""

    index: int
    driver: str  #: tag of the platform: nvidia, amd, intel, pocl, …
    name: str
    vendor: str
    platform: str
    driver_version: str
    opencl_version: str
    type: str  #: cpu, gpu, accelerator or other
    compute_units: int
    vector_width: int  #: native width of float vectors
    memory_bytes: int
    max_alloc_bytes: int
    local_memory_bytes: int
    max_work_group: int
    shares_host_memory: bool
    fine_grain_svm: bool
    fp64: bool
    pci: str
    usable: bool
    reason: str  #: why it is not usable; empty if it is

    @classmethod
    def _of(cls, info: abi.clq_device_info) -> Device:
        return cls(
            index=info.index,
            driver=info.driver.decode(),
            name=info.name.decode(),
            vendor=info.vendor.decode(),
            platform=info.platform.decode(),
            driver_version=info.driver_version.decode(),
            opencl_version=info.opencl_version.decode(),
            type=_TYPES[min(info.type, len(_TYPES) - 1)],
            compute_units=info.compute_units,
            vector_width=info.vector_width,
            memory_bytes=info.global_mem_bytes,
            max_alloc_bytes=info.max_alloc_bytes,
            local_memory_bytes=info.local_mem_bytes,
            max_work_group=info.max_work_group,
            shares_host_memory=info.host_unified,
            fine_grain_svm=info.fine_grain_svm,
            fp64=info.fp64,
            pci=info.pci.decode(),
            usable=info.usable,
            reason=info.reason.decode(errors="replace"),
        )


class System(Handle):
    """All OpenCL platforms of the machine, opened. A program needs one of its own only for a `memory_limit` (bytes of
    each device), a `build_deadline` (seconds that a driver may take to compile a program) or a `cache_dir` (an empty
    text: none); without these `System.default()` serves."""

    _default: System | None = None
    _lock = threading.Lock()

    def __init__(
        self,
        *,
        memory_limit: int = 0,
        build_deadline: float = 0.0,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        _warn_of_tensorflow()
        config = abi.clq_system_config(
            None if cache_dir is None else encode(cache_dir), int(memory_limit), float(build_deadline)
        )
        pointer = c.c_void_p()
        library.system_open(c.byref(config), c.byref(pointer))
        self._own(pointer)

    def _own(self, pointer: c.c_void_p) -> None:
        # Only one thread at a time may test or select devices, and nobody may read them meanwhile (clique/device.h).
        self.use = threading.RLock()
        super().__init__(pointer, library.system_close)

    @classmethod
    def _of(cls, settings: Handle) -> System:
        """A system with the given settings."""
        pointer = c.c_void_p()
        library.settings_open_system(settings.pointer, c.byref(pointer))
        made = cls.__new__(cls)
        made._own(pointer)
        return made

    @classmethod
    def default(cls) -> System:
        """The system that models and groups use if none is given. Opened at its first use."""
        with cls._lock:
            if cls._default is None or cls._default.closed:
                cls._default = cls()
            return cls._default

    def devices(self, *, test: bool = False) -> list[Device]:
        """All devices. test: run the start-up test of those that had none yet, which says whether each is usable."""
        held = self.pointer
        with self.use:
            if test:
                library.system_test_devices(held)
            count = library.system_device_count(held)
            return [Device._of(library.system_device_info(held, i).contents) for i in range(count)]

    def select(self, spec: str | int | Device | Iterable[int | Device] | None = None) -> Selection:
        """The devices of a training or a group. spec: as of ``--devices`` ("0,2", "gpu", "cpu/2", "auto"), a number, a
        device, or several of these."""
        return Selection(self, spec)


class Selection:
    """Devices that were selected and passed their start-up test; one for each replica."""

    def __init__(self, system: System, spec: str | int | Device | Iterable[int | Device] | None) -> None:
        self.system = system
        self._held = system.pointer  # the system owns the devices, and must live even if its handle is closed
        self.spec = _spec_text(spec)
        self._devices = abi.clq_devices()
        with system.use:
            library.devices_select(self._held, encode(self.spec), c.byref(self._devices))

    def __len__(self) -> int:
        return self._devices.count

    @property
    def choices(self) -> Sequence[tuple[int, int, int]]:
        """For each replica: the device's index, the part of the device, and the number of parts."""
        items = self._devices.items[: self._devices.count]
        return [(item.index, item.part, max(item.parts, 1)) for item in items]

    @property
    def devices(self) -> list[Device]:
        """The device of each replica."""
        found = self.system.devices()
        return [found[index] for index, _, _ in self.choices]


def _warn_of_tensorflow() -> None:
    """PoCL and TensorFlow both contain LLVM. C++ symbols that are unique in a process then come from only one of
    them."""
    if sys.modules.get("tensorflow") is not None:
        warnings.warn(
            "TensorFlow is loaded: PoCL's devices do not work in its process, as both bring LLVM. For Keras by JAX or "
            "PyTorch, sys.modules['tensorflow'] = None in front of `import keras` keeps it out",
            RuntimeWarning,
            stacklevel=4,
        )


def _spec_text(spec: str | int | Device | Iterable[int | Device] | None) -> str:
    if spec is None:
        return "auto"
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Device):
        return str(spec.index)
    if isinstance(spec, int) and not isinstance(spec, bool):
        return str(spec)
    try:
        return ",".join(_spec_text(one) for one in spec)  # type: ignore[union-attr]
    except TypeError:
        raise errors.ArgumentError(f"devices={spec!r}: expected a text as of --devices, numbers, or devices") from None


def devices(*, test: bool = False) -> list[Device]:
    """The machine's OpenCL devices. test: as of `System.devices`."""
    return System.default().devices(test=test)
