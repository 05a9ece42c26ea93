"""Stretches of the log, as tasks walk over them: which records begin in one, and what lies between.

    file   ├ record │ record │ record │ ??? │ record │ record │ BLANK ┤
    ranges ├────────────┤────────────────┤──────────────────────────┤
             record 1, 2     record 3           4, 5

A record belongs to the range that its first byte is in. A range that begins inside a file looks for its first record:
a record says where it lies, so what is inside of a body is none. Each walk tells where it began and where it ended, and
whoever puts ranges together compares: see `find_unchained`.

Damage is passed over. Bodies are looked at only if somebody wants them: a record with a damaged body has its entry in
its queue, too.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from embermq.errors import CorruptRecord
from embermq.format.record import BLANK_SIZE, scan_record
from embermq.jobs.progress import Report
from embermq.kernels.switching import Switch
from embermq.log.dispatching import placed_of
from embermq.log.placed import Placed
from embermq.log.recovery import is_closed
from embermq.model.topic import is_directory_name
from embermq.store.verify_files import Segment, find_nonzero, find_used
from embermq.store.verify_log import find_record

if TYPE_CHECKING:
    from embermq.kernels.found_records import FoundRecords

SMALLEST_RANGE: Final = 8 << 20
LARGEST_RANGE: Final = 512 << 20
RANGES_PER_WORKER: Final = 4  # so that nobody waits long for the last

_PLAIN_RECORDS: Final = 1_024  # that plain code hands on together
_KERNELS_PAY_AFTER: Final = 32 << 20  # bytes, which plain code passes in about the time that a load takes

Piece: TypeAlias = "list[Placed] | FoundRecords"


class LogRange(NamedTuple):
    """The records that begin at a position in [begin, end), all of one file."""

    path: str
    start: int  # position of the file's first byte
    file_size: int  # that it should have
    begin: int
    end: int
    limit: int  # no byte from this position on is looked at


class Walked(NamedTuple):
    """What a walk over a range came by."""

    begin: int
    first: int | None  # where its first record begins
    after: int  # where the next range should find its first record, if the file has one there
    records: int
    damage: list[tuple[int, int, str]]  # bytes that are no record: from where to where, and why


def plan_ranges(segments: Sequence[Segment], file_size: int, end: int, *, size: int) -> list[LogRange]:
    """Ranges of about `size` bytes that make up the log of these files, up to position `end`."""
    ranges = []
    for segment in segments:
        limit = min(segment.start + min(segment.size, file_size), end)
        count = max(round((limit - segment.start) / size), 1)
        edges = [segment.start + (limit - segment.start) * number // count for number in range(count + 1)]
        path = str(segment.path)
        ranges += [
            LogRange(path, segment.start, file_size, edges[number], edges[number + 1], limit)
            for number in range(count)
            if edges[number] < edges[number + 1]
        ]
    return ranges


def choose_size(total: int, workers: int) -> int:
    """How many bytes a range should have."""
    return min(max(total // (RANGES_PER_WORKER * workers), SMALLEST_RANGE), LARGEST_RANGE)


def find_used_end(segments: Sequence[Segment], file_size: int) -> int:
    """The position behind the last byte of the log that is not zero."""
    for segment in reversed(segments):
        with open_view(str(segment.path)) as data:
            used = find_used(data[:file_size], segment.path, 0)
        if used:
            return segment.start + used
    return segments[0].start if segments else 0


def find_unchained(ranges: Sequence[LogRange], walks: Sequence[Walked]) -> int | None:
    """The first range whose walk did not begin where the one before it ended; None if all did.

    It happens where somebody put bytes into a body that look like the record of that place.
    """
    after = 0
    for number, (part, walked) in enumerate(zip(ranges, walks, strict=True)):
        if part.begin == part.start:
            after = part.begin
        elif walked.first is not None and walked.first != after:
            return number
        after = max(after, walked.after)
    return None


def open_view(path: str) -> memoryview:
    """The bytes of a file, mapped for as long as somebody looks at them."""
    with Path(path).open("rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # it is empty
            return memoryview(b"")
    return memoryview(mapped)


class RangeWalk:
    """Goes over the records of a range, in their order."""

    def __init__(
        self, part: LogRange, *, delay_levels: Sequence[int], with_keys: bool = True, check_bodies: bool = False
    ) -> None:
        """Without `with_keys`, pieces that kernels find tell no keys. With `check_bodies`, a changed body is damage."""
        self._with_keys = with_keys
        self._check_bodies = check_bodies
        self._part = part
        self._levels = delay_levels
        self._data = open_view(part.path)[: min(part.file_size, part.limit - part.start)]
        self._records = 0
        self._first: int | None = None
        self._after = part.begin
        self._damage: list[tuple[int, int, str]] = []
        self._switch = Switch(pays_after=_KERNELS_PAY_AFTER)

    @property
    def result(self) -> Walked:
        """How it went, when all pieces were had."""
        return Walked(self._part.begin, self._first, self._after, self._records, self._damage)

    def iter_pieces(self, report: Report) -> Iterator[Piece]:
        """The records, as kernels or plain code find them."""
        start, stop = self._part.start, self._part.end - self._part.start
        at = self._find_first()
        while at is not None and at < stop:
            found = self._find_many(at, stop) if self._switch.is_on(start + at - self._part.begin) else None
            piece: Piece
            following: int | None
            if found is None:
                piece, following = self._find_plain(at, stop)
            else:
                piece, following = found, at + found.size
            if len(piece):
                self._note(piece)
                yield piece
            report((following if following is not None else len(self._data)) - at)
            self._after = start + (len(self._data) if following is None else following)
            at = following

    def _note(self, items: Piece) -> None:
        if self._first is None:
            self._first = items[0].position
        self._records += len(items)

    def _find_first(self) -> int | None:
        part = self._part
        if part.begin == part.start:
            return 0
        found = find_record(self._data, part.start, part.begin - part.start)
        self._after = part.start + (len(self._data) if found is None else found)
        return found

    def _find_many(self, at: int, stop: int) -> FoundRecords | None:
        """Records from byte `at` on that kernels know what to do with; None if plain code must look."""
        from embermq.jobs.found_ranges import find_records  # not there without numba

        return find_records(
            self._data, at, stop, self._part.start, with_keys=self._with_keys, check_bodies=self._check_bodies
        )

    def _find_plain(self, at: int, stop: int) -> tuple[list[Placed], int | None]:
        """Some records from byte `at` on, and where to go on; None at the end of the file's records."""
        items: list[Placed] = []
        most = _PLAIN_RECORDS
        while at < stop and len(items) < most:
            position = self._part.start + at
            try:
                found = scan_record(self._data, at, position, check_body=self._check_bodies)
                if found is None:
                    return items, self._pass_gap(at, "zeros, or a BLANK of a wrong size, where a record should begin")
                if not is_directory_name(found.topic):
                    raise CorruptRecord(position, f"{found.topic[:300]!r} is no topic")
                items.append(placed_of(found, position, self._levels))
            except CorruptRecord as error:
                return items, self._pass_gap(at, error.reason)
            except ValueError as error:
                return items, self._pass_gap(at, f"its properties cannot be read: {error}")
            at += found.size
        return items, at

    def _pass_gap(self, at: int, reason: str) -> int | None:
        """Where the file's records go on behind byte `at`; None if they do not, or end there as they should."""
        data, start = self._data, self._part.start
        left = self._part.start + self._part.file_size - (start + at)
        if len(data) - at < BLANK_SIZE or (left == len(data) - at and is_closed(data, at, self._part.file_size)):
            return None
        following = find_record(data, start, at + 1)
        if following is not None or find_nonzero(data, Path(self._part.path), at) is not None:
            end = len(data) if following is None else following
            self._damage.append((start + at, start + end, reason))
        return following
