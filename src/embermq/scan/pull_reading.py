"""Reads queues by pulling: records as they lie in the log, but not where they lie there.

Engines find records by their own positions. So each record is told, in the memory that it was received in, that its
position is its place there; what comes out has the positions of the log again.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from embermq.client.queue_reading import BrokerQueues, Pulled
from embermq.format.record import MIN_RECORD_SIZE
from embermq.model.flags import SysFlag
from embermq.model.topic import is_light_queue
from embermq.scan.broker_files import broker_line
from embermq.scan.columns import POSITION
from embermq.scan.engine import Numbers
from embermq.scan.place_reading import Expected, read_places
from embermq.scan.record_places import Stretch
from embermq.scan.split_context import SplitContext
from embermq.scan.splits import PullSplit, QueuePart

MOST_TOGETHER: Final = 8 << 20  # bytes of records that are decoded together
_HEAD: Final = struct.Struct(">i16xqqi")  # size, offset, position, system flag
_OWN_AT: Final = 28
_OWN: Final = struct.Struct(">q")
_ANY: Final = -1


class PullContext(SplitContext):
    """A split that is pulled. Positions are those of the log, for whoever is told of damage."""

    positions: dict[int, int] = {}  # noqa: RUF012  # replaced with every stretch: places in memory to positions

    def add_damage(self, position: int, reason: str) -> None:
        super().add_damage(self.positions.get(position, position), reason)


def read_pulled(context: PullContext, split: PullSplit) -> Iterator[pa.RecordBatch]:
    """The wanted messages of parts of queues, queue by queue."""
    queues = BrokerQueues(broker_line(split.place), split.broker)
    for part in split.parts:
        pulls = queues.iter_range(part.topic, part.queue, part.begin, part.end, group=split.group)
        gathered = _Gathered(context, part)
        for pulled in chain(pulls, (None,)):
            if pulled is not None:
                gathered.add(pulled)
            if pulled is None or gathered.size >= MOST_TOGETHER:
                yield from gathered.read()
                gathered = _Gathered(context, part, gathered.expected)
        if gathered.expected < part.end:
            context.add_loss(part, part.end - gathered.expected, "the broker gave no more")


class _Gathered:
    """Records that are decoded together. `expected` is the offset of the message that must come next."""

    def __init__(self, context: PullContext, part: QueuePart, expected: int = -1) -> None:
        self.expected = part.begin if expected < 0 else expected
        self.size = 0
        self._context = context
        self._part = part
        self._places: list[int] = []
        self._positions: list[int] = []
        self._offsets: list[int] = []
        self._data: list[bytearray] = []

    def add(self, pulled: Pulled) -> None:
        """Take what one pull gave. What is missing of it is reported."""
        data = bytearray(pulled.records)
        at = 0
        while at < len(data):
            size = self._add_record(data, at)
            if size == 0:
                self._context.add_loss(self._part, pulled.end - self.expected, "what the broker sent are no records")
                del data[at:]
                self.expected = pulled.end
                break
            at += size
        if self.expected < pulled.end and not self._ends_in_batch():
            reason = pulled.reason or "they were not in the broker's answer"
            self._context.add_loss(self._part, pulled.end - self.expected, reason)
        self.expected = pulled.end
        self._data.append(data)
        self.size += len(data)

    def read(self) -> Iterator[pa.RecordBatch]:
        """The wanted messages of all that was added."""
        if not self._places:
            return
        context, part = self._context, self._part
        places = np.array(self._places, np.int64)
        count = len(places)
        context.positions = dict(zip(self._places, self._positions, strict=True))
        topic = context.engine.topics.add(part.topic.encode())
        expected = Expected(
            np.full(count, topic, np.int64), np.full(count, part.queue, np.int64), np.array(self._offsets, np.int64)
        )
        stretch = Stretch(memoryview(b"".join(self._data)), 0, places, 0)
        positions = np.array(self._positions, np.int64)
        for batch in read_places(context, stretch, expected):
            yield _with_positions(batch, places, positions)

    def _add_record(self, data: bytearray, at: int) -> int:
        """Take the record at a byte; its size, 0 if it is none."""
        if len(data) - at < MIN_RECORD_SIZE:
            return 0
        size, offset, position, sys_flag = _HEAD.unpack_from(data, at)
        if not MIN_RECORD_SIZE <= size <= len(data) - at:
            return 0
        has_own_offset = bool(is_light_queue(self._part.topic) or sys_flag & SysFlag.INNER_BATCH)
        if not has_own_offset and offset < self.expected:
            return int(size)  # it was here before
        if not has_own_offset and offset > self.expected:
            count = offset - self.expected
            self._context.add_loss(self._part, count, f"the broker went on with offset {offset}")
        place = self.size + at
        _OWN.pack_into(data, at + _OWN_AT, place)
        self._places.append(place)
        self._positions.append(position)
        self._offsets.append(_ANY if has_own_offset else offset)
        self.expected = self.expected + 1 if has_own_offset else offset + 1
        return int(size)

    def _ends_in_batch(self) -> bool:
        """Whether the last record may hold several messages, so that they cannot be counted."""
        return bool(self._offsets) and self._offsets[-1] == _ANY


def _with_positions(batch: pa.RecordBatch, places: Numbers, positions: Numbers) -> pa.RecordBatch:
    """The batch with the log's positions in place of those in memory."""
    if POSITION not in batch.schema.names:
        return batch
    which = np.searchsorted(places, batch[POSITION].to_numpy())
    return batch.set_column(
        batch.schema.get_field_index(POSITION), batch.schema.field(POSITION), pa.array(positions[which])
    )
