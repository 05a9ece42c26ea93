"""What kernels know of a consumer's pulls: all but the numbers that change from one to the next.

A pull that ordinary code has allowed before has a shape: its header with gaps for the opaque number, the offset to
begin at and the offset to commit; the queue; what may be read; and the header of its answer, with gaps as well. Only
loaded where kernels are.
"""

from __future__ import annotations

from typing import Final

from embermq.broker import learned_headers
from embermq.broker.consumer_group import ConsumerGroup
from embermq.broker.handlers.pull import KnownPull
from embermq.broker.learned_headers import Numbers, changing_number
from embermq.broker.pull_answers import found_answer
from embermq.broker.pull_requests import COMMITS_OFFSET
from embermq.format.command import Command
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.kernels.gather import WantedCodes
from embermq.kernels.memory import address_of
from embermq.kernels.patterns import (
    COMMIT_OFFSET,
    HIGH_OFFSET,
    LOW_OFFSET,
    NEXT_OFFSET,
    OFFSET,
    OPAQUE,
    Pattern,
)
from embermq.log.consume_queue import ConsumeQueue
from embermq.model.subscription import Subscribed, TagFilter
from embermq.store.gathering import FoundBytes
from embermq.store.reading import LARGEST_SCAN, ReadStatus

_CHANGING: Final = (changing_number("queueOffset", OFFSET), changing_number("commitOffset", COMMIT_OFFSET))
_TRIALS: Final = (
    {OPAQUE: 0, OFFSET: 0, COMMIT_OFFSET: 0},
    {OPAQUE: 9, OFFSET: 10, COMMIT_OFFSET: 11},
    {OPAQUE: 2**31 - 1, OFFSET: 2**62 + 1, COMMIT_OFFSET: 2**62 + 2},
)
_MARKS: Final = (2_222_222_222_222_222_222, 3_333_333_333_333_333_333, 4_444_444_444_444_444_444)


class PullShape:
    """Pulls that a consumer sends again and again from one queue."""

    def __init__(self, known: KnownPull, queue: ConsumeQueue, form: int, request: Pattern, answer: Pattern) -> None:
        pull = known.pull
        self.known = known
        self.topic, self.group, self.number = pull.topic.name, pull.group.name, pull.numbers.queue
        self.commits = bool(pull.numbers.sys_flag & COMMITS_OFFSET)
        self.queue = queue
        self.low = queue.min_offset
        self.limit, self.max_bytes = pull.numbers.limit, pull.numbers.max_bytes
        assert isinstance(pull.wanted, TagFilter), "others are not recalled"
        self.codes = WantedCodes(pull.wanted.codes)
        self.scan = max(self.limit, LARGEST_SCAN // QUEUE_ENTRY_SIZE) if self.codes.count else self.limit
        self.form, self.request, self.answer = form, request, answer
        # The members of the group and what they subscribed to, which the shape holds for.
        self.members: ConsumerGroup | None = known.members
        self.subscribed: Subscribed | None = known.subscribed
        self.message_model = known.members.message_model if known.members is not None else ""
        self.view = memoryview(b"")  # of a file with entries, which is kept mapped
        self.begin = self.end = 0  # of the entries in it
        self.file: object = None

    def move_to(self, offset: int) -> bool:
        """Have a look at the file with the entry of `offset`; False if there is none."""
        file = self.queue.file_of(offset)
        view = memoryview(b"") if file is None else file.view
        if file is None or not view:
            return False
        self.file, self.view = file, view
        self.begin = file.start // QUEUE_ENTRY_SIZE
        self.end = self.begin + len(view) // QUEUE_ENTRY_SIZE
        return self.begin <= offset < self.end

    def row(self, queue_end: int) -> list[int]:
        """What kernels know; `queue_end` is where they find how far the queue goes."""
        window = address_of(self.view) if self.view else 0
        return [
            self.form, *self.request.row, *self.answer.row,
            queue_end, window, self.begin, self.end, self.low, self.limit, self.scan, self.max_bytes,
            self.codes.address, self.codes.count,
        ]  # fmt: skip


def request_pattern(form: int, header: bytes, request: Command) -> Pattern | None:
    """The header of a pull without its numbers; None if it is not certain which they are."""

    def fields_of(numbers: Numbers) -> dict[str, str]:
        changed = {"queueOffset": str(numbers[OFFSET]), "commitOffset": str(numbers[COMMIT_OFFSET])}
        return {**request.fields, **changed}

    return learned_headers.request_pattern(form, header, request, _CHANGING, _TRIALS, fields_of)


def answer_pattern(form: int, known: KnownPull) -> Pattern:
    """The header of the answer that ordinary code makes, without its numbers."""
    next_offset, high, low = _MARKS
    request = Command(0, {}, b"", 0, form=form)
    found = FoundBytes(ReadStatus.FOUND, next_offset, low, high)
    answer = found_answer(request, known.pull.topic, known.pull.group, found)
    marks = ((next_offset, NEXT_OFFSET), (high, HIGH_OFFSET), (low, LOW_OFFSET))
    return learned_headers.answer_pattern(answer, marks)
