"""PULLs by kernels: from received bytes to answers that are written, many in one call.

    first pull of a shape     ordinary code answers it, and knows from then on that it is allowed
    second                    its shape is learned, for this connection
    from then on              kernels recognize it, find its records and write its answer's head; one call of the
                              system writes heads and records, from where they lie

Whatever is unusual is left to ordinary code: a queue's end, filters that let nothing through, offsets that were
reset. What a shape stands for is looked at again before an answer is written. Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from embermq.broker.fast_pull_shapes import PullShape, answer_pattern, request_pattern
from embermq.broker.fast_sends import Received
from embermq.broker.fast_shapes import AskingPeer, ShapeTable, ShapeTaker
from embermq.broker.handlers.pull import PullHandlers
from embermq.broker.learned_headers import find_frame
from embermq.broker.stages import Stages
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.errors import BadFrame
from embermq.format.frame import Frame, FrameLimits
from embermq.kernels.columns import QUEUE_END
from embermq.kernels.commands import decode_command
from embermq.kernels.pulls import (
    FILE_COUNT,
    FILES,
    FRAME_LIMIT,
    HEADER_LIMIT,
    OTHER_WINDOW,
    PLACE_COUNT,
    PULLS,
    READ_AT,
    REASON,
    RECEIVED,
    RECEIVED_SIZE,
    RUN_COUNT,
    RUN_WIDTH,
    SHAPE_WIDTH,
    SIZE,
    STOPPED_OFFSET,
    STOPPED_SHAPE,
    PullMemory,
    take_pulls,
)
from embermq.kernels.shapes import ENOUGH, NOT_KNOWN
from embermq.log.consume_queue import ConsumeQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.rpc.peer import Peer
from embermq.rpc.router import Observe
from embermq.store.readable_log import ReadableLog

OUT_SIZE: Final = 5 * 1024 * 1024  # for heads and scattered records: a largest answer; only what is used is in memory
MOST_PLACES: Final = 1024  # that the system writes from at once
MOST_STRETCHES: Final = 4096


class Puller(AskingPeer, Protocol):
    """A peer that can be written to from memory."""

    def write_places(self, places: int, count: int, size: int) -> None:
        """Write whole frames, of `size` bytes, that lie in `count` places; those are free again afterwards.

        `places` is where their addresses and sizes lie.
        """
        ...


class _Reader(ShapeTable[PullShape]):
    """The shapes of one connection's pulls."""

    def __init__(self, settings: object, topics: object, groups: object) -> None:
        super().__init__(SHAPE_WIDTH)
        self.is_used = True
        self.settings, self.topics, self.groups = settings, topics, groups  # as they were when all shapes were valid


