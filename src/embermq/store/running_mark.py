"""The file `abort`: while it is there, the store is open, or was not closed."""

from __future__ import annotations

import os
from pathlib import Path

from embermq.files.durable import sync_directory


class RunningMark:
    """By it the next opening, ours or RocketMQ's, knows that this one did not end cleanly."""

    def __init__(self, path: Path) -> None:
        self.is_made = False
        self._path = path

    def make(self) -> None:
        """Leave the mark. Raises OSError."""
        self._path.write_text(str(os.getpid()))
        sync_directory(self._path.parent)
        self.is_made = True

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        sync_directory(self._path.parent)
