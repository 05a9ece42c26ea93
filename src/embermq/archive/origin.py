"""Whether an archive and a store belong together. Nothing is changed.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import shlex
import zlib
from dataclasses import replace

from embermq.archive.errors import ArchiveMismatch, NeverArchived
from embermq.archive.state import ArchiveState, LastRecord, Origin
from embermq.errors import CorruptRecord, DamagedRecord, DataLoss
from embermq.scan.file_walk import FileWalk
from embermq.scan.splits import LogFile
from embermq.scan.survey import Survey


def check_wanted(found: Origin, asked: Origin, place: str) -> None:
    """Raise ArchiveMismatch unless an archive is of this broker and these topics; nothing asked: whatever it holds."""
    if found.broker != asked.broker:
        raise ArchiveMismatch(
            place,
            f"it is of broker {found.broker!r}, the store of {asked.broker!r}; if it is the same store, renamed or "
            f"moved, say --broker-name {shlex.quote(found.broker)}",
        )
    if asked.describe() == Origin("", "").describe():
        return
    if replace(asked, archive=found.archive) != found:
        raise ArchiveMismatch(
            place, f"it holds {found.describe()}, and {asked.describe()} were asked for; leave the topics out"
        )


def check_store(state: ArchiveState, survey: Survey, place: str) -> None:
    """Raise ArchiveMismatch unless the archive was made from this store."""
    store = survey.place.name
    if state.end > survey.end:
        raise ArchiveMismatch(
            place,
            f"it holds the log up to position {state.end}, and {store} ends at {survey.end}: it was made from "
            "another store, or this one lost its end",
        )
    if state.last is not None and state.last.position >= survey.begin:
        found = find_record(survey, state.last.position)
        if found != state.last:
            raise ArchiveMismatch(
                place, f"its last record, of position {state.last.position}, is not that of {store}: another store"
            )


def find_gap(state: ArchiveState, survey: Survey) -> DataLoss | None:
    """What the store has deleted before it was archived."""
    if state.end >= survey.begin:
        return None
    return NeverArchived(survey.place.name, begin=state.end, end=survey.begin)


def check_first(survey: Survey, position: int) -> None:
    """Raise DamagedRecord if a record should begin at a position, and what is there is none."""
    file = _file_at(survey, position)
    if file is None or position >= survey.end:
        return
    with FileWalk(survey.store, file, position, survey.end) as walk:
        try:
            found = walk.next(check_body=True)
        except CorruptRecord as error:
            raise DamagedRecord(survey.store.name_of(file.path), position=position, reason=error.reason) from error
        if found is None and not walk.is_closed:
            raise DamagedRecord(survey.store.name_of(file.path), position=position, reason="no record begins there")


def find_record(survey: Survey, position: int) -> LastRecord | None:
    """What a record is known again by; None if there is none."""
    file = _file_at(survey, position)
    if file is None:
        return None
    with FileWalk(survey.store, file, position, survey.end, read_size=64 << 10) as walk:
        try:
            data = walk.next(check_body=False)
        except CorruptRecord:
            return None
        return None if data is None else LastRecord(position, zlib.crc32(data))


def _file_at(survey: Survey, position: int) -> LogFile | None:
    return next((file for file in survey.files if file.start <= position < file.end), None)
