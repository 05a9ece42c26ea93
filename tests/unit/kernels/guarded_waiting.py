"""Runs the kernels of messages that wait on memory between guards. A program of its own: a kernel that errs ends it.

python -m tests.unit.kernels.guarded_waiting COUNT: so many rounds; prints `COUNT rounds` at the end.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np

from embermq.format.command import Command, encode_command
from embermq.format.queue_entry import QueueEntry, encode_queue_entry
from embermq.format.record import DraftFields, encode_drafts
from embermq.format.timer_unit import TIMER_UNIT, TIMER_UNIT_SIZE
from embermq.kernels import parked, turn
from embermq.kernels.answers import AnswerTexts, write_answers
from embermq.kernels.columns import BYTES_WIDTH, DRAFT_WIDTH, RECORD_WIDTH
from embermq.kernels.send_rows import ROW_SIZE
from embermq.kernels.timer_units import WAIT_WIDTH, draft_due, follow_units, read_waits
from embermq.kernels.topics import TopicTable
from embermq.model.topic import TIMER_TOPIC
from tests.unit.kernels.guarded_memory import GuardedMemory
from tests.unit.kernels.sent_batches import HOST, TOPIC, TurnReader
from tests.unit.kernels.sent_frames import send

NOW = 1_700_000_000_000
ODD = (0, 1, -1, 51, 52, 53, 100, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
ASKING = (
    *(f"TIMER_DELIVER_MS\x01{NOW + 60_000}\x02", "TIMER_DELAY_MS\x0160000\x02", "TIMER_DELAY_SEC\x0160\x02"),
    *("TRAN_MSG\x01true\x02PGROUP\x01PID\x02", ""),
)
REGION = AnswerTexts("DefaultRegion", b"7F00000100002A9F")
TIMER = TIMER_TOPIC.encode()
PLACES = (
    *[b"TIMER_OUT_MS\x01%d\x02REAL_TOPIC\x01orders\x02REAL_QID\x010\x02" % NOW] * 3,
    *(b"REAL_TOPIC\x01orders\x02REAL_QID\x010", b"REAL_TOPIC", b"REAL_QID\x010\x02"),
)


class Rounds:
    """One round calls every kernel, with all it is given at one guard or the other."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._memories = [GuardedMemory() for _ in range(9)]
        self.parked = self.followed = self.due = self.enqueued = 0

    def run(self) -> None:
        for last in (False, True):
            self._turns(last=last)
            self._follow(last=last)
            self._deliver(last=last)

    def _place(self, number: int, data: bytes, *, last: bool) -> int:
        return self._memories[number].place(data, last=last)

    def _spoilt(self, data: bytes, chance: float = 0.4) -> bytes:
        random, changed = self._random, bytearray(data)
        if changed and random.random() < chance:
            for _ in range(random.choice((1, 1, 5))):
                changed[random.randrange(len(changed))] = random.choice((0, 1, 2, 0x5F, 0x7F, 0x80, 0xFF))
        return bytes(changed)

    def _turns(self, *, last: bool) -> None:
        """Sends that ask for something, with all memory of a turn between guards."""
        random = self._random
        frames = []
        for number in range(random.choice((1, 2, 4))):
            text = f"UNIQ_KEY\x01{'U' * random.choice((1, 2, 3, 32))}\x02{random.choice(ASKING)}WAIT\x01true\x02"
            properties = self._spoilt(text.encode()).decode("latin-1")
            fields = {**send().fields, "b": TOPIC, "e": "1", "i": properties}
            frames.append(encode_command(Command(310, fields, b"body", number, form=random.randrange(2))))
        data = self._spoilt(b"".join(frames), 0.1)
        row_count, draft_count = random.choice((1, 4, 4)), random.choice((0, 1, 16))
        text_size = random.choice((1, 90, 300, 500, 700, 4096, 4096))
        reader = TurnReader()
        reader.limit(body=1 << 22, properties=32_000)
        reader.receive(self._place(0, data, last=last), len(data))
        texts, rows = (
            self._place(1, bytes(text_size), last=last),
            self._place(2, bytes(row_count * ROW_SIZE), last=last),
        )
        drafts = self._place(5, bytes(draft_count * DRAFT_WIDTH * 8), last=last)
        reader.place(rows, row_count, texts, text_size, drafts, draft_count)
        broker = b"b" * random.choice((0, 1, 8, 200))
        numbers = [0] * parked.PARKING_SIZE
        numbers[parked.TIMER_NUMBER], numbers[parked.HALF_NUMBER] = random.choice(((0, 1), (-1, 1), (0, -1)))
        numbers[parked.NOW] = random.choice((NOW, NOW, 0))
        numbers[parked.MOST_DELAY] = random.choice((10**9, 10**9, 1))
        numbers[parked.PRECISION] = random.choice((1000, 1000, 100, 0, -1))
        numbers[parked.BROKER], numbers[parked.BROKER_SIZE] = self._place(6, broker, last=last), len(broker)
        numbers[parked.PROPERTIES_MOST], numbers[parked.CHECK_ROOM] = random.choice((32_000, 32_000, 100)), 30
        parking = self._place(7, np.array(numbers, np.int64).tobytes(), last=last)
        reader.memory.numbers[turn.PARKING] = random.choice((parking, parking, parking, 0))
        host = self._place(3, HOST, last=last)
        taken = turn.take_sends(reader.memory.address, 0, len(data), host, len(HOST), 0)
        count, made = reader.memory.numbers[turn.COUNT], reader.memory.numbers[turn.DRAFT_COUNT]
        assert 0 <= taken <= len(data) and 0 <= count <= row_count and 0 <= made <= draft_count
        assert reader.memory.numbers[turn.TEXT_END] <= text_size
        self.parked += made
        room = random.choice((0, 100, 300, 600, 4096))
        done, written, _ = write_answers(
            rows,
            count,
            0,
            0,
            texts,
            text_size,
            REGION.address,
            REGION.size,
            self._place(4, bytes(room), last=last),
            room,
        )
        assert 0 <= done <= count and 0 <= written <= room

    def _units(self, positions: list[int]) -> bytes:
        """A chain of units for records at these positions."""
        random = self._random
        return b"".join(
            TIMER_UNIT.pack(
                TIMER_UNIT_SIZE, 0 if number == 1 else (number - 1) * TIMER_UNIT_SIZE if number else -1,
                random.choice((*[1] * 12, 3, 5)), NOW, 1000, position, 100, 7, 0,
            )
            for number, position in enumerate(positions)
        )  # fmt: skip

    def _follow(self, *, last: bool) -> None:
        random = self._random
        data = self._spoilt(self._units([0] * random.randrange(6)))
        data = data[: len(data) - random.choice((0, 0, 0, 1, 51))]
        most = random.randrange(5)
        rows = np.zeros(most, np.int64)
        places, codes = (self._memories[number].place_table(rows, last=last) for number in (1, 2))
        place = random.choice((*ODD, *range(0, 260, 52)))
        start = random.choice((0, 0, 0, 52, 2**40, -(2**63)))
        count, _ = follow_units(self._place(0, data, last=last), len(data), start, place, places, codes)
        assert 0 <= count <= most
        self.followed += count

    def _deliver(self, *, last: bool) -> None:
        random = self._random
        drafts: list[DraftFields] = [
            (
                random.choice((TIMER, TIMER, TIMER, b"other")), 0, b"body" * random.randrange(3),
                b"UNIQ_KEY\x01U\x02" + random.choice(PLACES), 0, 0, NOW, HOST, 0, 0,
            )
            for _ in range(random.randrange(1, 5))
        ]  # fmt: skip
        parts, sizes = encode_drafts(drafts, [0] * len(drafts), 0, NOW, HOST)
        log = self._spoilt(b"".join(parts), 0.2)
        log = log[: len(log) - random.choice((0, 0, 0, 1, 40))]
        positions = [sum(sizes[:number]) for number in range(len(sizes))]
        units = self._spoilt(self._units(positions), 0.1)
        places = np.array([random.choice((*[number * 52] * 60, *ODD)) for number in range(len(positions))], np.int64)
        count = random.choice((len(places), len(places), 1, 0))
        made = self._memories[3].place_table(np.zeros((count, DRAFT_WIDTH), np.int64), last=last)
        hosts = self._memories[4].place_table(np.zeros((count + 1, BYTES_WIDTH), np.int64), last=last)
        record = self._memories[5].place_table(np.zeros((1, RECORD_WIDTH), np.int64), last=last)
        timer = np.array([(self._place(6, TIMER, last=last), len(TIMER))], np.int64)
        topics = TopicTable({b"orders": 0})
        rows = np.zeros(4, np.int64)
        queues = np.array([(int(rows.ctypes.data), random.choice((4, 1)))], np.int64)
        room = random.choice((0, 80, 200, 4096, 4096))
        done, used, _ = draft_due(
            self._place(0, units, last=last), len(units), 0, self._memories[7].place_table(places, last=last),
            self._place(1, log, last=last), len(log), random.choice((0, 0, 0, 0, 1, 2**62)), timer, topics.address,
            topics.size, queues, NOW, self._place(2, bytes(room), last=last), room, record, made, hosts,
        )  # fmt: skip
        assert 0 <= done <= count and 0 <= used <= room
        self.due += done
        self._enqueue(log, positions, sizes, last=last)

    def _enqueue(self, log: bytes, positions: list[int], sizes: list[int], *, last: bool) -> None:
        random = self._random
        entries = b"".join(
            encode_queue_entry(
                QueueEntry(random.choice((*[position] * 30, *ODD)), random.choice((*[size] * 30, 0, 1)), 7)
            )
            for position, size in zip(positions, sizes, strict=True)
        )
        entries = entries[: len(entries) - random.choice((0, 0, 1, 19))]
        most = random.choice((len(positions), len(positions), 1, 0))
        waits = self._memories[3].place_table(np.zeros((most, WAIT_WIDTH), np.int64), last=last)
        record = self._memories[5].place_table(np.zeros((1, RECORD_WIDTH), np.int64), last=last)
        count = read_waits(
            self._place(0, entries, last=last), len(entries), self._place(1, log, last=last), len(log),
            random.choice((0, 0, 0, 0, 1, 2**62)), record, waits,
        )  # fmt: skip
        assert 0 <= count <= most
        self.enqueued += count


def main(argument: str) -> None:
    rounds = Rounds(len(argument))
    for _ in range(int(argument)):
        rounds.run()
    for what in (rounds.parked, rounds.followed, rounds.due, rounds.enqueued):
        assert what > int(argument) // 8, f"{rounds.parked} parked, {rounds.followed} followed, {rounds.due} due"
    print(f"{argument} rounds")


if __name__ == "__main__":
    main(sys.argv[1])
