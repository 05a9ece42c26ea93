"""The next offset of every queue, and how a batch of drafts gets its offsets.

Offsets are taken for a whole batch at once and counted only when the batch is in the
log, so that a refused batch uses up none. The table they are in is shared with kernels: see queue_table.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from embermq.errors import IllegalProperty, IllegalTopic
from embermq.format.record import Draft, DraftFields
from embermq.kernels.columns import (
    QUEUE_NEXT,
)
from embermq.log.light_offsets import LightOffsets
from embermq.log.queue_table import QueueTable
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
from embermq.model.topic import LIGHT_PREFIX, RETRY_PREFIX, check_light_queue, is_system_topic

LARGEST_INNER_BATCH = 32_767  # the count is read as a signed 16-bit number
_UNUSUAL = SysFlag.TRANSACTION_MASK | SysFlag.INNER_BATCH
_INNER = b"INNER_"
_LIGHT = LIGHT_PREFIX.encode()


class Assignment(NamedTuple):
    """Offsets for a batch: what to write, and the table's new state once it is written."""

    drafts: Sequence[DraftFields]
    offsets: list[int]
    counts: list[int]
    next_offsets: dict[bytes, dict[int, int]]
    is_plain: bool  # no record is marked, divided, or filed under light queues, too


class QueueOffsets:
    """The next offset of each (topic, queue). One thread changes it."""

    def __init__(self, table: QueueTable, *, light: LightOffsets | None = None) -> None:
        """With `light`, messages are filed under the light queues that they name, too."""
        self.table = table
        self._light = light

    def next_offset(self, topic: str, queue: int) -> int:
        """The offset that the next message of this queue will get."""
        return self._next(topic.encode(), queue)

    def set_next(self, topic: str, queue: int, offset: int) -> None:
        """What recovery found to be the next offset."""
        self.table.numbers[self.table.row(topic.encode(), queue) + QUEUE_NEXT] = offset

    def forget(self, topic: str) -> None:
        """Drop a deleted topic: its queues begin anew."""
        if self._light is not None:
            self._light.forget(topic.encode())
        for row in self.table.rows(topic.encode()).values():
            self.table.numbers[row + QUEUE_NEXT] = 0

    def assign(self, drafts: Sequence[DraftFields]) -> Assignment:
        """Offsets for `drafts` in their order; nothing counts until `confirm`."""
        taken: dict[bytes, dict[int, int]] = {}
        offsets: list[int] = []
        add = offsets.append
        topic: bytes | None = None
        used: dict[int, int] = {}
        for draft in drafts:  # as in Draft: 0 is the topic, 1 the queue, 3 the properties, 5 the sys flag
            if draft[5] & _UNUSUAL or (draft[3] and _INNER in draft[3]):
                return self._assign_unusual(drafts)
            if draft[0] != topic:
                topic = draft[0]
                used = taken.setdefault(topic, {})
            queue = draft[1]
            offset = used.get(queue)
            if offset is None:
                offset = self._next(topic, queue)
            add(offset)
            used[queue] = offset + 1
        return Assignment(drafts, offsets, [1] * len(offsets), taken, True)

    def confirm(self, assignment: Assignment) -> None:
        """The batch is in the log: its offsets are used."""
        numbers, row = self.table.numbers, self.table.row
        if self._light is not None:
            taken = assignment.next_offsets
            self._light.confirm({topic: offsets[0] for topic, offsets in taken.items() if _is_light(topic)})
        for topic, offsets in assignment.next_offsets.items():
            if self._light is not None and _is_light(topic):
                continue
            for queue, offset in offsets.items():
                numbers[row(topic, queue) + QUEUE_NEXT] = offset

    def _next(self, topic: bytes, queue: int) -> int:
        if self._light is not None and _is_light(topic):
            return self._light.next(topic)
        row = self.table.rows(topic).get(queue)
        return 0 if row is None else self.table.numbers[row + QUEUE_NEXT]

    def _assign_unusual(self, drafts: Sequence[DraftFields]) -> Assignment:
        """Offsets for a batch with transaction marks, inner batches or light queues in it."""
        taken: dict[bytes, dict[int, int]] = {}
        written: list[Draft] = []
        offsets: list[int] = []
        counts: list[int] = []
        for draft in map(Draft._make, drafts):
            if draft.sys_flag & SysFlag.TRANSACTION_MASK in (SysFlag.PREPARED, SysFlag.ROLLED_BACK):
                offset, count = 0, 1  # it enters no queue, and uses up no offset
            else:
                count = _offsets_taken(draft)
                offset = self._take(taken, draft.topic, draft.queue, count)
            based = _with_property(draft, INNER_BASE, str(offset)) if draft.sys_flag & SysFlag.INNER_BATCH else draft
            written.append(self._with_light_offsets(based, taken) if self._light is not None else based)
            offsets.append(offset)
            counts.append(count)
        return Assignment(written, offsets, counts, taken, False)

    def _take(self, taken: dict[bytes, dict[int, int]], topic: bytes, queue: int, count: int) -> int:
        used = taken.setdefault(topic, {})
        offset = used[queue] if queue in used else self._next(topic, queue)
        used[queue] = offset + count
        return offset

    def _with_light_offsets(self, draft: Draft, taken: dict[bytes, dict[int, int]]) -> Draft:
        names = find_property(draft.properties, INNER_MULTI_DISPATCH.encode())
        if names is None:
            return draft
        if _waits(draft.topic.decode()):
            return _with_property(draft, INNER_MULTI_QUEUE_OFFSET, None)  # those of before are others' by now
        offsets = [
            str(self._take(taken, name.encode(), 0, 1)) for name in light_queue_names(names.decode(errors="replace"))
        ]
        return _with_property(draft, INNER_MULTI_QUEUE_OFFSET, ",".join(offsets))


def _is_light(topic: bytes) -> bool:
    return topic.startswith(_LIGHT)


def _waits(topic: str) -> bool:
    """Whether a message waits in this topic for its time, its end or its next try; no light queue has it then."""
    return topic.startswith(RETRY_PREFIX) or is_system_topic(topic)


def light_queue_names(text: str) -> list[str]:
    """The light queues that a message names. A name that is none would stop every dispatcher, so it is refused."""
    names = [name for name in text.split(",") if name]
    for name in names:
        try:
            check_light_queue(name)
        except IllegalTopic as error:
            raise IllegalProperty(INNER_MULTI_DISPATCH, str(error)) from error
    return names


def _offsets_taken(draft: Draft) -> int:
    number = find_property(draft.properties, INNER_NUM.encode()) if draft.sys_flag & SysFlag.INNER_BATCH else None
    if number is None:
        return 1
    if not number.isdigit() or not 0 < int(number) <= LARGEST_INNER_BATCH:
        raise IllegalProperty(INNER_NUM, f"{number[:20]!r} is no count from 1 to {LARGEST_INNER_BATCH}")
    return int(number)


def _with_property(draft: Draft, name: str, value: str | None) -> Draft:
    """With None, the same without it."""
    try:
        properties = parse_properties(draft.properties)
    except ValueError as error:
        raise IllegalProperty(name, f"it cannot be added to properties that are no UTF-8: {error}") from error
    if value is None:
        properties.pop(name, None)
    else:
        properties[name] = value
    return draft._replace(properties=format_properties(properties))