class FastPulls(ShapeTaker[Puller, _Reader]):
    """Answers pulls of connections whose like ordinary code has answered before."""

    def __init__(
        self,
        tables: Tables,
        received: Received,
        handlers: PullHandlers,
        statistics: BrokerStatistics,
        *,
        stages: Stages,
        frame_limits: FrameLimits,
        observe: Observe,
        now: Callable[[], float],
    ) -> None:
        super().__init__()
        self._tables = tables
        self._received = received
        self._handlers = handlers
        self._statistics = statistics
        self._stages = stages
        self._observe = observe
        self._now = now
        files = tables.store.log_files()
        self._log, self._log_readers = ReadableLog(files), files.readers
        self._queue_numbers = tables.store.queue_table()
        self._memory = memory = PullMemory(out_size=OUT_SIZE, most_places=MOST_PLACES, most_stretches=MOST_STRETCHES)
        memory.numbers[RECEIVED], memory.numbers[RECEIVED_SIZE] = received.address, received.size
        memory.numbers[FRAME_LIMIT], memory.numbers[HEADER_LIMIT] = frame_limits
        handlers.note_puller = self.note

    def note(self, peer: Peer) -> None:
        """Ordinary code has answered a pull of this peer; the next ones may be taken."""
        if peer not in self._readers and not peer.is_closed:
            self._add_reader(peer)

    def _add_reader(self, peer: Peer) -> _Reader:
        tables = self._tables
        reader = _Reader(self._handlers.settings, tables.store.topic_table(), tables.groups.table())
        self._readers[peer] = reader
        return reader

    def expire(self) -> None:
        """Let go of what was not used since the last time: it may keep files on the disk that were deleted."""
        for peer, reader in list(self._readers.items()):
            if not reader.is_used:
                del self._readers[peer]
            reader.is_used = False
        if not self._readers:
            self._log.forget()

    def _take_some(self, peer: Puller, begin: int, end: int) -> tuple[int, int]:
        """Answer some pulls: how many bytes they take, and why not all."""
        reader = self._readers.get(peer)
        if reader is None or not reader.shapes:
            return 0, NOT_KNOWN
        if not self._refresh(reader):
            self.forget(peer)
            return 0, NOT_KNOWN
        numbers, began = self._memory.numbers, self._now()
        taken = take_pulls(self._memory.address, reader.address, len(reader.shapes), begin, end)
        if numbers[REASON] == OTHER_WINDOW and taken == 0 and self._move(reader):
            taken = take_pulls(self._memory.address, reader.address, len(reader.shapes), begin, end)
        reason = numbers[REASON]
        if taken == 0:
            return 0, reason
        runs = self._memory.runs[: numbers[RUN_COUNT] * RUN_WIDTH].tolist()
        shapes = reader.shapes
        for at in range(0, len(runs), RUN_WIDTH):
            if not self._is_right(shapes[runs[at]]):
                self.forget(peer)
                return 0, NOT_KNOWN
        found = self._now()
        peer.write_places(self._memory.places_address, numbers[PLACE_COUNT], numbers[SIZE])
        self._log_readers.note(numbers[READ_AT])
        pulls = numbers[PULLS]
        messages = self._note(shapes, runs, ms_each=(found - began) * 1000 / pulls)
        ended = self._now()
        self._observe(RequestCode.PULL_MESSAGE, ResponseCode.SUCCESS, (ended - began) / pulls, pulls)
        self._stages.store.count(messages, found - began)
        self._stages.answer.count(messages, ended - found)
        return taken, ENOUGH if reason == OTHER_WINDOW else reason

    def _note(self, shapes: list[PullShape], runs: list[int], *, ms_each: float) -> int:
        """Note where pulls ended, and count them; how many messages they got."""
        offsets, count_gets, messages = self._tables.offsets, self._statistics.count_gets, 0
        for at in range(0, len(runs), RUN_WIDTH):
            number, pulls, records, size, next_offset, commit_offset = runs[at : at + RUN_WIDTH]
            shape = shapes[number]
            topic, group, queue = shape.topic, shape.group, shape.number
            if shape.commits:
                offsets.commit(topic, group, queue, commit_offset)
            offsets.note_pull(topic, group, queue, next_offset)
            count_gets(topic, queue, group, pulls, records, size, ms=int(ms_each * pulls))
            messages += records
        return messages

    def _refresh(self, reader: _Reader) -> bool:
        """Make ready for a call; False if the shapes of the connection may not be used any more."""
        tables, numbers, log = self._tables, self._memory.numbers, self._log
        settings, topics, groups = self._handlers.settings, tables.store.topic_table(), tables.groups.table()
        if groups is not reader.groups or topics is not reader.topics or settings is not reader.settings:
            if not self._is_valid(reader):
                return False
            reader.settings, reader.topics, reader.groups = settings, topics, groups
        if tables.offsets.has_resets and any(
            tables.offsets.is_reset(shape.topic, shape.group, shape.number) for shape in reader.shapes
        ):
            return False
        reader.is_used = True
        log.refresh()
        numbers[FILES], numbers[FILE_COUNT] = log.files.address, log.files.count
        return True

    def _is_valid(self, reader: _Reader) -> bool:
        """Whether all shapes may still be used, now that settings, topics or groups have changed."""
        is_same = self._tables.groups.table() is reader.groups  # which topics a group may not read is told there
        return all(
            self._handlers.is_valid(shape.known) and (is_same or shape.members is None) for shape in reader.shapes
        )

    def _is_right(self, shape: PullShape) -> bool:
        """Whether a shape is still what kernels took it for."""
        queue = shape.queue
        if self._tables.store.find_queue(shape.topic, shape.number) is not queue or queue.min_offset != shape.low:
            return False
        if queue.file_of(shape.begin) is not shape.file:
            return False
        members = shape.members
        if self._tables.membership.consumer(shape.group) is not members:
            return False
        return members is None or (
            members.message_model == shape.message_model and members.subscriptions.get(shape.topic) is shape.subscribed
        )

    def _move(self, reader: _Reader) -> bool:
        """Have the shape that kernels stopped at look at other entries; False if it cannot."""
        number, offset = self._memory.numbers[STOPPED_SHAPE], self._memory.numbers[STOPPED_OFFSET]
        shape = reader.shapes[number]
        if not shape.move_to(offset):
            return False
        reader.set_row(number, self._row(shape))
        return True

    def _row(self, shape: PullShape) -> list[int]:
        table = self._queue_numbers
        return shape.row(table.address + (table.row(shape.topic.encode(), shape.number) + QUEUE_END) * 8)

    def _learn(self, peer: Puller, begin: int, end: int) -> bool:
        """Learn the shape of the pull that comes next, if it is one whose like was allowed before."""
        frame = find_frame(self._received.view, begin, end, RequestCode.PULL_MESSAGE)
        shape = None if frame is None else self._shape_of(peer, frame)
        if shape is None:
            return False
        reader = self._readers.get(peer) or self._add_reader(peer)
        reader.add(shape, self._row(shape))
        return True

    def _shape_of(self, peer: Puller, frame: Frame) -> PullShape | None:
        """The shape of a pull; None if kernels cannot take its like."""
        form, header, _ = frame
        try:
            request = decode_command(frame)
        except BadFrame:  # ordinary code says so
            return None
        is_pull = request.code == RequestCode.PULL_MESSAGE and not request.flag
        known = self._handlers.recall(peer, request) if is_pull else None
        if known is None:
            return None
        queue = self._tables.store.find_queue(known.pull.topic.name, known.pull.numbers.queue)
        pattern = request_pattern(form, header, request)
        is_elsewhere = self._tables.kept_of(known.pull.topic) is not None
        if type(queue) is not ConsumeQueue or pattern is None or is_elsewhere:
            return None
        return PullShape(known, queue, form, pattern, answer_pattern(form, known))
