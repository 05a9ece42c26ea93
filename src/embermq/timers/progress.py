"""How far the timer is: the page `config/timercheck`."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord
from embermq.files.durable import make_directory, replace_file
from embermq.format.timer_check import TimerCheck, decode_timer_check, encode_timer_check, encode_timer_page

log = logging.getLogger(__name__)

TIMER_CHECK_FILE: Final = "timercheck"


class TimerProgress:
    """Reads and rewrites the page at `path`; its fields fit into one sector, so it is written in place.

    The read time is written down more often than the rest, by another thread; the later one counts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # held for a write, never for a sync
        self.check = TimerCheck()
        try:
            if path.is_file():
                self.check = decode_timer_check(path.read_bytes())
        except CorruptRecord as error:
            log.error("timer checkpoint cannot be read file=%s reason=%s; all that waits is found again", path, error)

    def save(self, check: TimerCheck) -> None:
        """Write all of it, and wait until the disk has it. Raises OSError."""
        descriptor = self._open()
        try:
            with self._lock:
                self._write(descriptor, check._replace(read_time=max(check.read_time, self.check.read_time)))
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def note_read(self, read_time: int) -> None:
        """Write the read time, without waiting for the disk. Raises OSError."""
        descriptor = self._open()
        try:
            with self._lock:
                self._write(descriptor, self.check._replace(read_time=max(read_time, self.check.read_time)))
        finally:
            os.close(descriptor)

    def set_back(self, read_time: int) -> None:
        """The clock was set back: later read times say nothing any more."""
        with self._lock:
            self.check = self.check._replace(read_time=read_time)

    def _open(self) -> int:
        if not self._path.exists():
            make_directory(self._path.parent)
            replace_file(self._path, encode_timer_page(self.check))
        return os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def _write(self, descriptor: int, check: TimerCheck) -> None:
        os.pwrite(descriptor, encode_timer_check(check), 0)
        self.check = check
