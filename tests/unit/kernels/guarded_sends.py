"""Runs the kernels of sends and pulls on memory between guards. A program of its own: a kernel that errs ends it.

python -m tests.unit.kernels.guarded_sends COUNT: so many rounds; prints `COUNT rounds` at the end.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np

from embermq.format.command import encode_command
from embermq.format.queue_entry import QueueEntry, encode_queue_entry
from embermq.kernels import turn
from embermq.kernels.answers import AnswerTexts, write_answers
from embermq.kernels.columns import DRAFT_WIDTH, RECORD_WIDTH
from embermq.kernels.gather import collect_records, gather_records
from embermq.kernels.send_rows import COLUMNS, ROW_SIZE
from embermq.kernels.sends import parse_sends
from embermq.kernels.topics import TopicTable, find_topic, number_topics
from tests.unit.kernels.guarded_memory import GuardedMemory
from tests.unit.kernels.sent_batches import HOST, BatchSpoiler, TurnReader
from tests.unit.kernels.sent_frames import Spoiler

ODD = (0, 1, -1, 2, 3, 7, 8, 15, 16, 17, 100, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63))
REGION = AnswerTexts("DefaultRegion", b"7F00000100002A9F")
TOPICS = TopicTable({b"WireTopic": 1, b"orders": 2})


class Rounds:
    """One round calls every kernel, with all it is given at one guard or the other."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._spoiler = Spoiler(f"guarded-{seed}")
        self._batches = BatchSpoiler(f"guarded-{seed}")
        self._memories = [GuardedMemory() for _ in range(6)]
        self.taken = 0
        self.drafts = 0

    def run(self) -> None:
        for last in (False, True):
            self._sends(last=last)
            self._turns(last=last)
            self._topics(last=last)
            self._odd_rows(last=last)
            self._pulls(last=last)

    def _place(self, number: int, data: bytes, *, last: bool) -> int:
        return self._memories[number].place(data, last=last)

    def _sends(self, *, last: bool) -> None:
        """A read as it may come, cut anywhere, with as much memory as there happens to be."""
        random = self._random
        data = b"".join(self._spoiler.frame() for _ in range(random.choice((0, 1, 2, 4))))[:100_000]
        if random.random() < 0.3:
            data = data[: random.randrange(len(data) + 1)]
        capacity = random.choice((0, 1, 2, 3))
        scratch_size = random.choice((0, 1, 15, 16, 17, 90, 97, 98, 110, 120, 200, 300, 4096, 4096, 4096))
        source = self._place(0, data, last=last)
        scratch = self._place(1, bytes(scratch_size), last=last)
        rows = self._place(2, bytes(capacity * ROW_SIZE), last=last)
        limits = (1 << 24, 1 << 16, 1 << 22, 32767)
        count, consumed, used, _ = parse_sends(source, len(data), *limits, scratch, scratch_size, rows, capacity)
        assert 0 <= count <= capacity and 0 <= consumed <= len(data) and 0 <= used <= scratch_size
        self.taken += count
        number_topics(rows, count, source, len(data), TOPICS.address, TOPICS.size)
        self._answers(rows, count, scratch, scratch_size, last=last)

    def _turns(self, *, last: bool) -> None:
        """Batches and other sends on their way to be stored, with all memory of a turn between guards."""
        random = self._random
        frames = [
            encode_command(self._batches.command()) if random.random() < 0.8 else self._spoiler.frame()
            for _ in range(random.choice((1, 2, 4)))
        ]
        data = b"".join(frames)[:100_000]
        row_count, draft_count = random.choice((1, 2, 4, 4)), random.choice((0, 1, 2, 5, 16, 16, 16))
        text_size = random.choice((1, 90, 150, 250, 400, 4096, 4096, 4096))
        reader = TurnReader(room=random.choice((0, 1_000, *[1 << 24] * 6)))
        reader.limit(body=1 << 22, properties=random.choice((60, *[32_000] * 6)))
        reader.receive(self._place(0, data, last=last), len(data))
        texts = self._place(1, bytes(text_size), last=last)
        rows = self._place(2, bytes(row_count * ROW_SIZE), last=last)
        drafts = self._place(5, bytes(draft_count * DRAFT_WIDTH * 8), last=last)
        reader.place(rows, row_count, texts, text_size, drafts, draft_count)
        host = self._place(3, HOST, last=last)
        taken = turn.take_sends(reader.memory.address, 0, len(data), host, len(HOST), 0)
        numbers = reader.memory.numbers
        count, made = numbers[turn.COUNT], numbers[turn.DRAFT_COUNT]
        assert 0 <= taken <= len(data) and 0 <= count <= row_count and 0 <= made <= draft_count
        assert numbers[turn.TEXT_END] <= text_size
        self.drafts += made
        record_count = random.choice((0, made, made, max(made - 1, 0)))
        positions = np.array(random.choices((0, 5, 2**62, -1), (9, 9, 9, 1), k=record_count * RECORD_WIDTH), np.int64)
        records = self._place(5, positions.tobytes(), last=last)
        self._answers(rows, count, texts, text_size, last=last, records=records, record_count=record_count)

    def _answers(
        self, rows: int, count: int, scratch: int, scratch_size: int, *, last: bool, records: int = 0,
        record_count: int = 0,
    ) -> None:  # fmt: skip
        room = self._random.choice((0, 7, 8, 2000, *[self._random.randrange(200, 420) for _ in range(12)]))
        texts = self._place(3, self._memories[3].read(REGION.address, REGION.size), last=last)
        if self._random.random() < 0.1:
            numbers = np.array(self._random.choices(ODD, k=20), np.int64)
            texts = self._place(3, numbers.tobytes(), last=last)
            size = 160
        else:
            size = REGION.size
        out = self._place(4, bytes(room), last=last)
        done, written, _ = write_answers(
            rows, count, records, record_count, scratch, scratch_size, texts, size, out, room
        )
        assert 0 <= done <= count and 0 <= written <= room

    def _odd_rows(self, *, last: bool) -> None:
        """Rows that no parser wrote."""
        random = self._random
        count = random.randrange(3)
        numbers = np.array(random.choices(ODD, k=count * COLUMNS), np.int64)
        rows = self._place(2, numbers.tobytes(), last=last)
        size = random.choice((0, 1, 16, 100))
        scratch = self._place(1, b"a" * size, last=last)
        self._answers(rows, count, scratch, size, last=last)
        number_topics(rows, count, scratch, size, TOPICS.address, TOPICS.size)

    def _topics(self, *, last: bool) -> None:
        random = self._random
        numbers = np.array(random.choices((*ODD, 4, 16), k=random.randrange(40)), np.int64)
        name = random.randbytes(random.randrange(20))
        table = self._place(0, numbers.tobytes(), last=last)
        find_topic(table, numbers.nbytes, self._place(1, name, last=last), len(name))

    def _pulls(self, *, last: bool) -> None:
        random = self._random
        sizes = [random.choice((0, 1, 100, 4096)) for _ in range(2)]
        parts = [self._place(number, bytes(size), last=last) for number, size in enumerate(sizes)]
        files = np.array([(0, sizes[0], parts[0]), (4096, sizes[1], parts[1])], np.int64)
        entries = b"".join(
            encode_queue_entry(
                QueueEntry(
                    random.choice((*ODD, *range(4090, 4100), random.randrange(8192))),
                    random.choice((1, 1, 10, 100, 4096, 0, -1, 2**31 - 1)),
                    random.choice(ODD),
                )
            )
            for _ in range(random.randrange(6))
        )
        entries = entries[: len(entries) - random.choice((0, 0, 1, 19)) or None]
        codes = np.array(random.choices(ODD, k=random.choice((0, 0, 1, 3))), np.int64)
        room = random.choice((0, 1, 99, 100, 101, 5000))
        out = self._place(4, bytes(room), last=last)
        _, _, written, _ = gather_records(
            self._place(2, entries, last=last), len(entries), self._place(3, files.tobytes(), last=last), len(files),
            self._place(5, codes.tobytes(), last=last), len(codes), random.choice(ODD), random.choice(ODD),
            out, room,
        )  # fmt: skip
        assert 0 <= written <= room
        most = random.randrange(4)
        records, size, places = collect_records(
            self._place(2, entries, last=last), len(entries), random.choice((0, 1, 4096)), sizes[0], parts[0],
            random.choice(ODD), self._place(3, bytes(most * 16), last=last), most, out, room,
        )  # fmt: skip
        assert places <= most and (places or size <= room) and records <= len(entries) // 20


def main(argument: str) -> None:
    rounds = Rounds(len(argument))
    for _ in range(int(argument)):
        rounds.run()
    assert rounds.taken > int(argument) // 20, f"only {rounds.taken} sends were taken"
    assert rounds.drafts > int(argument) // 4, f"only {rounds.drafts} messages of batches were taken"
    print(f"{argument} rounds")


if __name__ == "__main__":
    main(sys.argv[1])
