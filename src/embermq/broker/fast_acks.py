"""ACKs by kernels: taken out of received bytes, many in one call, each with its answer.

    first of a shape     its header is learned: topic, group and broker are part of it, all numbers are gaps
    from then on         kernels read the numbers, and who has popped what when is looked at once for each pop and queue

What is unusual is left to ordinary code, beginning with the first that is: acks of pops in order, of what cannot have
been popped, of offsets that a queue does not have. Records are those of ordinary code, and are put together with
those of the same turn. Only loaded where kernels are.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import takewhile
from typing import Final, NamedTuple

from embermq.broker.fast_sends import Received
from embermq.broker.fast_shapes import MOST_SHAPES, AskingPeer, ShapeTable, ShapeTaker
from embermq.broker.handlers.pop_acks import AckHandlers, AckKey
from embermq.broker.learned_headers import (
    Changing,
    Numbers,
    answer_pattern,
    changing_number,
    find_frame,
    request_pattern,
)
from embermq.broker.pop.answering import Answering
from embermq.errors import EmberError
from embermq.format.command import Command, make_answer
from embermq.format.frame import BINARY_FORM, FRAME_HEAD, JSON_FORM, Frame, FrameLimits
from embermq.format.pop_fields import parse_handle
from embermq.kernels.acks import (
    ACK_WIDTH,
    ACKS,
    ANSWERS_SIZE,
    FRAME_LIMIT,
    HEADER_LIMIT,
    REASON,
    RECEIVED,
    RECEIVED_SIZE,
    RUN_FIRST,
    RUN_WIDTH,
    RUNS,
    SHAPE_WIDTH,
    AckMemory,
    take_acks,
)
from embermq.kernels.commands import decode_command
from embermq.kernels.patterns import (
    INVISIBLE,
    OFFSET,
    OPAQUE,
    OTHER_OFFSET,
    OTHER_QUEUE,
    POP_TIME,
    QUEUE,
    REVIVE_QUEUE,
    START,
    TEXT_END,
    TEXT_SIZE,
    Pattern,
)
from embermq.kernels.shapes import NOT_KNOWN, NOT_PLAIN
from embermq.model.codes import RequestCode
from embermq.model.pop import Handle

MOST_ACKS: Final = 512  # of one call
OUT_SIZE: Final = 128 * MOST_ACKS  # bytes of answers
LONGEST_WORDS: Final = 256  # characters of a handle besides its numbers, with which no handle is too long
_LEARNING_COST: Final = 8  # acks that are taken pay for one shape
_ACK: Final = RequestCode.ACK_MESSAGE
_POP: Final = b'{"code":%d,' % RequestCode.POP_MESSAGE
_WORDS: Final = rb"(\d+) (\d+) (\d+) (\d+) \d+ [^ \"]+ (\d+) (\d+)"  # of a handle, all of whose numbers change
_HANDLE_NUMBERS: Final = (START, POP_TIME, INVISIBLE, REVIVE_QUEUE, OTHER_QUEUE, OTHER_OFFSET)
_HANDLE: Final = Changing(
    re.compile(rb'"extraInfo"\s*:\s*"' + _WORDS + rb'"'),
    _HANDLE_NUMBERS,
    re.compile(rb"\0\x09extraInfo(....)" + _WORDS + rb"()", re.DOTALL),
    (TEXT_SIZE, *_HANDLE_NUMBERS, TEXT_END),
)
_CHANGING: Final = (changing_number("queueId", QUEUE), changing_number("offset", OFFSET), _HANDLE)
_TRIED: Final = (OPAQUE, QUEUE, OFFSET, *_HANDLE_NUMBERS)
_TRIALS: Final = (
    dict.fromkeys(_TRIED, 0),
    {number: 10 + place for place, number in enumerate(_TRIED)},
    {number: 10**17 + place for place, number in enumerate(_TRIED)} | {OPAQUE: 2**31 - 1},
)
_ANSWERS: Final = {
    form: answer_pattern(make_answer(Command(0, {}, b"", 0, form=form)), ()) for form in (JSON_FORM, BINARY_FORM)
}


class AckShape(NamedTuple):
    """Acks that a consumer sends again and again."""

    topic: str
    group: str
    broker: str
    form: int
    request: Pattern

    def row(self) -> list[int]:
        return [self.form, *self.request.row, *_ANSWERS[self.form].row]


class _Acker(ShapeTable[AckShape]):
    """The shapes of one connection's acks."""

    def __init__(self) -> None:
        super().__init__(SHAPE_WIDTH)
        self.credit = MOST_SHAPES * _LEARNING_COST  # for shapes to be learned


