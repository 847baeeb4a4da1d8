"""Ownership of what the library makes.

A handle owns one object of the library. It keeps the handles that the object needs (a trainer needs its model and the
system), so they may be closed, or collected, in any order: each is destroyed when nobody needs it any more.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from . import errors


class _Owned:
    """The object itself: destroyed once, when the last of its holders lets go."""

    __slots__ = ("destroy", "holders", "lock", "needs", "pointer")

    def __init__(self, pointer: Any, destroy: Callable[[Any], None], needs: tuple[_Owned, ...]) -> None:
        self.pointer = pointer
        self.destroy = destroy
        self.needs = needs
        self.holders = 1
        self.lock = threading.Lock()
        for need in needs:
            need.hold()

    def hold(self) -> None:
        with self.lock:
            self.holders += 1

    def let_go(self) -> None:
        with self.lock:
            self.holders -= 1
            last = self.holders == 0
        if not last:
            return
        self.destroy(self.pointer)
        self.pointer = None
        for need in self.needs:
            need.let_go()


class Handle:
    """Has ``close()``, works in ``with``, and closes itself when it is collected."""

    def __init__(self, pointer: Any, destroy: Callable[[Any], None], needs: tuple[Handle, ...] = ()) -> None:
        self._owned = _Owned(pointer, destroy, tuple(need._owned for need in needs))
        self._finalizer = weakref.finalize(self, self._owned.let_go)

    @property
    def pointer(self) -> Any:
        if not self._finalizer.alive:
            raise errors.StateError(f"this {type(self).__name__} is closed")
        return self._owned.pointer

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
