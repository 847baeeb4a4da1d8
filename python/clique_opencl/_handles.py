"""Ownership of what the library makes.

A handle owns one object of the library. It keeps the handles that the object needs (a trainer needs its model and the
system), so they may be closed, or collected, in any order: each is destroyed when nobody needs it any more.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from . import errors


class _Owned:
    """The object itself: destroyed once, when the last of its holders lets go."""

    __slots__ = ("destroy", "holders", "lock", "needs", "pointer")

    def __init__(self, pointer: Any, destroy: Callable[[Any], None], needs: tuple[_Owned, ...]) -> None:
        self.pointer = pointer
        self.destroy = destroy
        self.needs = needs
        # A holder is an entry; the first one taken goes last. The collector may come between any two lines, in this
        # thread, and let another holder go: so the lock is re-entrant, and who takes the first entry out is the last.
        self.holders = [True]
        self.lock = threading.RLock()
        for i, need in enumerate(needs):
            if not need.hold():
                destroy(pointer)
                for held in needs[:i]:
                    held.let_go()
                raise errors.StateError("what this object needs was closed meanwhile")

    def hold(self) -> bool:
        """False: it is destroyed already."""
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
    """A pointer as an argument, which holds the object for as long as anything has it, as a call has its arguments. So
    an object that is closed meanwhile is destroyed behind the call."""

    __slots__ = ("_as_parameter_", "_owned")  # the first is what ctypes takes in place of this

    def __init__(self, owned: _Owned) -> None:
        self._as_parameter_ = owned.pointer
        self._owned = owned

    @property
    def value(self) -> int:
        """For a member of a struct, which holds nothing."""
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
        """For a call; kept in a variable, it holds the object for more than one."""
        if not self._finalizer.alive or not self._owned.hold():
            raise errors.StateError(f"this {type(self).__name__} is closed")
        return _Held(self._owned)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Keeps the object for a while, also if it is closed meanwhile."""
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
