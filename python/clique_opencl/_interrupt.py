"""Ctrl-C while the library works: the call ends in order, and KeyboardInterrupt is raised behind it.

Python runs a signal's handler when the call has returned, however long that takes. What it does at once is write a byte
to a file (signal.set_wakeup_fd); a thread waits for that byte, and stops the trainer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

from ._library import library


class Interruption:
    """Whether Ctrl-C came."""

    came = False


def _watch(reads: int, trainer: Any, interruption: Interruption) -> None:
    while byte := os.read(reads, 1):
        if byte[0] == signal.SIGINT:
            interruption.came = True
            library.trainer_stop(trainer.pointer)


@contextlib.contextmanager
def interruptible(trainer: Any) -> Iterator[Interruption]:
    """In the main thread, if the program has left Ctrl-C to Python: else nothing is watched."""
    interruption = Interruption()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interruption
        return
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    watcher = threading.Thread(target=_watch, args=(reads, trainer, interruption), daemon=True)
    signal.signal(signal.SIGINT, lambda *_: None)  # what is to be done, the watcher does
    before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    watcher.start()
    try:
        yield interruption
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(writes)
        watcher.join()
        os.close(reads)
        # A stop that came when the work was done would end the next work in its place.
        trainer.stopped = trainer.stopped or interruption.came
    if interruption.came:
        raise KeyboardInterrupt
