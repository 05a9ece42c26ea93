"""PULLs in frames, what they are of, and what ordinary code answers them with."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

from embermq.broker.fast_pull_shapes import PullShape, answer_pattern, request_pattern
from embermq.broker.handlers.pull import KnownPull, Pull
from embermq.broker.pull_answers import found_answer
from embermq.broker.pull_requests import PullNumbers
from embermq.broker.settings import BrokerSettings
from embermq.errors import BadFrame
from embermq.files.file_chain import FileChain
from embermq.format.command import Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, Frame, split_frames
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE, QueueEntry, encode_queue_entry
from embermq.kernels.columns import QUEUE_END
from embermq.log.commit_log import CommitLog
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.placed import Run
from embermq.log.queue_table import QueueTable
from embermq.model.group import GroupConfig
from embermq.model.subscription import TagFilter
from embermq.model.topic import TopicConfig
from embermq.store.gathering import read_bytes
from embermq.store.readable_log import ReadableLog
from embermq.store.reading import ReadStatus
from tests.builders import ManualClock, a_placed
from tests.unit.broker.brokers import pull_fields
from tests.unit.kernels.spoiled_frames import spoiled

FILE_SIZE = 1 << 16
FILES = 3
READABLE = FILE_SIZE * FILES - FILE_SIZE // 2
QUEUES = 2
PER_FILE = 300  # entries
ODD_NUMBERS = ("", "-1", "007", "x", "1.5", "+1", "9" * 30, str(2**63), str(2**63 - 1), str(2**62), "1 ")


class Wanted(NamedTuple):
    """What a shape of these tests asks for."""

    form: int
    queue: int
    limit: int
    max_bytes: int
    expression: str

    def request(self, opaque: int, offset: object, commit_offset: object = 0) -> Command:
        fields = pull_fields(
            queue=self.queue, maxMsgNums=str(self.limit), maxMsgBytes=str(self.max_bytes), subscription=self.expression
        )
        fields |= {"queueOffset": str(offset), "commitOffset": str(commit_offset)}
        return Command(11, fields, b"", opaque, form=self.form)


class PulledQueues:
    """A log of random bytes, queues with entries that lead into it, and shapes of pulls from them."""

    def __init__(self, path: Path, random: Random) -> None:
        self.random = random
        chain = FileChain(path / "log", FILE_SIZE)
        for number in range(FILES):
            chain.append_file().append(random.randbytes(FILE_SIZE if number < FILES - 1 else FILE_SIZE // 2))
        self.log = CommitLog(chain, store_host=b"\x7f\0\0\x01\0\0\x2a\x9f", clock=ManualClock())
        self.table = QueueTable()
        self.queues = [self._queue(path / str(number), number) for number in range(QUEUES)]
        self.wanted = [
            Wanted(random.choice((JSON_FORM, BINARY_FORM)), random.randrange(QUEUES), *sizes, expression)
            for expression in ("*", "* ", " *", "a || b")
            for sizes in ((1, 100), (8, 30_000), (32, 1 << 20))
        ]
        self.shapes = [self._shape(wanted) for wanted in self.wanted]
        self.readable = ReadableLog(chain)
        self.readable.refresh()

    def close(self) -> None:
        self.log.chain.close()
        for queue in self.queues:
            queue.close()

    def _queue(self, path: Path, number: int) -> ConsumeQueue:
        row = self.table.view(b"orders", number)
        queue = ConsumeQueue(path, "orders", number, file_size=QUEUE_ENTRY_SIZE * PER_FILE, row=row)
        queue.put([a_placed(size=10, queue=number)])
        queue.put_run(Run(b"orders", number, 1, [encode_queue_entry(entry) for entry in self._entries(700)]))
        return queue

    def _entries(self, count: int) -> list[QueueEntry]:
        """Entries of records that often lie side by side, and some that lead nowhere."""
        random, entries, end = self.random, [], 0
        codes = [*TagFilter.parse("a || b || c").codes, 0, 2**32 + 7]
        for _ in range(count):
            size = random.choice((1, 50, 700, 5_000))
            position = end if random.random() < 0.7 else random.randrange(READABLE)
            if position % FILE_SIZE + size > FILE_SIZE or position + size > READABLE:
                position = random.randrange(FILES) * FILE_SIZE
            if random.random() < 0.003:
                position = random.choice((-1, 2**63 - 1, -(2**63), FILE_SIZE - 1, FILE_SIZE * FILES, 2**62))
            if random.random() < 0.003:
                size = random.choice((0, -1, 2**31 - 1, -(2**31), FILE_SIZE))
            code = random.choice(codes) if random.random() < 0.998 else -(2**62)
            entries.append(QueueEntry(position, size, code))
            end = position + size if 0 <= position < READABLE and 0 < size < FILE_SIZE else 0
        return entries

    def _known(self, wanted: Wanted) -> KnownPull:
        numbers = PullNumbers(wanted.queue, 0, wanted.limit, wanted.max_bytes, 4, 0, 0)
        topic, group = TopicConfig("orders", sys_flag=wanted.limit), GroupConfig("billing", sys_flag=wanted.queue)
        return KnownPull(BrokerSettings(), Pull(topic, group, numbers, TagFilter.parse(wanted.expression)))

    def _shape(self, wanted: Wanted) -> PullShape:
        ((form, header, _),), _ = split_frames(encode_command(wanted.request(1, 1)))
        known = self._known(wanted)
        pattern = request_pattern(form, header, wanted.request(1, 1))
        assert pattern is not None
        return PullShape(known, self.queues[wanted.queue], form, pattern, answer_pattern(form, known))

    def row(self, number: int, offset: int) -> list[int]:
        """What kernels know of a shape, with a window that has `offset` if there is one."""
        shape = self.shapes[number]
        shape.move_to(offset)
        return shape.row(self.table.address + (self.table.row(b"orders", shape.number) + QUEUE_END) * 8)

    def answer(self, frame: Frame) -> bytes | None:
        """What ordinary code answers a frame with; None if it is no pull, or one that finds nothing."""
        try:
            request = decode_command(frame)
        except BadFrame:
            return None
        fields = request.fields
        for number, wanted in enumerate(self.wanted):
            known = self.shapes[number].known.pull
            expected = wanted.request(request.opaque, fields.get("queueOffset"), fields.get("commitOffset"))
            if (request.code, request.flag, request.form, fields) == (11, 0, wanted.form, expected.fields):
                accept = known.wanted.accepts_code if known.wanted.codes else None
                found = read_bytes(
                    self.queues[wanted.queue], self.log, int(fields["queueOffset"]), limit=wanted.limit,
                    max_bytes=wanted.max_bytes, accept=accept,
                )  # fmt: skip
                if found.status is not ReadStatus.FOUND:
                    return None
                return encode_command(found_answer(request, known.topic, known.group, found))
        return None

    def frame(self, near: int, wanted: Wanted | None = None) -> bytes:
        """A pull of one of the shapes, or of this, now and then with something that is not quite right.

        Mostly it begins in the file that has the entry `near`.
        """
        random = self.random
        wanted = wanted or random.choice(self.wanted)
        begin = near - near % PER_FILE
        offset = random.randrange(-2, 760) if random.random() < 0.1 else random.randrange(begin, begin + PER_FILE - 40)
        commit_offset: object = random.choice((0, 7, 2**40))
        texts: list[object] = [offset, commit_offset]
        if random.random() < 0.05:
            texts[random.randrange(2)] = random.choice(ODD_NUMBERS)
        opaque = random.choice((0, 1, 77, -5, 2**31 - 1, -(2**31), random.randrange(2**31)))
        data = encode_command(wanted.request(opaque, *texts))
        return data if random.random() < 0.9 else spoiled(random, data)
