"""The next offset of every queue, and how a batch of drafts gets its offsets.

Offsets are taken for a whole batch at once and counted only when the batch is in the
log, so that a refused batch uses up none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from embermq.errors import IllegalProperty
from embermq.format.record import Draft
from embermq.model.flags import SysFlag
from embermq.model.properties import (
    INNER_BASE,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
    find_property,
    format_properties,
    parse_properties,
)

LIGHT_PREFIX = "%LMQ%"
LARGEST_INNER_BATCH = 32_767  # the count is read as a signed 16-bit number
_UNUSUAL = SysFlag.TRANSACTION_MASK | SysFlag.INNER_BATCH
_INNER = b"INNER_"


class Assignment(NamedTuple):
    """Offsets for a batch: what to write, and the table's new state once it is written."""

    drafts: Sequence[Draft]
    offsets: list[int]
    counts: list[int]
    next_offsets: dict[tuple[bytes, int], int]


class QueueOffsets:
    """The next offset of each (topic, queue). One thread changes it."""

    def __init__(self, *, light_queues: bool) -> None:
        self._next: dict[tuple[bytes, int], int] = {}
        self._light_queues = light_queues

    def next_offset(self, topic: str, queue: int) -> int:
        """The offset that the next message of this queue will get."""
        return self._next.get((topic.encode(), queue), 0)

    def set_next(self, topic: str, queue: int, offset: int) -> None:
        """What recovery found to be the next offset."""
        self._next[topic.encode(), queue] = offset

    def forget(self, topic: str) -> None:
        """Drop a deleted topic."""
        name = topic.encode()
        for key in [key for key in self._next if key[0] == name]:
            del self._next[key]

    def assign(self, drafts: Sequence[Draft]) -> Assignment:
        """Offsets for `drafts` in their order; nothing counts until `confirm`."""
        table = self._next
        taken: dict[tuple[bytes, int], int] = {}
        offsets: list[int] = []
        add = offsets.append
        for draft in drafts:
            if draft[5] & _UNUSUAL or _INNER in draft[3]:
                return self._assign_unusual(drafts)
            key = (draft[0], draft[1])
            offset = taken.get(key)
            if offset is None:
                offset = table.get(key, 0)
            add(offset)
            taken[key] = offset + 1
        return Assignment(drafts, offsets, [1] * len(offsets), taken)

    def confirm(self, assignment: Assignment) -> None:
        """The batch is in the log: its offsets are used."""
        self._next.update(assignment.next_offsets)

    def _assign_unusual(self, drafts: Sequence[Draft]) -> Assignment:
        """Offsets for a batch with transaction marks, inner batches or light queues in it."""
        taken: dict[tuple[bytes, int], int] = {}
        written: list[Draft] = []
        offsets: list[int] = []
        counts: list[int] = []
        for draft in drafts:
            if draft.sys_flag & SysFlag.TRANSACTION_MASK in (SysFlag.PREPARED, SysFlag.ROLLED_BACK):
                offset, count = 0, 0  # it enters no queue and so uses up no offset
            else:
                offset, count = self._take(taken, (draft.topic, draft.queue), _offsets_taken(draft))
            based = _with_property(draft, INNER_BASE, str(offset)) if draft.sys_flag & SysFlag.INNER_BATCH else draft
            written.append(self._with_light_offsets(based, taken) if self._light_queues else based)
            offsets.append(offset)
            counts.append(count)
        return Assignment(written, offsets, counts, taken)

    def _take(self, taken: dict[tuple[bytes, int], int], key: tuple[bytes, int], count: int) -> tuple[int, int]:
        offset = taken.get(key, self._next.get(key, 0))
        taken[key] = offset + count
        return offset, count

    def _with_light_offsets(self, draft: Draft, taken: dict[tuple[bytes, int], int]) -> Draft:
        names = find_property(draft.properties, INNER_MULTI_DISPATCH.encode())
        if names is None:
            return draft
        offsets = [str(self._take(taken, (name.encode(), 0), 1)[0]) for name in light_queue_names(names.decode())]
        return _with_property(draft, INNER_MULTI_QUEUE_OFFSET, ",".join(offsets))


def light_queue_names(text: str) -> list[str]:
    """The light queues that a message names. A name that is none would stop every dispatcher, so it is refused."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if not name.startswith(LIGHT_PREFIX) or "/" in name or "\0" in name:
            raise IllegalProperty(
                INNER_MULTI_DISPATCH,
                f"{name[:100]!r} is no light queue; names begin with {LIGHT_PREFIX} and hold no '/'",
            )
    return names


def _offsets_taken(draft: Draft) -> int:
    number = find_property(draft.properties, INNER_NUM.encode()) if draft.sys_flag & SysFlag.INNER_BATCH else None
    if number is None:
        return 1
    if not number.isdigit() or not 0 < int(number) <= LARGEST_INNER_BATCH:
        raise IllegalProperty(INNER_NUM, f"{number[:20]!r} is no count from 1 to {LARGEST_INNER_BATCH}")
    return int(number)


def _with_property(draft: Draft, name: str, value: str) -> Draft:
    properties = parse_properties(draft.properties)
    properties[name] = value
    return draft._replace(properties=format_properties(properties))
