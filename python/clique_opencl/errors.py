"""Exceptions: a class for each status of the library (clique/status.h).

Each message is the library's one line: what failed, where, and what to do. A class also is the built-in exception that
programs expect, so ``except ValueError`` catches an `ArgumentError`.
"""

from __future__ import annotations


class CliqueError(Exception):
    """The base class of this package's exceptions. `status` is the number of the library's status, or 0 if this package
    failed and not the library."""

    status: int = 0


class ArgumentError(CliqueError, ValueError):
    """A value that the caller chose is wrong."""


class MemoryFullError(CliqueError, MemoryError):
    """The host has no memory left."""


class SystemRefusedError(CliqueError, OSError):
    """The operating system refused a thread, a lock or a program."""


class NotFoundError(CliqueError, FileNotFoundError):
    """A file, a tensor, or a name inside a file is not there."""


class ReadError(CliqueError, OSError):
    """A file cannot be read."""


class WriteError(CliqueError, OSError):
    """A file cannot be written."""


class FormatError(CliqueError, ValueError):
    """A file is malformed."""


class MismatchError(CliqueError, ValueError):
    """Data or weights do not fit the model."""


class UnsupportedError(CliqueError, NotImplementedError):
    """The library does not compute this, and does not replace it by something else."""


class NoDeviceError(CliqueError, RuntimeError):
    """No device that can be used was selected."""


class DeviceError(CliqueError, RuntimeError):
    """A device failed."""


class BuildError(CliqueError, RuntimeError):
    """A kernel did not build."""


class DeviceMemoryError(CliqueError, MemoryError):
    """A device has no memory left."""


class AbortedError(CliqueError, RuntimeError):
    """Another rank failed."""


class DeadlineError(CliqueError, TimeoutError):
    """A deadline passed."""


class InterruptedFitError(CliqueError, RuntimeError):
    """The work was interrupted."""


class StateError(CliqueError, RuntimeError):
    """A call came in the wrong state."""


class InternalError(CliqueError, RuntimeError):
    """An invariant of the library is violated: a defect, please report it."""


class ReplicasDifferError(CliqueError, RuntimeError):
    """Replicas have different weights."""


class NotFiniteError(CliqueError, ArithmeticError):
    """A number is not finite."""


class LibraryError(CliqueError, ImportError):
    """The shared library was not found, or is not of this package's version."""


#: The exceptions by the name of their status in clique/status.h.
BY_NAME: dict[str, type[CliqueError]] = {
    "ARGUMENT": ArgumentError,
    "MEMORY": MemoryFullError,
    "SYSTEM": SystemRefusedError,
    "NOT_FOUND": NotFoundError,
    "READ": ReadError,
    "WRITE": WriteError,
    "FORMAT": FormatError,
    "MISMATCH": MismatchError,
    "UNSUPPORTED": UnsupportedError,
    "NO_DEVICE": NoDeviceError,
    "DEVICE": DeviceError,
    "BUILD": BuildError,
    "DEVICE_MEMORY": DeviceMemoryError,
    "ABORTED": AbortedError,
    "TIMEOUT": DeadlineError,
    "INTERRUPTED": InterruptedFitError,
    "STATE": StateError,
    "INTERNAL": InternalError,
    "REPLICAS_DIFFER": ReplicasDifferError,
    "NOT_FINITE": NotFiniteError,
}
#: In the order of the statuses, from 1 on: the order is part of the library's binary interface.
STATUSES: tuple[str, ...] = tuple(BY_NAME)
for _number, _name in enumerate(STATUSES, 1):
    BY_NAME[_name].status = _number


def from_status(status: int, text: str) -> CliqueError:
    """The exception of a status, with the library's line."""
    if 1 <= status <= len(STATUSES):
        return BY_NAME[STATUSES[status - 1]](text)
    error = CliqueError(text)
    error.status = status
    return error
