"""Walks over the log, record by record, and goes on behind whatever is none.

    ├ record │ record │ ??? │ record │ BLANK ┤ ├ record │ record │ zeros, or ??? ┤
                      └──┬──┘                                     └──┬──┘
                   a record or hole                        the end, perhaps with a tail

Behind damage, the next record is the next place with a magic number, whose record says that it
lies there. Whether bytes at the end of a file are damage or the log's end is known when a
later file has a record, or none has.

Where kernels are loaded, they find what is sound, in pieces, and plain code steps over what they stop at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from embermq.errors import CorruptRecord
from embermq.format.property_crc import verify_property_crc
from embermq.format.record import BLANK_SIZE, MAGIC_BLANK, Scanned, scan_record
from embermq.kernels.switching import Switch
from embermq.log.dispatching import placed_of
from embermq.log.placed import Placed
from embermq.log.recovery import Report, is_closed
from embermq.model.delay import DEFAULT_DELAY_LEVELS
from embermq.model.properties import PROPERTY_CRC
from embermq.model.topic import is_directory_name
from embermq.store.verify_damage import Damage, DamageKind, DamageList, Hidden, Ranges
from embermq.store.verify_files import Segment, Views, find_nonzero, find_used, iter_bytes

if TYPE_CHECKING:
    from embermq.kernels.found_records import FileRecords, FoundRecords

EVERYTHING: Final = 1 << 63  # behind every position
BATCH: Final = 4_096  # records handed on together

_MAGIC_BEGIN: Final = bytes.fromhex("daa320")  # what the magic numbers of both versions begin with
_BLANK_MAGIC: Final = MAGIC_BLANK.to_bytes(4, "big")
_UNWRITTEN: Final = bytes(BLANK_SIZE)
_MAGIC_AT: Final = 4
_CRC_NAME: Final = PROPERTY_CRC.encode()
_KERNELS_PAY_AFTER: Final = 32 * 1024 * 1024  # bytes, which plain code checks in about the time that a load takes

Piece: TypeAlias = "list[Placed] | FoundRecords"


class Judgement(NamedTuple):
    """What must be in queues and index, and what may be there."""

    until: int  # records that begin before it must be, and what lies behind it is not looked at
    in_use: bool  # the log grows meanwhile, so entries may lead behind the end that was found

    @property
    def is_settled(self) -> bool:
        """Whether everything must be there: the last owner closed the store."""
        return self.until == EVERYTHING


class LogState(NamedTuple):
    """What a walk found in a range of the log."""

    first: int | None
    after: int
    records: int
    end: int
    damage: list[tuple[Damage, tuple[int, int] | None]]  # with what it covers
    damaged: list[tuple[int, int]]
    gaps: list[tuple[int, int, str]]  # start of the file, byte, why: at its end, and nobody knows yet what follows


class _Gap(NamedTuple):
    """Bytes that are no record, up to the end of their file."""

    segment: Segment
    at: int
    reason: str


class RecordsToCheck:
    """Records to be looked up together, as plain code and kernels found them: `BATCH` of them, but for the last."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.count = 0
        self.last_position = 0

    def add(self, item: Placed) -> None:
        if not (self.pieces and isinstance(self.pieces[-1], list)):
            self.pieces.append([])
        piece = self.pieces[-1]
        assert isinstance(piece, list)
        piece.append(item)
        self.count += 1
        self.last_position = item.position

    def add_found(self, records: FoundRecords) -> None:
        self.pieces.append(records)
        self.count += len(records)
        self.last_position = records.last_position


