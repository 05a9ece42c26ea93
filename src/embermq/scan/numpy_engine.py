"""The engine of numpy and Arrow: no loop but the hop from record to record, which is Python's own.

What a kernel checks record by record is checked here column by column: the rows up to the first that fails are kept,
and plain code looks at that one.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from embermq.format.record_layout import (
    HEADS,
    MAGIC_V1,
    MAGIC_V2,
    MAX_PROPERTIES_SIZE,
    MAX_V1_TOPIC_SIZE,
    MIN_RECORD_SIZE,
)
from embermq.kernels import columns as at
from embermq.model.properties import KEYS, TAGS, UNIQ_KEY
from embermq.scan.engine import MOST_ROWS, Looked, Numbers, Taken, Times
from embermq.scan.topic_numbers import TopicNumbers

_Bytes = npt.NDArray[np.uint8]
_Flags = npt.NDArray[np.bool_]

_SIZE: Final = struct.Struct(">I")
_MAX_V2_TOPIC_SIZE: Final = 0x7FFF
_CRC_MASK: Final = 0x7FFF_FFFF


def _head(born: int, store: int) -> np.dtype[np.void]:
    """The head of a record with hosts of these sizes."""
    fields = [
        *(("size", ">u4"), ("magic", ">u4"), ("body_crc", ">i4"), ("queue", ">i4"), ("flag", ">i4")),
        *(("offset", ">i8"), ("position", ">i8"), ("sys_flag", ">i4"), ("born_time", ">i8"), ("born_host", ">i8")),
        *(("born_rest", f"V{born - 8}"), ("store_time", ">i8"), ("store_host", ">i8"), ("store_rest", f"V{store - 8}")),
        *(("reconsume_times", ">i4"), ("prepared", ">i8"), ("body_size", ">i4")),
    ]
    return np.dtype([(name, kind) for name, kind in fields if kind != "V0"])


_HEADS: Final = (_head(8, 8), _head(20, 8), _head(8, 20), _head(20, 20))  # by the host bits of the sys flag
assert [head.itemsize for head in _HEADS] == [head.size for head in HEADS], "the head is laid out twice"


_COLUMNS: Final = (
    (at.ROW_SIZE, "size"), (at.ROW_QUEUE, "queue"), (at.ROW_OFFSET, "offset"), (at.ROW_SYS_FLAG, "sys_flag"),
    (at.ROW_STORE_TIME, "store_time"), (at.ROW_BODY_SIZE, "body_size"), (at.ROW_PREPARED_POSITION, "prepared"),
    (at.ROW_FLAG, "flag"), (at.ROW_BODY_CRC, "body_crc"), (at.ROW_BORN_TIME, "born_time"),
    (at.ROW_BORN_HOST, "born_host"), (at.ROW_STORE_HOST, "store_host"), (at.ROW_RECONSUME_TIMES, "reconsume_times"),
)  # fmt: skip


class NumpyEngine:
    """Gives what CompiledEngine gives, three to eight times as slowly."""

    def __init__(self, accepts_topic: Callable[[str], bool]) -> None:
        self.topics = TopicNumbers(accepts_topic)

    def find(
        self,
        data: memoryview,
        position: int,
        *,
        stop: int = -1,
        places: Numbers | None = None,
        times: Times,
        check_body: bool,
        with_rest: bool = True,  # they cost nothing here
    ) -> Looked:
        memory = np.frombuffer(data, np.uint8)
        starts = np.array(_hop(data, stop), np.int64) if places is None else _fitting(memory, places[:MOST_ROWS])
        rows = _read_tails(memory, _read_heads(memory, starts, position))
        rows = self._number_topics(data, rows)
        seen = rows.shape[1]
        wanted = np.flatnonzero(self._is_wanted(rows, times))
        if check_body:
            whole = _count_whole(data, rows, wanted)
            if whole < len(wanted):
                seen, wanted = int(wanted[whole]), wanted[:whole]
        end = _end_of(rows, seen) if places is None or seen == len(places) else int(places[seen])
        return Looked(rows[:, wanted], end, seen, goes_on=seen == MOST_ROWS)

    def take_apart(self, data: memoryview, places: Numbers, sizes: Numbers, *, with_pairs: bool) -> Taken:
        blocks = self.gather(data, places, sizes, pa.binary())
        count = _count_text(blocks)
        if count < len(blocks):
            blocks, places, sizes = blocks.slice(0, count), places[:count], sizes[:count]
        pieces = _Pieces(blocks, places)
        values = np.zeros((at.VALUE_WIDTH, count), np.int64)
        for name, place, size in (
            (TAGS, at.VALUE_TAGS_AT, at.VALUE_TAGS_SIZE),
            (KEYS, at.VALUE_KEYS_AT, at.VALUE_KEYS_SIZE),
            (UNIQ_KEY, at.VALUE_UNIQUE_AT, at.VALUE_UNIQUE_SIZE),
        ):
            values[size] = -1
            found = pieces.find(name.encode())
            # Of one name in one record, the last counts, and is the last that is written here.
            values[place, pieces.rows[found]] = pieces.pairs[at.PAIR_VALUE_AT, found]
            values[size, pieces.rows[found]] = pieces.pairs[at.PAIR_VALUE_SIZE, found]
        if not with_pairs:
            return Taken(count, values, np.empty(0, np.int32), np.empty((at.PAIR_WIDTH, 0), np.int64))
        names = self.gather(data, pieces.pairs[at.PAIR_NAME_AT], pieces.pairs[at.PAIR_NAME_SIZE], pa.binary())
        kept = _find_last(pieces.rows, names)
        rows, pairs = (pieces.rows, pieces.pairs) if kept is None else (pieces.rows[kept], pieces.pairs[:, kept])
        ends = np.searchsorted(rows, np.arange(count), side="right").astype(np.int32)
        return Taken(count, values, ends, pairs)

    def gather(self, data: memoryview, places: Numbers, sizes: Numbers, kind: pa.DataType) -> pa.Array:
        count = len(places)
        if count == 0:
            return pa.array([], kind)
        limits = np.empty(2 * count, np.int32)
        absent = sizes < 0
        limits[0::2] = np.where(absent, 0, places)
        limits[1::2] = np.where(absent, 0, places + sizes)
        np.maximum.accumulate(limits, out=limits)  # what is absent has no place, and limits may not fall
        spans = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(limits), pa.py_buffer(data)])
        _, offsets, gathered = spans.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))).buffers()
        valid = pa.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None
        return pa.Array.from_buffers(kind, count, [valid, offsets, gathered])

    def _number_topics(self, data: memoryview, rows: Numbers) -> Numbers:
        """Write the number of its topic into every row; a row whose topic is no text is the first that is left out."""
        places, sizes = rows[at.ROW_TOPIC], rows[at.ROW_PROPERTIES_AT] - 2 - rows[at.ROW_TOPIC]
        names = self.gather(data, places, sizes, pa.binary()).dictionary_encode()
        numbers = np.empty(len(names.dictionary), np.int64)
        for index, name in enumerate(names.dictionary.to_pylist()):
            try:
                numbers[index] = self.topics.add(name)
            except UnicodeDecodeError:
                numbers[index] = -1
        rows[at.ROW_TOPIC] = numbers[names.indices.to_numpy()] if rows.shape[1] else 0
        return _until_first(rows, rows[at.ROW_TOPIC] < 0)

    def _is_wanted(self, rows: Numbers, times: Times) -> _Flags:
        is_timely = (rows[at.ROW_STORE_TIME] >= times.begin) & (rows[at.ROW_STORE_TIME] < times.end)
        is_wanted: _Flags = is_timely & (self.topics.wanted[rows[at.ROW_TOPIC]] == 1)
        return is_wanted


class _Pieces:
    """The pairs of names and values in blocks of properties, which lie at `places`: one column for each."""

    def __init__(self, blocks: pa.Array, places: Numbers) -> None:
        # With a separator behind each block, a piece ends where a separator is, and nowhere else.
        joined = pc.binary_join_element_wise(blocks, b"", b"\x02") if len(blocks) else blocks
        _, offset_buffer, gathered = joined.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)[: len(blocks) + 1].astype(np.int64) if len(blocks) else [0]
        self._memory = memory = np.frombuffer(gathered or b"", np.uint8)[: int(offsets[-1])]
        ends = np.flatnonzero(memory == 2)
        begins = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        name_ends = np.append(np.flatnonzero(memory == 1), len(memory))
        name_ends = name_ends[np.searchsorted(name_ends, begins)]
        filled = (name_ends > begins) & (ends > name_ends + 1)
        begins, name_ends, ends = begins[filled], name_ends[filled], ends[filled]
        self.rows = np.searchsorted(offsets[1:], ends, side="right")
        self._begins, self._name_sizes = begins, name_ends - begins
        shift = places[self.rows] - np.asarray(offsets)[self.rows]  # from here to where the properties lie
        self.pairs = np.stack([begins + shift, name_ends - begins, name_ends + 1 + shift, ends - name_ends - 1])

    def find(self, name: bytes) -> npt.NDArray[np.intp]:
        """The pairs with this name."""
        found = np.flatnonzero(self._name_sizes == len(name))
        for index, byte in enumerate(name):
            found = found[self._memory[self._begins[found] + index] == byte]
        return found


def _hop(data: memoryview, stop: int) -> list[int]:
    """Where records begin, as far as their sizes tell, before byte `stop`; all that they announce is there."""
    starts: list[int] = []
    place, size = 0, len(data)
    unpack, last = _SIZE.unpack_from, min(stop, size - MIN_RECORD_SIZE + 1)
    append = starts.append
    for _ in range(MOST_ROWS):
        if place >= last:
            break
        (announced,) = unpack(data, place)
        if announced < MIN_RECORD_SIZE:
            break
        append(place)
        place += announced
    if place > size:  # the last is not all there
        starts.pop()
    return starts


def _fitting(memory: _Bytes, places: Numbers) -> Numbers:
    """The places up to the first at which no record can be, to judge by its size."""
    places = _until_first(places, (places < 0) | (places > len(memory) - MIN_RECORD_SIZE))
    sizes = _gather_heads(memory, places, np.dtype(">u4")).astype(np.int64)
    return _until_first(places, (sizes < MIN_RECORD_SIZE) | (sizes > len(memory) - places))


def _gather_heads(memory: _Bytes, places: Numbers, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """What lies at each of these places; there must be enough bytes from each on."""
    count = max(len(memory) - kind.itemsize + 1, 0)
    every = np.ndarray((count,), np.dtype((np.void, kind.itemsize)), memory, strides=(1,))
    return every[places].view(kind)


def _read_heads(memory: _Bytes, starts: Numbers, position: int) -> Numbers:
    """The columns of heads, up to the first that is none. A topic's column has, for now, where its tail begins."""
    heads = _gather_heads(memory, starts, _HEADS[0])
    is_head = (heads["magic"] == MAGIC_V1) | (heads["magic"] == MAGIC_V2)
    is_head &= heads["position"] == starts + position
    heads, starts = _until_first(heads, ~is_head), _until_first(starts, ~is_head)
    rows = np.empty((at.ROW_WIDTH, len(starts)), np.int64)
    kinds = heads["sys_flag"] >> 4 & 3
    for kind in np.unique(kinds):
        which = np.flatnonzero(kinds == kind)
        layout = _HEADS[kind]
        if kind:
            # A record that is too short for its head, at the end of the memory, fails by its tail below.
            which = which[starts[which] + layout.itemsize <= len(memory)]
        found = heads if not kind and len(which) == len(heads) else _gather_heads(memory, starts[which], layout)
        for column, name in _COLUMNS:
            rows[column, which] = found[name]
        rows[at.ROW_AT, which] = starts[which]
        rows[at.ROW_BODY_AT, which] = starts[which] + layout.itemsize
    is_short = starts + np.array([head.itemsize for head in _HEADS])[kinds] > len(memory)
    rows[at.ROW_TOPIC] = heads["magic"] == MAGIC_V1
    return _until_first(rows, is_short)


