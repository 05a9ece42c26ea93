"""Finds the last whole record of a log, and cuts there.

Four questions, answered by four functions:

    first_matching_file   where to begin, in a log whose checkpoint tells only a time
    scan_log              where the whole records end
    cut_log               what to do with the bytes behind: kept aside unless they are zeros
    find_next_record      where to go on behind a damaged record that is not at the end

A torn tail is what a crash leaves, and normal. Whatever is cut lies afterwards in
`broken/` beside the log, named after its position, and the log is zero behind its end,
so that no stale record can come back to life.

Where kernels are loaded, they walk over the records, and `scan_record` looks at what they stop at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from embermq.errors import CorruptRecord
from embermq.files.durable import write_aside
from embermq.files.file_chain import FileChain
from embermq.format.property_crc import verify_property_crc
from embermq.format.record import BLANK_SIZE, MAGIC_BLANK, Scanned, read_frame, scan_record
from embermq.kernels.switching import Switch
from embermq.model.topic import is_directory_name

log = logging.getLogger(__name__)

Report = Callable[[int, int], None]  # bytes done, bytes in all
REPORT_EVERY = 16 * 1024 * 1024
BROKEN_FOLDER = "broken"
_CHUNK = 1024 * 1024
_MAGIC_BEGIN = bytes.fromhex("daa320")  # of records of both versions
_MAGIC_AT = 4  # behind the size
_KERNELS_PAY_AFTER = 128 * 1024 * 1024  # bytes, which plain code scans in about the time that a load takes


@dataclass(frozen=True, slots=True)
class Scan:
    """What a walk over the log found."""

    begin: int
    end: int  # behind the last whole record, or the last file if a BLANK record closes it
    records: int
    last_store_time: int  # 0 without a record
    damage: CorruptRecord | None  # why the walk ended, unless it was at unwritten space


def first_matching_file(chain: FileChain, matches: Callable[[int, int], bool]) -> int:
    """The start of the newest file whose first record (position, store time) `matches`; else of the first file."""
    for file in reversed(chain.files):
        try:
            first = scan_record(file.view, 0, file.start, check_body=True)
        except CorruptRecord:
            continue
        if first is not None and first.store_time and matches(file.start, first.store_time):
            return file.start
    return chain.begin


def scan_log(
    chain: FileChain,
    begin: int,
    *,
    verify_properties: bool = False,
    is_ours: bool = False,
    report: Report = lambda done, total: None,
) -> Scan:
    """Walk the records from `begin` on, each checked whole, to the first place that holds none.

    `is_ours` says that EmberMQ wrote the last of them: then one whose properties end in zeros
    is torn. RocketMQ keeps such a record, so one of its own is kept here, too.
    """
    position, records = begin, 0
    newest: Scanned | None = None
    damage: CorruptRecord | None = None
    topics: set[str] = set()
    reported = begin
    total = chain.end - begin
    switch = Switch(pays_after=_KERNELS_PAY_AFTER)
    try:
        while (file := chain.find(position)) is not None:
            data = file.view
            at = position - file.start
            while True:
                if switch.is_on(position - begin):
                    passed, at, found = _pass_many(data, at, file.start, needs_crc=verify_properties)
                    newest, records, position = found or newest, records + passed, file.start + at
                found = scan_record(data, at, file.start + at, check_body=True)
                if found is None:
                    break
                if verify_properties:
                    _check_properties(data[at : at + found.size], file.start + at)
                if found.topic not in topics:
                    if not is_directory_name(found.topic):
                        raise CorruptRecord(file.start + at, f"{found.topic[:300]!r} is no topic")
                    topics.add(found.topic)
                records += 1
                newest = found
                at += found.size
                position = file.start + at
                if position - reported >= REPORT_EVERY:
                    reported = position
                    report(position - begin, total)
            if not is_closed(data, at, file.size):
                break
            position = file.start + file.size
        report(total, total)
    except CorruptRecord as error:
        # A new one: who caught it would keep, by its traceback, the file mapped for as long as the store is open.
        damage = CorruptRecord(error.position, error.reason)
    store_time = newest.store_time if newest is not None else 0
    if is_ours and newest is not None and _is_torn(newest):
        damage = CorruptRecord(newest.position, "its properties end in zeros: it was not written whole")
        return Scan(begin, newest.position, records - 1, store_time, damage)
    return Scan(begin, position, records, store_time, damage)


def _pass_many(data: memoryview, at: int, start: int, *, needs_crc: bool) -> tuple[int, int, Scanned | None]:
    """Have kernels walk over records from byte `at` on that are as they should be.

    Returns how many there are, where they end, and the last of them.
    """
    from embermq.kernels.found_records import pass_whole  # not there without numba

    records, end, last = pass_whole(data, at, start + at, needs_crc=needs_crc)
    return records, end, scan_record(data, last, start + last, check_body=False) if records else None


def cut_log(chain: FileChain, end: int, aside: Path) -> list[Path]:
    """Make `end` the log's end. Bytes behind it that are not zero are kept in `aside`; returns the files made there."""
    kept: list[Path] = []
    for file in chain.files:
        begin = max(end - file.start, 0)
        if begin >= file.size:
            continue
        last = file.find_last_nonzero(begin)
        if last is not None:
            path = aside / f"{file.start + begin:020d}.broken"
            kept.append(write_aside(path, [file.view[begin : last + 1]]))
    if kept:
        log.warning("cut log position=%d kept=%s", end, ", ".join(str(path) for path in kept))
    chain.truncate(end)
    return kept


def find_next_record(chain: FileChain, position: int) -> int:
    """Where the first whole record begins from `position` on; the log's end if there is none."""
    while (file := chain.find(position)) is not None:
        for at in _iter_frames(file.view, position - file.start):
            try:
                if scan_record(file.view, at, file.start + at, check_body=True) is not None:
                    return file.start + at
            except CorruptRecord:
                continue
        position = file.start + file.size
    return chain.end


def _iter_frames(data: memoryview, begin: int) -> Iterator[int]:
    """Every place from `begin` on where the magic number of a record is where it should be."""
    for start in range(begin, len(data), _CHUNK):
        chunk = bytes(data[start : start + _CHUNK + BLANK_SIZE - 1])
        at = chunk.find(_MAGIC_BEGIN, _MAGIC_AT)
        while at >= 0:
            yield start + at - _MAGIC_AT
            at = chunk.find(_MAGIC_BEGIN, at + 1)


def _check_properties(data: memoryview, position: int) -> None:
    if not verify_property_crc(data):
        raise CorruptRecord(position, "its property checksum is missing or wrong")


def _is_torn(newest: Scanned) -> bool:
    """Whether the last record is one whose writing was cut short, though its size and its checksum fit.

    The checksum ends with the body. Our properties end with a separator, never with a zero.
    """
    return newest.properties.endswith(b"\0")


def is_closed(data: memoryview, at: int, file_size: int) -> bool:
    """Whether the records of a file, which `data` begins with, end at `at` for good: by a BLANK record or its size."""
    if len(data) - at < BLANK_SIZE:
        return True
    size, magic = read_frame(data, at)
    return magic == MAGIC_BLANK and size == file_size - at
