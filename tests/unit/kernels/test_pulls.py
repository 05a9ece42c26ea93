"""Pulls that a kernel answers: recognized and answered as ordinary code does, byte for byte."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from random import Random

import numpy as np
import pytest

from embermq.format.command import decode_command, encode_command
from embermq.format.frame import split_frames
from embermq.kernels.memory import address_of
from embermq.kernels.pulls import (
    FILE_COUNT,
    FILES,
    FRAME_LIMIT,
    HEADER_LIMIT,
    MOST_PULLS,
    OTHER_WINDOW,
    PLACE_COUNT,
    PULLS,
    REASON,
    RECEIVED,
    RECEIVED_SIZE,
    RUN_COUNT,
    RUN_PULLS,
    RUN_RECORDS,
    RUN_WIDTH,
    SHAPE_WIDTH,
    SIZE,
    PullMemory,
    take_pulls,
)
from embermq.kernels.shapes import ENDED, ENOUGH, NOT_KNOWN, NOT_PLAIN
from tests.unit.kernels.pulled_frames import PER_FILE, PulledQueues
from tests.unit.kernels.sent_frames import CASES

PLACE = struct.Struct("=qq")


class Taking:
    """Memory for a kernel, and what it made of some bytes."""

    def __init__(self, queues: PulledQueues, *, out_size: int, most_places: int, most_stretches: int) -> None:
        self.memory = PullMemory(out_size=out_size, most_places=most_places, most_stretches=most_stretches)
        self.queues = queues
        numbers = self.memory.numbers
        numbers[FRAME_LIMIT], numbers[HEADER_LIMIT] = 1 << 20, 1 << 12
        numbers[FILES], numbers[FILE_COUNT] = queues.readable.files.address, queues.readable.files.count
        self._table = np.zeros((len(queues.shapes), SHAPE_WIDTH), np.int64)

    def take(self, data: bytes, *, near: int) -> int:
        """How many bytes were taken, with windows that have the entry `near`."""
        for number in range(len(self._table)):
            self._table[number] = self.queues.row(number, near)
        numbers = self.memory.numbers
        numbers[RECEIVED], numbers[RECEIVED_SIZE] = address_of(data) if data else 0, len(data)
        return take_pulls(self.memory.address, int(self._table.ctypes.data), len(self._table), 0, len(data))

    def __getitem__(self, number: int) -> int:
        return int(self.memory.numbers[number])

    def written(self) -> bytes:
        places = ctypes.string_at(self.memory.places_address, self[PLACE_COUNT] * PLACE.size)
        return b"".join(ctypes.string_at(address, size) for address, size in PLACE.iter_unpack(places))

    def runs(self) -> list[list[int]]:
        numbers = self.memory.runs[: self[RUN_COUNT] * RUN_WIDTH].tolist()
        return [numbers[at : at + RUN_WIDTH] for at in range(0, len(numbers), RUN_WIDTH)]


@pytest.fixture
def queues(tmp_path: Path) -> PulledQueues:
    return PulledQueues(tmp_path, Random(7))


@pytest.mark.parametrize("cases", CASES)
def test_answers_are_those_of_ordinary_code(cases: int, queues: PulledQueues) -> None:
    random = queues.random
    takings = [
        Taking(queues, out_size=1 << 20, most_places=1024, most_stretches=4096),
        Taking(queues, out_size=1 << 16, most_places=64, most_stretches=64),
        Taking(queues, out_size=1_500, most_places=3, most_stretches=2),
    ]
    taken_pulls = found = done = 0
    while done < cases:
        taking = random.choice(takings[:2] if random.random() < 0.9 else takings)
        near = random.randrange(650)
        frames = [queues.frame(near) for _ in range(random.randrange(1, 12))]
        done += len(frames)
        data = b"".join(frames)
        data = data[: random.randrange(len(data) + 1)] if random.random() < 0.2 else data
        taken = taking.take(data, near=near)
        pulls = taking[PULLS]
        assert data[:taken] == b"".join(frames[:pulls]) and pulls <= MOST_PULLS
        answers = [queues.answer(decoded) for frame in frames[:pulls] for decoded in split_frames(frame)[0]]
        assert None not in answers and taking.written() == b"".join(answer or b"" for answer in answers)
        assert taking[SIZE] == len(taking.written())
        assert sum(run[RUN_PULLS] for run in taking.runs()) == pulls
        assert taking[REASON] in (ENDED, ENOUGH, NOT_KNOWN, NOT_PLAIN, OTHER_WINDOW)
        assert (taking[REASON] == ENDED) == (taken + size_of_next(data[taken:]) > len(data)) or taking[REASON] > ENOUGH
        taken_pulls += pulls
        found += sum(run[RUN_RECORDS] for run in taking.runs())
    assert taken_pulls > cases // 10 and found > cases, "kernels were to take more of them"
    queues.close()


def size_of_next(data: bytes) -> int:
    """How many bytes the next frame takes, whole or not."""
    return 4 + int.from_bytes(data[:4]) if len(data) >= 8 else 8


def test_what_is_found_by_ordinary_code_is_taken(queues: PulledQueues) -> None:
    """Every offset of every shape: what is left to ordinary code has a reason that can be seen in the entries."""
    taking = Taking(queues, out_size=1 << 20, most_places=1024, most_stretches=4096)
    taken = left = 0
    for number, wanted in enumerate(queues.wanted):
        for offset in range(1, 650):
            request = wanted.request(number, offset)
            data = encode_command(request)
            entries = queues.queues[wanted.queue].read(offset, wanted.limit)
            is_whole = offset // PER_FILE == (offset + len(entries) - 1) // PER_FILE and len(entries) == wanted.limit
            if taking.take(data, near=offset):
                taken += 1
            elif is_whole and "*" in wanted.expression:
                assert any(queues.log.chain.select(entry.position, entry.size) is None for entry in entries), (
                    f"{wanted} from {offset} on"
                )
                left += 1
    assert taken > 10 * left > 0
    queues.close()


def test_pulls_of_one_shape_are_noted_together(queues: PulledQueues) -> None:
    taking = Taking(queues, out_size=1 << 20, most_places=1024, most_stretches=4096)
    first, second = queues.wanted[0], queues.wanted[1]
    pulls = [first.request(1, 5), first.request(2, 6, 4), second.request(3, 9), first.request(4, 7)]
    assert taking.take(b"".join(map(encode_command, pulls)), near=5)
    noted = [(shape, pulls, next_offset, commit) for shape, pulls, _, _, next_offset, commit in taking.runs()]
    assert [(shape, count, commit) for shape, count, _, commit in noted] == [(0, 2, 4), (1, 1, 0), (0, 1, 0)]
    assert [next_offset for _, _, next_offset, _ in noted][::2] == [7, 8]
    opaques = [decode_command(frame).opaque for frame in split_frames(taking.written())[0]]
    assert opaques == [1, 2, 3, 4]
    queues.close()


def test_it_stops_after_as_many_as_are_written_at_once(queues: PulledQueues) -> None:
    taking = Taking(queues, out_size=1 << 20, most_places=1024, most_stretches=4096)
    data = encode_command(queues.wanted[0].request(1, 5)) * (MOST_PULLS + 3)
    assert taking.take(data, near=5) == len(data) // (MOST_PULLS + 3) * MOST_PULLS
    assert (taking[PULLS], taking[REASON]) == (MOST_PULLS, ENOUGH)
    queues.close()