def _read_tails(memory: _Bytes, rows: Numbers) -> Numbers:
    """Topic and properties, up to the first row whose parts do not add up. ROW_TOPIC tells where the name begins."""
    is_v1 = rows[at.ROW_TOPIC] == 1
    ends = rows[at.ROW_AT] + rows[at.ROW_SIZE]
    tails = rows[at.ROW_BODY_AT] + rows[at.ROW_BODY_SIZE]
    widths = np.where(is_v1, 1, 2)
    rows = _until_first(rows, (rows[at.ROW_BODY_SIZE] < 0) | (tails + widths > ends))
    count = rows.shape[1]
    is_v1, ends, tails, widths = is_v1[:count], ends[:count], tails[:count], widths[:count]
    first = memory[tails].astype(np.int64)
    sizes = np.where(is_v1, first, first << 8 | memory[np.minimum(tails + 1, len(memory) - 1)])
    topic_ends = tails + widths + sizes
    is_wrong = (topic_ends + 2 > ends) | (sizes > np.where(is_v1, MAX_V1_TOPIC_SIZE, _MAX_V2_TOPIC_SIZE))
    rows = _until_first(rows, is_wrong)
    count = rows.shape[1]
    ends, tails, widths, topic_ends = ends[:count], tails[:count], widths[:count], topic_ends[:count]
    properties_sizes = memory[topic_ends].astype(np.int64) << 8 | memory[topic_ends + 1]
    rows[at.ROW_TOPIC] = tails + widths
    rows[at.ROW_PROPERTIES_AT] = topic_ends + 2
    rows[at.ROW_PROPERTIES_SIZE] = properties_sizes
    return _until_first(rows, (properties_sizes != ends - topic_ends - 2) | (properties_sizes > MAX_PROPERTIES_SIZE))