class FastAcks(ShapeTaker[AskingPeer, _Acker]):
    """Takes acks of connections."""

    def __init__(
        self, received: Received, handlers: AckHandlers, answering: Answering, frame_limits: FrameLimits
    ) -> None:
        super().__init__()
        self._received = received
        self._handlers = handlers
        self._answering = answering
        self._memory = memory = AckMemory(most_acks=MOST_ACKS, out_size=OUT_SIZE)
        memory.numbers[RECEIVED], memory.numbers[RECEIVED_SIZE] = received.address, received.size
        memory.numbers[FRAME_LIMIT], memory.numbers[HEADER_LIMIT] = frame_limits
        self.taken = 0  # acks since the start

    def is_pop(self, begin: int, end: int) -> bool:
        """Whether the next request is a POP, as clients write it."""
        header = begin + FRAME_HEAD.size
        return end - header >= len(_POP) and self._received.view[header : header + len(_POP)] == _POP

    def _take_some(self, peer: AskingPeer, begin: int, end: int) -> tuple[int, int]:
        """Take some acks: how many bytes they take, and why not all."""
        acker = self._readers.get(peer)
        if acker is None:
            return 0, NOT_KNOWN
        memory, numbers = self._memory, self._memory.numbers
        taken = take_acks(memory.address, acker.address, len(acker.shapes), begin, end)
        reason, count, size = numbers[REASON], numbers[ACKS], numbers[ANSWERS_SIZE]
        runs = memory.runs[: numbers[RUNS] * RUN_WIDTH].tolist()
        rows = memory.acks[: count * ACK_WIDTH].tolist()
        acks: dict[AckKey, list[int]] = {}
        for run in range(0, len(runs), RUN_WIDTH):
            first, run_count, low, high = runs[run + RUN_FIRST : run + RUN_WIDTH]
            offsets = rows[first * ACK_WIDTH : (first + run_count) * ACK_WIDTH : ACK_WIDTH]
            key = _key_of(acker.shapes, runs[run : run + RUN_FIRST])
            usual = self._usual(key, offsets, low, high)
            if usual:
                acks.setdefault(key, []).extend(usual)
            if len(usual) < run_count:
                count, reason = first + len(usual), NOT_PLAIN
                _, at, size = rows[count * ACK_WIDTH : (count + 1) * ACK_WIDTH]
                taken = at - begin
                break
        if count:
            tell = partial(self._answering.tell_written, peer, _ACK, memory.answers[:size].tobytes(), count)
            self._handlers.store(acks, peer, count, tell)
            acker.credit = min(acker.credit + count, MOST_SHAPES * _LEARNING_COST)
            self.taken += count
        return taken, reason

    def _usual(self, key: AckKey, offsets: list[int], low: int, high: int) -> list[int]:
        """The first of these offsets, which go from `low` to `high`, up to one that ordinary code has to look at."""
        if key.handle.is_fifo:
            return []
        try:
            least, most = self._handlers.check(*key)
        except EmberError:
            return []
        if least <= low and high <= most:
            return offsets
        return list(takewhile(lambda offset: least <= offset <= most, offsets))

    def _learn(self, peer: AskingPeer, begin: int, end: int) -> bool:
        """Learn the shape of the ack that comes next, unless so many were learned in vain that it is not worth it."""
        acker = self._readers.get(peer)
        if peer.is_closed or (acker is not None and acker.credit < _LEARNING_COST):
            return False
        frame = find_frame(self._received.view, begin, end, _ACK)
        if frame is None:
            return False
        if acker is None:
            acker = self._readers[peer] = _Acker()
        acker.credit -= _LEARNING_COST
        shape = shape_of(frame)
        if shape is None:
            return False
        acker.add(shape, shape.row())
        return True


def _key_of(shapes: list[AckShape], numbers: list[int]) -> AckKey:
    """What the acks of a run are of."""
    number, queue, start, pop_time, invisible_ms, revive_queue = numbers
    topic, group, broker, *_ = shapes[number]
    return AckKey(topic, group, queue, Handle(start, pop_time, invisible_ms, revive_queue, broker))


def shape_of(frame: Frame) -> AckShape | None:
    """The shape of an ack; None if kernels cannot take its like."""
    form, header, _ = frame
    try:
        request = decode_command(frame)
        fields = request.fields
        broker = parse_handle(fields.get("extraInfo", "")).broker
    except EmberError:  # ordinary code says so
        return None
    topic, group = fields.get("topic"), fields.get("consumerGroup")
    kind = fields["extraInfo"].split(" ")[4]
    if request.code != _ACK or request.flag or not topic or not group or len(kind + broker) > LONGEST_WORDS:
        return None

    def fields_of(numbers: Numbers) -> dict[str, str]:
        start, pop_time, invisible, revive_queue, queue, offset = (numbers[each] for each in _HANDLE_NUMBERS)
        handle = f"{start} {pop_time} {invisible} {revive_queue} {kind} {broker} {queue} {offset}"
        return {**fields, "queueId": str(numbers[QUEUE]), "offset": str(numbers[OFFSET]), "extraInfo": handle}

    pattern = request_pattern(form, header, request, _CHANGING, _TRIALS, fields_of)
    return None if pattern is None else AckShape(topic, group, broker, form, pattern)
