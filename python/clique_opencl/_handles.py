"""Ownership of the library's objects.

A handle owns one object of the library. It keeps the handles that the object needs (a trainer needs its model and the
system). So they may be closed, or collected, in any order: each is destroyed when nothing needs it any more.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from . import errors


class _Owned:
    """The object itself. It is destroyed once, when the last holder lets go."""

    __slots__ = ("destroy", "holders", "lock", "needs", "pointer")

    def __init__(self, pointer: Any, destroy: Callable[[Any], None], needs: tuple[_Owned, ...]) -> None:
        self.pointer = pointer
        self.destroy = destroy
        self.needs = needs
        # Each holder is an entry. The first entry is removed last, and its value True marks the last holder. The
        # garbage collector may run between any two lines, in this thread, and release another holder. So the lock is
        # re-entrant.
        self.holders = [True]
        self.lock = threading.RLock()
        for i, need in enumerate(needs):
            if not need.hold():
                destroy(pointer)
                for held in needs[:i]:
                    held.let_go()
                raise errors.StateError("what this object needs was closed meanwhile")

    def hold(self) -> bool:
        """Returns False if the object is already destroyed."""
        with self.lock:
            if not self.holders:
                return False
            self.holders.append(False)
            return True

    def let_go(self) -> None:
        with self.lock:
            last = self.holders.pop()
        if not last:
            return
        self.destroy(self.pointer)
        self.pointer = None
        for need in self.needs:
            need.let_go()


class _Held:
    """A pointer as an argument. It holds the object for as long as it is referenced, as a call references its
    arguments. So an object that is closed during a call is destroyed after the call."""

    __slots__ = ("_as_parameter_", "_owned")  # ctypes passes _as_parameter_ instead of the object

    def __init__(self, owned: _Owned) -> None:
        self._as_parameter_ = owned.pointer
        self._owned = owned

    @property
    def value(self) -> int:
        """The value for a member of a struct, which does not hold the object."""
        return self._as_parameter_.value

    def __del__(self) -> None:
        self._owned.let_go()


class Handle:
    """Has ``close()``, works in ``with``, and closes itself when it is collected."""

    def __init__(self, pointer: Any, destroy: Callable[[Any], None], needs: tuple[Handle, ...] = ()) -> None:
        self._owned = _Owned(pointer, destroy, tuple(need._owned for need in needs))
        self._finalizer = weakref.finalize(self, self._owned.let_go)

    @property
    def pointer(self) -> Any:
        """The pointer for a call. A variable that keeps it holds the object for several calls."""
        if not self._finalizer.alive or not self._owned.hold():
            raise errors.StateError(f"this {type(self).__name__} is closed")
        return _Held(self._owned)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Holds the object for a while, even if it is closed meanwhile."""
        if not self._finalizer.alive or not self._owned.hold():
            raise errors.StateError(f"this {type(self).__name__} is closed")
        try:
            yield
        finally:
            self._owned.let_go()

    @property
    def closed(self) -> bool:
        """Whether ``close()`` was called."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Gives back what the object owns, as soon as nothing that was made from it needs it. May be called twice."""
        self._finalizer()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
