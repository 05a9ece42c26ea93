"""Acks that a kernel takes: read, and answered, as ordinary code does it."""

from __future__ import annotations

from random import Random

import pytest

from embermq.format.command import decode_command, encode_command, make_answer
from embermq.format.frame import BINARY_FORM, JSON_FORM, split_frames
from embermq.kernels.acks import (
    ACK_ANSWER_AT,
    ACK_AT,
    ACK_OFFSET,
    ACK_WIDTH,
    ACKS,
    ANSWERS_SIZE,
    FRAME_LIMIT,
    HEADER_LIMIT,
    REASON,
    RECEIVED,
    RECEIVED_SIZE,
    RUN_COUNT,
    RUN_FIRST,
    RUN_HIGH,
    RUN_INVISIBLE,
    RUN_LOW,
    RUN_POP_TIME,
    RUN_QUEUE,
    RUN_REVIVE_QUEUE,
    RUN_SHAPE,
    RUN_START,
    RUN_WIDTH,
    RUNS,
    AckMemory,
    take_acks,
)
from embermq.kernels.memory import address_of
from embermq.kernels.shapes import ENDED, ENOUGH, NOT_KNOWN, NOT_PLAIN
from embermq.model.pop import Handle
from tests.unit.kernels.acked_frames import CONSUMERS, NOW, Consumer, Read, a_frame, read_plainly, shape_table, shapes
from tests.unit.kernels.sent_frames import CASES

HANDLE = (5, NOW, 60_000, 3)


class Taking:
    """Memory for the kernel, and what it made of some bytes."""

    def __init__(self, *, most_acks: int = 512, out_size: int = 1 << 16) -> None:
        self.memory = AckMemory(most_acks=most_acks, out_size=out_size)
        self.memory.numbers[FRAME_LIMIT], self.memory.numbers[HEADER_LIMIT] = 1 << 20, 1 << 12
        self.shapes = shapes()
        self._table = shape_table(self.shapes)

    def take(self, data: bytes) -> int:
        numbers = self.memory.numbers
        numbers[RECEIVED], numbers[RECEIVED_SIZE] = address_of(data) if data else 0, len(data)
        return take_acks(self.memory.address, int(self._table.ctypes.data), len(self._table), 0, len(data))

    def __getitem__(self, number: int) -> int:
        return int(self.memory.numbers[number])

    def runs(self) -> list[list[int]]:
        numbers = self.memory.runs[: self[RUNS] * RUN_WIDTH].tolist()
        return [numbers[at : at + RUN_WIDTH] for at in range(0, len(numbers), RUN_WIDTH)]

    def rows(self) -> list[list[int]]:
        numbers = self.memory.acks[: self[ACKS] * ACK_WIDTH].tolist()
        return [numbers[at : at + ACK_WIDTH] for at in range(0, len(numbers), ACK_WIDTH)]

    def read(self) -> list[Read]:
        """The acks that were taken."""
        found = []
        for run in self.runs():
            shape = self.shapes[run[RUN_SHAPE]]
            handle = Handle(run[RUN_START], run[RUN_POP_TIME], run[RUN_INVISIBLE], run[RUN_REVIVE_QUEUE], shape.broker)
            offsets = [row[ACK_OFFSET] for row in self.rows()[run[RUN_FIRST] : run[RUN_FIRST] + run[RUN_COUNT]]]
            assert (run[RUN_LOW], run[RUN_HIGH]) == (min(offsets), max(offsets))
            found += [Read(shape.topic, shape.group, run[RUN_QUEUE], handle, offset) for offset in offsets]
        return found

    def answers(self) -> bytes:
        return self.memory.answers[: self[ANSWERS_SIZE]].tobytes()


@pytest.mark.parametrize("cases", CASES)
def test_what_is_taken_is_what_ordinary_code_reads(cases: int) -> None:
    random, takings = Random(cases), [Taking(), Taking(most_acks=3), Taking(out_size=300)]
    done = taken_acks = 0
    while done < cases:
        taking = random.choice(takings)
        frames = [a_frame(random) for _ in range(random.randrange(1, 12))]
        done += len(frames)
        data = b"".join(frames)
        data = data[: random.randrange(len(data) + 1)] if random.random() < 0.2 else data
        taken, count = taking.take(data), taking[ACKS]
        assert data[:taken] == b"".join(frames[:count])
        whole = [split_frames(frame)[0][0] for frame in frames[:count]]
        assert taking.read() == [read_plainly(frame) for frame in whole]
        expected = [encode_command(make_answer(decode_command(frame))) for frame in whole]
        assert taking.answers() == b"".join(expected)
        for number, row in enumerate(taking.rows()):
            assert row[ACK_AT] == len(b"".join(frames[:number]))
            assert row[ACK_ANSWER_AT] == len(b"".join(expected[:number]))
        assert taking[REASON] in (ENDED, ENOUGH, NOT_KNOWN, NOT_PLAIN)
        taken_acks += count
    assert taken_acks > cases // 3, "kernels were to take more of them"


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("offset", [0, 9, 10, 12_345_678_901, 10**18 - 1])
def test_every_plain_ack_is_taken(consumer: Consumer, offset: int) -> None:
    taking = Taking()
    data = encode_command(consumer.request(7, 2, offset, HANDLE))
    assert (taking.take(data), taking[ACKS], taking[REASON]) == (len(data), 1, ENDED)


@pytest.mark.parametrize("form", [JSON_FORM, BINARY_FORM])
def test_acks_of_one_pop_and_queue_that_follow_each_other_are_one_run(form: int) -> None:
    consumer = next(each for each in CONSUMERS if each.form == form)
    other = (5, NOW, 60_000, 4)
    acks = [
        (1, 5, HANDLE),
        (1, 9, HANDLE),
        (1, 6, HANDLE),
        (2, 6, HANDLE),
        (2, 7, other),
        (2, 8, other),
        (1, 8, HANDLE),
    ]
    taking = Taking()
    taking.take(b"".join(encode_command(consumer.request(9, *ack)) for ack in acks))
    assert [(run[RUN_QUEUE], run[RUN_COUNT], run[RUN_LOW], run[RUN_HIGH]) for run in taking.runs()] == [
        (1, 3, 5, 9), (2, 1, 6, 6), (2, 2, 7, 8), (1, 1, 8, 8),
    ]  # fmt: skip


def test_a_full_memory_is_told_and_the_next_call_goes_on() -> None:
    taking, consumer = Taking(most_acks=3), CONSUMERS[0]
    frames = [encode_command(consumer.request(number, 0, number, HANDLE)) for number in range(5)]
    taken = taking.take(b"".join(frames))
    assert (taken, taking[REASON], taking[ACKS]) == (len(b"".join(frames[:3])), ENOUGH, 3)
    assert taking.take(b"".join(frames[3:])) == len(b"".join(frames[3:]))
    narrow = Taking(out_size=20)
    assert (narrow.take(frames[0]), narrow[REASON]) == (0, NOT_PLAIN)


@pytest.mark.parametrize(("begin", "end"), [(-1, 5), (0, 10**9), (6, 5), (2**62, 2**62 + 1)])
def test_bytes_that_were_not_received_are_not_looked_at(begin: int, end: int) -> None:
    taking = Taking()
    data = encode_command(CONSUMERS[0].request(1, 0, 0, HANDLE))
    numbers = taking.memory.numbers
    numbers[RECEIVED], numbers[RECEIVED_SIZE] = address_of(data), len(data)
    assert take_acks(taking.memory.address, int(taking._table.ctypes.data), len(taking._table), begin, end) == 0
    assert taking[ACKS] == 0