class LogWalk:
    """The records of the log's files, and what lies between them."""

    def __init__(
        self,
        segments: Sequence[Segment],
        file_size: int,
        views: Views,
        damage: DamageList,
        report: Report,
        missing: Ranges,
    ) -> None:
        self.begin = segments[0].start if segments else 0
        self.end = self.begin  # behind the last record so far
        self.records = 0  # whole ones
        self.damaged = missing  # what is reported already: entries that lead there are no news
        self._segments = segments
        self._file_size = file_size
        self._starts = [segment.start for segment in segments]
        self._views = views
        self._damage = damage
        self._report = report
        self._topics: set[str] = set()  # that are known to be names
        self._gaps: list[_Gap] = []  # nobody knows yet whether records follow
        self._switch = Switch(pays_after=_KERNELS_PAY_AFTER)
        self._found: FileRecords | None = None
        self._found_in: Segment | None = None
        self._passed = 0  # bytes
        self._total = sum(segment.size for segment in segments)
        self.first: int | None = None  # where the first record of a range begins
        self.after = self.begin  # where the next range should begin

    def iter_batches(self) -> Iterator[RecordsToCheck]:
        """All records in order, whole or with a wrong checksum, some thousands at a time."""
        batch = RecordsToCheck()
        for segment in self._segments:
            data = self._data(segment)
            if not data:
                self.damaged.add(segment.start, segment.start + self._file_size)  # deleted, or it cannot be read
            at: int | None = 0 if data else None
            while at is not None:
                at = self._fill(batch, segment, at, len(data))
                if batch.count == BATCH:
                    self._report(self._passed, self._total)
                    yield batch
                    batch = RecordsToCheck()
        yield batch
        self._report(self._total, self._total)

    def iter_range(self, begin: int, end: int, *, is_exact: bool) -> Iterator[RecordsToCheck]:
        """The records of one file that begin in [begin, end), in batches.

        Unless the range `is_exact`, or begins with the file, its first record is looked for: then what lies before that
        belongs to the range before it. `first` and `after` tell where it began and ended.
        """
        segment = self.segment_of(begin)
        data = self._data(segment)
        at: int | None = begin - segment.start
        if at and not is_exact:
            at = find_record(data, segment.start, at)
        self.after = segment.start + (len(data) if at is None else at)
        stop = end - segment.start
        self.first = self.after if at is not None and at < stop else None
        while at is not None and at < stop:
            batch = RecordsToCheck()
            while at is not None and at < stop and batch.count < BATCH:
                at = self._fill(batch, segment, at, stop)
            self.after = segment.start + (len(data) if at is None else at)
            self._report(self._passed, self._total)
            yield batch

    def _fill(self, batch: RecordsToCheck, segment: Segment, at: int, stop: int) -> int | None:
        """Add records from byte `at` of a file on, or pass what is none; where to go on, None at the file's end."""
        data = self._data(segment)
        if (self._found is None or self._found_in is not segment) and self._switch.is_on(self._passed):
            self._found, self._found_in = _find_records(data, segment.start), segment
        found = self._found if self._found_in is segment else None
        taken = self._take_found(found, at, stop, batch) if found is not None else 0
        following = at + taken if taken else self._take_one(segment, data, at, batch)
        self._passed += (len(data) if following is None else following) - at
        return following

    def state(self) -> LogState:
        """What was found of a range, for the walk over all of them."""
        gaps = [(gap.segment.start, gap.at, gap.reason) for gap in self._gaps]
        damage = list(self._damage.iter_with_covers())
        return LogState(self.first, self.after, self.records, self.end, damage, self.damaged.items(), gaps)

    def absorb(self, state: LogState) -> None:
        """Go on with what was found of the range behind those that came before."""
        if state.records or any(damage.kind is DamageKind.RECORD for damage, _ in state.damage):
            self._settle_gaps()
        for damage, covers in state.damage:
            self._damage.add_found(damage, covers)
        for begin, end in state.damaged:
            self.damaged.add(begin, end)
        self.records += state.records
        if state.end > self.end and not self._gaps:
            self.end = state.end
        self._gaps += [_Gap(self.segment_of(start), at, reason) for start, at, reason in state.gaps]

    def find(self, position: int) -> Placed | None:
        """The record that begins at `position`, unless there is none."""
        index = bisect_right(self._starts, position) - 1
        if index < 0 or position < 0:
            return None
        segment = self._segments[index]
        found = _scan_without_body(self._data(segment), position - segment.start, position)
        return _place(found) if found is not None else None

    def find_readable(self) -> list[Segment]:
        """The files that can be read; others are counted as damaged."""
        for segment in self._segments:
            if not self._data(segment):
                self.damaged.add(segment.start, segment.start + self._file_size)
        return [segment for segment in self._segments if self._data(segment)]

    @property
    def file_size(self) -> int:
        """The size that files should have."""
        return self._file_size

    def segment_of(self, position: int) -> Segment:
        """The file that covers `position`, which must be a record's."""
        return self._segments[bisect_right(self._starts, position) - 1]

    def report_tail(self) -> None:
        """The walk is over: what is not zero behind the last record is no record that is lost, but a tail."""
        for segment, at, reason in self._gaps:
            data = self._data(segment)
            first = find_nonzero(data, segment.path, at)
            if first is None:
                continue
            end = find_used(data, segment.path, first)
            begin = first if _is_unwritten(data, at) else at
            what = "" if _is_unwritten(data, at) else f": {reason}"
            detail = f"{end - begin} bytes up to {segment.start + end}, behind the log's end at {self.end}{what}"
            self._damage.add(segment.path, segment.start + begin, DamageKind.TAIL, detail)
            self.damaged.add(segment.start + at, segment.start + end)

    def _data(self, segment: Segment) -> memoryview:
        return self._views.of(segment.path)[: self._file_size]

    def _take_found(self, found: FileRecords, at: int, stop: int, batch: RecordsToCheck) -> int:
        """Add the records in bytes [at, stop) that kernels find sound; returns how many bytes they have."""
        records = found.take(at, stop, BATCH - batch.count)
        if records is None:
            return 0
        if self._gaps:
            self._settle_gaps()
        self.records += len(records)
        self.end = records.end
        batch.add_found(records)
        return records.size

    def _take_one(self, segment: Segment, data: memoryview, at: int, batch: RecordsToCheck) -> int | None:
        """Add the record at byte `at`, or pass what is none; where to go on, None at the end of the file's records."""
        position = segment.start + at
        try:
            found = scan_record(data, at, position, check_body=True)
            reason = self._find_fault(found, data, at) if found else _no_record(data, at)
        except CorruptRecord as error:
            found, reason = _scan_without_body(data, at, position), error.reason
        if found is None:
            return self._pass_gap(_Gap(segment, at, reason), data)
        if self._gaps:
            self._settle_gaps()
        self.end = position + found.size
        item = _place(found)
        if reason:
            hides = [Hidden(item.topic, item.queue, item.offset, item.offset + item.count)] if item else []
            detail = f"{found.size} bytes: {reason}"
            covers = None if item else (position, self.end)
            self._damage.add(segment.path, position, DamageKind.RECORD, detail, hides=hides, covers=covers)
        else:
            self.records += 1
        if item is not None:
            batch.add(item)
        else:
            self.damaged.add(position, self.end)
        return at + found.size

    def _find_fault(self, found: Scanned, data: memoryview, at: int) -> str:
        """What is wrong with a record whose body is right."""
        properties = found.properties
        if found.topic not in self._topics:
            if not is_directory_name(found.topic):
                return f"{found.topic[:300]!r} is no topic"
            self._topics.add(found.topic)
        if _CRC_NAME in properties and verify_property_crc(data[at : at + found.size]) is False:
            return "it does not match its property checksum"
        if properties.endswith(b"\0"):
            return "its properties end in zeros, as a torn write leaves them"
        if not properties.isascii():
            try:
                properties.decode()
            except UnicodeDecodeError as error:
                return f"its properties are not UTF-8: {error}"
        return ""

    def _pass_gap(self, gap: _Gap, data: memoryview) -> int | None:
        """Where the records of the file go on behind `gap`; None if they do not."""
        if is_closed(data, gap.at, self._file_size):
            self.end = self.end if self._gaps else gap.segment.start + len(data)
            return None
        following = self._find_next(data, gap.segment, gap.at + 1)
        if following is None:
            self._gaps.append(gap)
            return None
        self._settle_gaps()
        self._add_gap(gap, following)
        return following

    def _find_next(self, data: memoryview, segment: Segment, begin: int) -> int | None:
        """Where the next record of the file, or the BLANK that closes it, begins; None if there is none."""
        first = find_nonzero(data, segment.path, begin)
        if first is None:
            return None
        begin = max(begin, first - _MAGIC_AT)
        record = find_record(data, segment.start, begin)
        for magic in iter_bytes(data[:record], _BLANK_MAGIC, begin + _MAGIC_AT):
            if is_closed(data, magic - _MAGIC_AT, self._file_size):
                return magic - _MAGIC_AT
        return record

    def _settle_gaps(self) -> None:
        """A record follows, so what was found at the end of files before it is damage."""
        for gap in self._gaps:
            self._add_gap(gap, min(gap.segment.size, self._file_size))
        self._gaps.clear()

    def _add_gap(self, gap: _Gap, end: int) -> None:
        segment, at, reason = gap
        kind = DamageKind.HOLE if _is_unwritten(self._data(segment), at) else DamageKind.RECORD
        begin, end = segment.start + at, segment.start + end
        detail = f"{end - begin} bytes up to {end}: {reason}"
        self._damage.add(segment.path, begin, kind, detail, covers=(begin, end))
        self.damaged.add(begin, end)


