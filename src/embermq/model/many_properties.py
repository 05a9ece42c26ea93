"""One property of many messages, found for all of them at once.

    0xFF properties 0xFF properties …

Joined like this, each search goes over all of them in one call. Batches are mostly of one kind: every message has the
property once, or none has it. Whatever is not as simple is left to find_property.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

_BETWEEN = b"\xff"  # no byte of UTF-8


class ManyProperties:
    """The properties of many messages, in their order."""

    def __init__(self, each: Sequence[bytes]) -> None:
        self._all = b"".join((_BETWEEN, _BETWEEN.join(each)))
        self._count = len(each)
        self._is_simple = self._all.count(_BETWEEN) == self._count

    def find(self, name: bytes) -> list[bytes] | None:
        """The value of one property in each; empty if none has it, and None if it is not as simple as that."""
        head, find_values = _search(name)
        times = self._all.count(head)
        if times == 0:
            return []
        if not self._is_simple or times != self._count:
            return None
        values = find_values(self._all)
        return values if len(values) == self._count else None


@cache
def _search(name: bytes) -> tuple[bytes, Callable[[bytes], list[bytes]]]:
    """What stands before a value, and what finds all values, at most one in each message."""
    head = name + b"\x01"
    return head, re.compile(b"\xff(?:[^\xff]*?\x02)??" + re.escape(head) + b"([^\x02\xff]+)\x02").findall
