"""The version of a table: which of two copies is newer."""

from __future__ import annotations

from typing import NamedTuple


class DataVersion(NamedTuple):
    """Compared field by field, in this order."""

    state_version: int = 0
    counter: int = 0
    timestamp: int = 0

    def next(self, now_ms: int, state_version: int = 0) -> DataVersion:
        """The version after one change."""
        return DataVersion(state_version, self.counter + 1, now_ms)