def _count_whole(data: memoryview, rows: Numbers, wanted: npt.NDArray[np.intp]) -> int:
    """How many of the wanted rows there are before the first whose body does not match its checksum."""
    places, sizes, sums = (rows[column, wanted] for column in (at.ROW_BODY_AT, at.ROW_BODY_SIZE, at.ROW_BODY_CRC))
    # A loop in C, so to say: one of Python's takes as long as the checksums.
    bodies = map(data.__getitem__, map(slice, places.tolist(), (places + sizes).tolist()))
    found = np.fromiter(map(zlib.crc32, bodies), np.int64, len(wanted)) & _CRC_MASK
    return len(_until_first(wanted, found != sums))


def _end_of(rows: Numbers, seen: int) -> int:
    """The byte behind the rows that were seen, all of one chain."""
    return int(rows[at.ROW_AT, seen - 1] + rows[at.ROW_SIZE, seen - 1]) if seen else 0


def _count_text(blocks: pa.Array) -> int:
    """How many blocks there are before the first that is not UTF-8."""
    try:
        blocks.cast(pa.string())
        return len(blocks)
    except pa.ArrowInvalid:
        for number, block in enumerate(blocks.to_pylist()):
            try:
                block.decode()
            except UnicodeDecodeError:
                return number
    return len(blocks)


def _find_last(rows: npt.NDArray[np.intp], names: pa.Array) -> npt.NDArray[np.intp] | None:
    """Which pairs are the last of their row with their name; None if all are."""
    if not len(rows):
        return None
    encoded = names.dictionary_encode()
    marks = rows * len(encoded.dictionary) + encoded.indices.to_numpy()
    ordered = np.sort(marks)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    last = len(marks) - 1 - np.unique(marks[::-1], return_index=True)[1]
    return np.sort(last)


def _until_first(values: npt.NDArray[Any], is_wrong: _Flags) -> npt.NDArray[Any]:
    """The last axis of `values` up to the first that is wrong."""
    return values[..., : int(is_wrong.argmax())] if is_wrong.any() else values
