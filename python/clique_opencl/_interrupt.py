"""Ctrl-C while the library works: the call ends in order, and then KeyboardInterrupt is raised.

Python runs a signal's handler only after the call has returned, however long that takes. But Python writes a byte to a
file at once (signal.set_wakeup_fd). A thread waits for that byte, and stops the working trainer. A callback's own code
is Python code: there the handler raises KeyboardInterrupt at once.
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
    """Whether Ctrl-C came, and which trainers work: for a fit, and for the calls that its callbacks make."""

    def __init__(self) -> None:
        self.came = False
        self.trainers: list[Any] = []  # the last one is working
        self.hooks = 0  # number of callbacks that are running, in the last trainer's fit

    def stop(self) -> None:
        self.came = True
        for trainer in self.trainers[-1:]:  # a slice copies the list, since the work may end meanwhile
            # A stop that comes after the end of the work would stop the trainer's next work instead. So another trainer
            # does that work.
            trainer.stopped = True
            with contextlib.suppress(StateError):  # it was closed meanwhile
                library.trainer_stop(trainer.pointer)

    def handle(self, *_: Any) -> None:
        """The signal's handler. For signals that come before the wake-up file is set, only this handler runs."""
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
        """Marks that a callback's code is running."""
        self.hooks += 1
        try:
            yield
        finally:
            self.hooks -= 1


_present: Interruption | None = None  # for the main thread


def _watch(reads: int, interruption: Interruption, before: int) -> None:
    while byte := os.read(reads, 1):
        if byte[0] == signal.SIGINT:
            interruption.stop()
        elif before >= 0:
            with contextlib.suppress(OSError):
                os.write(before, byte)


@contextlib.contextmanager
def interruptible(trainer: Any) -> Iterator[Interruption]:
    """Watches for Ctrl-C in the main thread if the program has left Ctrl-C to Python; else does nothing. If Ctrl-C
    came, raises KeyboardInterrupt instead of any other exception."""
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
