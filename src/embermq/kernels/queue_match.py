"""Records against the entries of their queues, which lie in memory: whether each has the one it should have.

    slots     number of a queue, -1     found by a hash of topic and number of the queue; at least half of them are free
    queues    see the columns below     one row for each queue, with the entries of one of its files, and those that
                                        were found right since somebody asked, as long as they follow each other

A record whose entry is another one, or is not there at all, is left to plain code. At one whose queue is not in the
table, or whose entry lies in another file, the kernel stops: ordinary code offers it that file, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.kernels.columns import (
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_QUEUE,
    RECORD_SIZE,
    RECORD_SYS_FLAG,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.found_records import FoundRecords
from embermq.kernels.memory import address_of, fits, get, is_same, load_i32, load_i64, put, row_at
from embermq.kernels.queue_runs import mix_place
from embermq.model.flags import NOT_QUEUED

_MISUSED: Final = -1
_FEWEST: Final = 16  # queues that there is room for

# Address and size of the topic's name, number of the queue; address of the entries [first, limit), or why there are
# none; those that were found right are [begin, end), and the record of the first of them begins at `position`.
_TOPIC, _TOPIC_SIZE, _QUEUE, _MEMORY, _FIRST, _LIMIT, _BEGIN, _END, _POSITION = range(9)
_WIDTH: Final = 9
_NOTHING: Final = 0  # was offered
_ASK: Final = -1  # it may have entries now
_ROW_SIZE: Final = _WIDTH * 8


class RightEntries(NamedTuple):
    """Entries [begin, end) of a queue, all as they should be."""

    topic: bytes
    queue: int
    begin: int
    end: int
    position: int  # of the first one's record


@part
def _find_queue(topic: int, topic_size: int, queue: int, slots: int, room: int, queues: int, count: int) -> int:
    """The address of the row of a queue; 0 if there is none."""
    place = mix_place(topic, topic_size, queue) & (room - 1)
    for _ in range(room):
        number = get(slots, place)
        if not 0 <= number < count:
            return 0
        row = queues + number * _ROW_SIZE
        if (
            get(row, _QUEUE) == queue
            and get(row, _TOPIC_SIZE) == topic_size
            and is_same(get(row, _TOPIC), topic, topic_size)
        ):
            return row
        place = (place + 1) & (room - 1)
    return 0


@part
def _confirm(row: int, record: int, code: int) -> bool:
    """Whether the entry of a record is right, and follows those that were found right before."""
    offset, position = get(record, RECORD_OFFSET), get(record, RECORD_POSITION)
    begin, end = get(row, _BEGIN), get(row, _END)
    if offset != end and begin < end:
        return False
    entry = get(row, _MEMORY) + (offset - get(row, _FIRST)) * QUEUE_ENTRY_SIZE
    if load_i64(entry) != position or load_i32(entry + 8) != get(record, RECORD_SIZE) or load_i64(entry + 12) != code:
        return False
    if begin >= end:
        put(row, _BEGIN, offset)
        put(row, _POSITION, position)
    put(row, _END, offset + 1)
    return True


@part
def _needs_another(row: int, offset: int) -> bool:
    """Whether an entry may lie in a file that is not the one that is there."""
    memory = get(row, _MEMORY)
    return memory == _ASK or (memory != _NOTHING and not get(row, _FIRST) <= offset < get(row, _LIMIT))


@kernel("UniTuple(int64, 2)(int64, int64, int64[:, ::1], int64[::1], int64, int64[::1], int64[:, ::1], int64[::1])")
def confirm_entries(
    data: int, size: int, records: Table, codes: Table, begin: int, slots: Table, queues: Table, left: Table
) -> tuple[int, int]:
    """Compare records from number `begin` on, which lie in the `size` bytes of memory at `data`, with their entries.

    Fills `left` with the numbers of those that are left to plain code. Returns where it stopped, and how many are left;
    records that are in the log alone have no entry.
    """
    count, room = records.shape[0], slots.size
    if records.shape[1] != RECORD_WIDTH or queues.shape[1] != _WIDTH or size < 0 or begin < 0:
        return _MISUSED, 0
    if codes.size < count or left.size < count or room & (room - 1):
        return _MISUSED, 0
    left_count = 0
    for number in range(begin, count):
        record = row_at(records, number)
        if get(record, RECORD_SYS_FLAG) & NOT_QUEUED:
            continue
        topic_at, topic_size = get(record, RECORD_TOPIC_AT), get(record, RECORD_TOPIC_SIZE)
        if not fits(topic_at, topic_size, size):
            return _MISUSED, 0
        queue = get(record, RECORD_QUEUE)
        row = _find_queue(data + topic_at, topic_size, queue, row_at(slots, 0), room, row_at(queues, 0), len(queues))
        if row == 0 or _needs_another(row, get(record, RECORD_OFFSET)):
            return number, left_count
        if get(row, _MEMORY) == _NOTHING or not _confirm(row, record, codes[number]):
            left[left_count] = number
            left_count += 1
    return max(begin, count), left_count


class EntryTable:
    """Entries of queues, and which of them were found right."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bytes, int], int] = {}
        self._memory: dict[int, memoryview] = {}  # of the entries, by the number of the queue
        self._queues = np.zeros((_FEWEST, _WIDTH), np.int64)
        self._slots = np.full(2 * _FEWEST, -1, np.int64)

    @property
    def offered(self) -> int:
        """How many queues have entries here."""
        return len(self._memory)

    def offer(self, topic: bytes, queue: int, entries: memoryview, first: int) -> None:
        """Have these bytes, which begin with the entry `first`, as the entries of a queue; they are kept.

        What was found right of the queue must have been taken before.
        """
        number = self._numbers.get((topic, queue))
        if number is None:
            number = self._add(topic, queue)
        self._memory.pop(number, None)
        limit = first + len(entries) // QUEUE_ENTRY_SIZE
        if first < limit:
            self._memory[number] = entries
        memory = address_of(entries) if first < limit else _NOTHING
        self._queues[number, _MEMORY:] = memory, first, limit, 0, 0, 0

    def ask_again(self) -> None:
        """Have those queues offered once more for which there was nothing."""
        known = self._queues[: len(self._numbers), _MEMORY]
        known[known == _NOTHING] = _ASK

    def confirm(self, records: FoundRecords, begin: int) -> tuple[int, list[int]]:
        """Compare records from number `begin` on with their entries; the numbers of those that plain code must look at.

        It stops at a record whose entry may be in what is not offered yet; the first number tells where.
        """
        left = np.empty(len(records), np.int64)
        data = records.data
        stopped, count = confirm_entries(
            address_of(data), len(data), records.records, records.codes, begin, self._slots, self._queues, left
        )
        assert stopped != _MISUSED, "tables that do not fit each other"
        return stopped, left[:count].tolist()

    def take_right(self) -> Iterator[RightEntries]:
        """What was found right since the last time."""
        names = list(self._numbers)
        for number in np.flatnonzero(self._queues[:, _BEGIN] < self._queues[:, _END]).tolist():
            begin, end, position = self._queues[number, _BEGIN:].tolist()
            self._queues[number, _BEGIN:] = 0
            yield RightEntries(*names[number], begin, end, position)

    def _add(self, topic: bytes, queue: int) -> int:
        number = len(self._numbers)
        if number == len(self._queues):
            self._queues = np.concatenate([self._queues, np.zeros_like(self._queues)])
            self._slots = np.full(2 * len(self._slots), -1, np.int64)
            for (name, other), place in self._numbers.items():
                self._enter(name, other, place)
        self._numbers[topic, queue] = number
        self._queues[number, : _QUEUE + 1] = address_of(topic), len(topic), queue
        self._enter(topic, queue, number)
        return number

    def _enter(self, topic: bytes, queue: int, number: int) -> None:
        """Take the first free slot."""
        place = mix_place(address_of(topic), len(topic), queue) & (len(self._slots) - 1)
        while self._slots[place] >= 0:
            place = (place + 1) & (len(self._slots) - 1)
        self._slots[place] = number
