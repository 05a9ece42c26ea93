"""Topics by name, for kernels: a table from the bytes of a name to a number.

    slots 1   names size 1   seed 1   │   slot 3: name at, name size, number   │ …   │   names
    64-bit numbers                        as many as `slots`, a power of two             bytes

A name is looked for from the slot that its hash says on, until it or an empty slot (name size 0) is found. Ordinary
code writes the table: it adds names while less than half of the slots are in use, and replaces the table as a whole
by a larger one after that. A kernel only reads it, and trusts nothing in it: no number there can lead it outside.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from embermq.kernels.compiling import kernel, variable
from embermq.kernels.memory import address_of, fits, get, is_same, load_u8, put
from embermq.kernels.send_rows import ROW_SIZE, TOPIC, TOPIC_AT, TOPIC_SIZE

UNKNOWN: Final = -1

_SLOTS: Final = 0
_NAMES_SIZE: Final = 1
_SEED: Final = 2
_HEAD: Final = 3  # numbers before the first slot
_SLOT: Final = 3  # numbers of a slot
_FEWEST_SLOTS: Final = 16
_NAME_ROOM: Final = 32  # bytes kept for the name of each slot that may be used
_FACTOR: Final = 0x2545F491_4F6CDD1D  # odd, with bits everywhere


@kernel("int64(int64, int64, int64)")
def hash_name(name: int, size: int, seed: int) -> int:
    """A number for the bytes of a name. The seed is secret, so that nobody can think up names that share a slot."""
    value = seed ^ size
    for index in range(size):
        value = (value ^ load_u8(name + index)) * _FACTOR
        value ^= value >> 29 & 0x7_FFFF_FFFF
    return value


@kernel("int64(int64, int64, int64, int64)")
def find_topic(table: int, table_size: int, name: int, size: int) -> int:
    """The number of the topic whose name is the `size` bytes at `name`, or UNKNOWN. For any table of that size."""
    if table_size < _HEAD * 8 or size <= 0:
        return UNKNOWN
    slots, names_size = get(table, _SLOTS), get(table, _NAMES_SIZE)
    if slots <= 0 or slots > table_size // (_SLOT * 8):
        return UNKNOWN
    names = (_HEAD + slots * _SLOT) * 8
    if not fits(names, names_size, table_size):
        return UNKNOWN
    start = hash_name(name, size, get(table, _SEED))
    for step in range(slots):
        slot = table + (_HEAD + ((start + step) & (slots - 1)) * _SLOT) * 8
        found_at, found_size = get(slot, 0), get(slot, 1)
        if found_size == 0:
            return UNKNOWN
        if found_size == size and fits(found_at, size, names_size) and is_same(table + names + found_at, name, size):
            return get(slot, 2)
    return UNKNOWN


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def number_topics(rows: int, count: int, source: int, source_size: int, table: int, table_size: int) -> int:
    """Write the number of its topic into every row; how many rows there are before the first that has none."""
    last_at, last_size, topic = variable(-1), variable(0), variable(UNKNOWN)
    for number in range(count):
        row = rows + number * ROW_SIZE
        at, size = get(row, TOPIC_AT), get(row, TOPIC_SIZE)
        if at != last_at or size != last_size:
            topic = find_topic(table, table_size, source + at, size) if fits(at, size, source_size) else UNKNOWN
            last_at, last_size = at, size
        if topic < 0:
            return number
        put(row, TOPIC, topic)
    return count


class TopicTable:
    """Numbers of topics, kept where kernels find them. One thread writes, and no kernel reads meanwhile.

    `address` and `size` change when a name is added that there is no room for.
    """

    def __init__(self, topics: Mapping[bytes, int] | None = None) -> None:
        self._topics: dict[bytes, int] = {}
        self._seed = secrets.randbits(63)
        self._make({} if topics is None else topics)

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._topics)

    def find(self, name: bytes) -> int | None:
        """The number of a topic, as a kernel finds it."""
        number = find_topic(self.address, self.size, address_of(name), len(name)) if name else UNKNOWN
        return None if number == UNKNOWN else number

    def add(self, name: bytes, number: int) -> None:
        """Know a topic by this number, 0 or more; one that is known gets another."""
        if not name or number < 0:
            raise ValueError(f"topic {name!r} as number {number}; a name and a number of 0 or more are expected")
        slots = int(self._numbers[_SLOTS])
        has_room = 2 * (len(self._topics) + 1) <= slots and self._names_end + len(name) <= len(self._names)
        if name not in self._topics and not has_room:
            self._make({**self._topics, name: number})
        else:
            self._write(name, number)

    def replace(self, topics: Mapping[bytes, int]) -> None:
        """Know these topics and no others."""
        self._make(topics)

    def _make(self, topics: Mapping[bytes, int]) -> None:
        """A new table with room for as many topics again."""
        slots = _FEWEST_SLOTS
        while slots < 4 * len(topics):
            slots *= 2
        names_size = 2 * sum(map(len, topics)) + slots // 2 * _NAME_ROOM
        numbers = _HEAD + slots * _SLOT
        memory = np.zeros(numbers + -(-names_size // 8), np.int64)
        self._numbers = memory[:numbers]
        self._names = memory[numbers:].view(np.uint8)[:names_size]
        self._numbers[: _SEED + 1] = slots, names_size, self._seed
        self._names_end = 0
        self._topics = {}
        self._memory = memory
        self.address, self.size = int(memory.ctypes.data), int(memory.nbytes)
        for name, number in topics.items():
            self.add(name, number)

    def _write(self, name: bytes, number: int) -> None:
        slots = int(self._numbers[_SLOTS])
        place = hash_name(address_of(name), len(name), self._seed) & (slots - 1)
        while (slot := self._numbers[_HEAD + place * _SLOT :])[1] and self._name_of(slot) != name:
            place = (place + 1) & (slots - 1)
        if name not in self._topics:
            self._names[self._names_end : self._names_end + len(name)] = np.frombuffer(name, np.uint8)
            slot[0] = self._names_end
            slot[1] = len(name)
            self._names_end += len(name)
        slot[2] = number
        self._topics[name] = number

    def _name_of(self, slot: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bytes:
        return self._names[slot[0] : slot[0] + slot[1]].tobytes()
