"""Ctrl-C while the library works: the call ends in order, and KeyboardInterrupt is raised behind it.

Python runs a signal's handler when the call has returned, however long that takes. What it does at once is write a byte
to a file (signal.set_wakeup_fd); a thread waits for that byte, and stops the trainer that works. A callback's own code
is Python's: there the handler raises KeyboardInterrupt at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from ._library import library
from .errors import StateError


class Interruption:
    """Whether Ctrl-C came, and who works: of a fit, and of what its callbacks ask for."""

    def __init__(self) -> None:
        self.came = False
        self.trainers: list[Any] = []  # the last one works
        self.hooks = 0  # that are under way, of the last one's fit

    def stop(self) -> None:
        self.came = True
        for trainer in self.trainers[-1:]:  # a copy: the work may end meanwhile
            # A stop that comes when the work is done would end the next work in its place: another trainer does that.
            trainer.stopped = True
            with contextlib.suppress(StateError):  # closed meanwhile
                library.trainer_stop(trainer.pointer)

    def handle(self, *_: Any) -> None:
        """The signal's handler. Signals that come before there is a file for them have it alone."""
        self.came = True
        if self.hooks:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def working(self, trainer: Any) -> Iterator[None]:
        hooks, self.hooks = self.hooks, 0
        self.trainers.append(trainer)
        try:
            yield
        finally:
            self.trainers.pop()
            self.hooks = hooks

    @contextlib.contextmanager
    def hook(self) -> Iterator[None]:
        """A callback's code."""
        self.hooks += 1
        try:
            yield
        finally:
            self.hooks -= 1


_present: Interruption | None = None  # of the main thread


def _watch(reads: int, interruption: Interruption, before: int) -> None:
    while byte := os.read(reads, 1):
        if byte[0] == signal.SIGINT:
            interruption.stop()
        elif before >= 0:
            with contextlib.suppress(OSError):
                os.write(before, byte)


@contextlib.contextmanager
def interruptible(trainer: Any) -> Iterator[Interruption]:
    """In the main thread, if the program has left Ctrl-C to Python: else nothing is watched. Raises KeyboardInterrupt in
    place of any other exception if Ctrl-C came."""
    global _present
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and _present:  # within a callback of a fit
        try:
            with _present.working(trainer):
                yield _present
        finally:
            if _present.came:
                raise KeyboardInterrupt
        return
    interruption = Interruption()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interruption
        return
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    _present = interruption
    signal.signal(signal.SIGINT, interruption.handle)
    before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reads, interruption, before), daemon=True)
    watcher.start()
    try:
        with interruption.working(trainer):
            if not interruption.came:
                yield interruption
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _present = None
        os.close(writes)
        watcher.join()
        os.close(reads)
        if interruption.came:
            raise KeyboardInterrupt