def _find_records(data: memoryview, start: int) -> FileRecords:
    from embermq.kernels.found_records import FileRecords  # not there without numba

    return FileRecords(data, start)


def _scan_without_body(data: memoryview, at: int, position: int) -> Scanned | None:
    """The record at `at`, if nothing but its body is wrong."""
    try:
        return scan_record(data, at, position, check_body=False)
    except CorruptRecord:
        return None


def _place(found: Scanned) -> Placed | None:
    """What queues and index should know of a record; None if its tags are no text."""
    try:
        return placed_of(found, found.position, DEFAULT_DELAY_LEVELS)
    except ValueError:
        return None


def _no_record(data: memoryview, at: int) -> str:
    return "zeros where a record should begin" if _is_unwritten(data, at) else "a BLANK of a wrong size"


def _is_unwritten(data: memoryview, at: int) -> bool:
    return bytes(data[at : at + BLANK_SIZE]) == _UNWRITTEN


def find_record(data: memoryview, start: int, begin: int) -> int | None:
    """Where the first record of a file's bytes begins, from byte `begin` on; the file begins at position `start`."""
    for magic in iter_bytes(data, _MAGIC_BEGIN, begin + _MAGIC_AT):
        at = magic - _MAGIC_AT
        try:
            if scan_record(data, at, start + at, check_body=False) is not None:
                return at
        except CorruptRecord:
            continue
    return None
