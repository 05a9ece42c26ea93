"""What kernels know of a consumer's pulls: all but the numbers that change from one to the next.

A pull that ordinary code has allowed before has a shape: its header with gaps for the opaque number, the offset to
begin at and the offset to commit; the queue; what may be read; and the header of its answer, with gaps as well. Only
loaded where kernels are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from embermq.broker.consumer_group import ConsumerGroup
from embermq.broker.handlers.pull import KnownPull
from embermq.broker.pull_answers import found_answer
from embermq.broker.pull_requests import COMMITS_OFFSET
from embermq.errors import BadFrame
from embermq.format.command import Command, decode_command, encode_head
from embermq.format.frame import BINARY_FORM, FRAME_HEAD, JSON_FORM
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.kernels.gather import WantedCodes
from embermq.kernels.memory import address_of
from embermq.kernels.patterns import (
    COMMIT_OFFSET,
    HIGH_OFFSET,
    LOW_OFFSET,
    NEXT_OFFSET,
    NO_NUMBER,
    OFFSET,
    OPAQUE,
    REST,
    Pattern,
)
from embermq.log.consume_queue import ConsumeQueue
from embermq.model.subscription import Subscribed, TagFilter
from embermq.store.gathering import FoundBytes
from embermq.store.reading import LARGEST_SCAN, ReadStatus

_CHANGING: Final = ("queueOffset", "commitOffset")
_JSON_GAPS: Final = (
    (re.compile(rb'"queueOffset"\s*:\s*"(\d+)"'), OFFSET),
    (re.compile(rb'"commitOffset"\s*:\s*"(\d+)"'), COMMIT_OFFSET),
    (re.compile(rb'"opaque"\s*:\s*(-?\d+)'), OPAQUE),
)
_BINARY_GAPS: Final = (
    (re.compile(rb"\0\x0bqueueOffset(....\d+)", re.DOTALL), OFFSET),
    (re.compile(rb"\0\x0ccommitOffset(....\d+)", re.DOTALL), COMMIT_OFFSET),
)
_OPAQUE_AT: Final = 5  # in a binary header, which has the size of its remark at 13
_REMARK_AT: Final = 13
_TRIALS: Final = ((0, 0, 0), (9, 10, 11), (2**31 - 1, 2**62 + 1, 2**62 + 2))  # opaque number, offset, offset to commit
_MARKS: Final = (1_111_111_111, 2_222_222_222_222_222_222, 3_333_333_333_333_333_333, 4_444_444_444_444_444_444)

Gap = tuple[int, int, int]  # where it begins and ends, and what number it has


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
        # The group's own subscription, where the pull does not tell one; and what else it must still be the same for.
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
            queue_end, window, self.begin, self.end, self.low, self.limit, self.scan, self.max_bytes,
            self.codes.address, self.codes.count, self.form, *self.request.row, *self.answer.row,
        ]  # fmt: skip


def request_pattern(form: int, header: bytes, request: Command) -> Pattern | None:
    """The header of a pull without its numbers; None if it is not certain which they are."""
    gaps = _json_gaps(header) if form == JSON_FORM else _binary_gaps(header)
    if gaps is None or not all(_is_read_right(form, header, gaps, request, trial) for trial in _TRIALS):
        return None
    return Pattern(form, _steps(header, gaps))


def answer_pattern(form: int, known: KnownPull) -> Pattern:
    """The header of the answer that ordinary code makes, without its numbers."""
    opaque, next_offset, high, low = _MARKS
    request = Command(0, {}, b"", opaque, form=form)
    found = FoundBytes(ReadStatus.FOUND, next_offset, low, high)
    header = encode_head(found_answer(request, known.pull.topic, known.pull.group, found), 0)[FRAME_HEAD.size :]
    gaps: list[Gap] = []
    for mark, number in ((next_offset, NEXT_OFFSET), (high, HIGH_OFFSET), (low, LOW_OFFSET)):
        begin = header.index(b"%d" % mark)
        gaps.append((begin - (4 if form == BINARY_FORM else 0), begin + len(b"%d" % mark), number))
    if form == BINARY_FORM:
        rest = _rest_at(header)
        gaps += [(_OPAQUE_AT, _OPAQUE_AT + 4, OPAQUE), (rest, rest + 4, REST)]
    else:
        begin = header.index(b"%d" % opaque)
        gaps.append((begin, begin + len(b"%d" % opaque), OPAQUE))
    return Pattern(form, _steps(header, sorted(gaps)))


def _json_gaps(header: bytes) -> list[Gap] | None:
    if b"\\" in header:  # without one, every quote is the beginning or the end of a text
        return None
    return _find_gaps(header, _JSON_GAPS)


def _binary_gaps(header: bytes) -> list[Gap] | None:
    gaps = _find_gaps(header, _BINARY_GAPS)
    rest = _rest_at(header)
    if gaps is None or gaps[0][0] < rest + 4 or int.from_bytes(header[rest : rest + 4]) != len(header) - rest - 4:
        return None
    return [(_OPAQUE_AT, _OPAQUE_AT + 4, OPAQUE), (rest, rest + 4, REST), *gaps]


def _rest_at(header: bytes) -> int:
    """Where a binary header, known to be one, has the size of its fields."""
    return _REMARK_AT + 4 + int.from_bytes(header[_REMARK_AT : _REMARK_AT + 4])


def _find_gaps(header: bytes, forms: Sequence[tuple[re.Pattern[bytes], int]]) -> list[Gap] | None:
    gaps: list[Gap] = []
    for form, number in forms:
        found = [(*match.span(1), number) for match in form.finditer(header)]
        if len(found) != 1:
            return None
        gaps += found
    return sorted(gaps)


def _steps(header: bytes, gaps: Sequence[Gap]) -> list[tuple[bytes, int]]:
    steps, at = [], 0
    for begin, end, number in gaps:
        steps.append((header[at:begin], number))
        at = end
    return [*steps, (header[at:], NO_NUMBER)]


def _is_read_right(
    form: int, header: bytes, gaps: Sequence[Gap], request: Command, trial: tuple[int, int, int]
) -> bool:
    """Whether ordinary code would read a header with other numbers in the gaps as the same pull with those."""
    opaque, offset, commit_offset = trial
    texts = {OFFSET: b"%d" % offset, COMMIT_OFFSET: b"%d" % commit_offset, OPAQUE: b"%d" % opaque}
    if form == BINARY_FORM:
        texts = {number: len(text).to_bytes(4) + text for number, text in texts.items()}
        texts[OPAQUE], texts[REST] = opaque.to_bytes(4), b"\0\0\0\0"
    changed = b"".join(piece + texts.get(number, b"") for piece, number in _steps(header, gaps))
    if form == BINARY_FORM:
        rest = _rest_at(header)
        changed = changed[:rest] + (len(changed) - rest - 4).to_bytes(4) + changed[rest + 4 :]
    try:
        read = decode_command((form, changed, b""))
    except BadFrame:
        return False
    fields = {**request.fields, **dict(zip(_CHANGING, (str(offset), str(commit_offset)), strict=True))}
    return (read.code, read.flag, read.opaque, read.fields) == (request.code, request.flag, opaque, fields)
