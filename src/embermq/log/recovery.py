"""Finds the last whole record of a log, and cuts there.

Three questions, answered by three functions:

    first_matching_file   where to begin, in a log whose checkpoint tells only a time
    scan_log              where the whole records end
    cut_log               what to do with the bytes behind: kept aside unless they are zeros

A torn tail is what a crash leaves, and normal. Whatever is cut lies afterwards in
`broken/` beside the log, named after its position, and the log is zero behind its end,
so that no stale record can come back to life.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from embermq.errors import CorruptRecord
from embermq.files.durable import write_aside
from embermq.files.file_chain import FileChain
from embermq.format.property_crc import verify_property_crc
from embermq.format.record import BLANK_SIZE, MAGIC_BLANK, read_frame, scan_record

log = logging.getLogger(__name__)

Report = Callable[[int, int], None]  # bytes done, bytes in all
REPORT_EVERY = 16 * 1024 * 1024
BROKEN_FOLDER = "broken"


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
    chain: FileChain, begin: int, *, verify_properties: bool = False, report: Report = lambda done, total: None
) -> Scan:
    """Walk the records from `begin` on, each checked whole, to the first place that holds none."""
    position, records, store_time = begin, 0, 0
    reported = begin
    total = chain.end - begin
    try:
        while (file := chain.find(position)) is not None:
            data = file.view
            at = position - file.start
            while (found := scan_record(data, at, file.start + at, check_body=True)) is not None:
                if verify_properties:
                    _check_properties(data[at : at + found.size], file.start + at)
                records += 1
                store_time = found.store_time
                at += found.size
                position = file.start + at
                if position - reported >= REPORT_EVERY:
                    reported = position
                    report(position - begin, total)
            if not _is_closed(data, at):
                break
            position = file.start + file.size
    except CorruptRecord as damage:
        return Scan(begin, position, records, store_time, damage)
    report(total, total)
    return Scan(begin, position, records, store_time, None)


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


def _check_properties(data: memoryview, position: int) -> None:
    if not verify_property_crc(data):
        raise CorruptRecord(position, "its property checksum is missing or wrong")


def _is_closed(data: memoryview, at: int) -> bool:
    """Whether a BLANK record, or the file itself, ends here."""
    if len(data) - at < BLANK_SIZE:
        return True
    size, magic = read_frame(data, at)
    return magic == MAGIC_BLANK and size == len(data) - at
