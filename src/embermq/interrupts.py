"""Ctrl-C where code of others runs: in a command's main thread, Python raises KeyboardInterrupt between any two lines.

Libraries that are being loaded then do not all pass it on: numpy, pandas and Arrow may answer with errors of their own,
and the JIT compiler's library may crash the process when it ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def holding_interrupts() -> Iterator[None]:
    """Have Ctrl-C wait until the block is left, for what must not be left half done."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    pressed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def minding_interrupts() -> Iterator[None]:
    """Have Ctrl-C end the block by KeyboardInterrupt, whatever error the code that it met makes of that."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield
        return
    pressed: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    except Exception as error:
        if pressed:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
