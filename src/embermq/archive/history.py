"""Messages of an archive and of the log behind it, as one: each once, none left out, in the order of the log.

    archive [begin, end)  ─┐
    log     [end, …)      ─┴→ batches

Only loaded where pyarrow is.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from embermq.archive.errors import ArchiveMissing, TopicAbsent
from embermq.archive.origin import check_store, find_gap
from embermq.archive.reading import find_unpacked_size, read_archive
from embermq.archive.state import ArchiveState
from embermq.archive.tables import Table
from embermq.errors import DataLoss
from embermq.jobs.progress import Progress
from embermq.scan.columns import ALL_COLUMNS, POSITION
from embermq.scan.log_plan import plan_stretch
from embermq.scan.reading import read_split
from embermq.scan.splits import LogSplit, Split, StorePlace
from embermq.scan.store_name import find_name
from embermq.scan.survey import Survey
from embermq.scan.wanted import Wanted

_STRETCH: Final = 64 << 20


def read_history(
    table: Table | None,
    place: StorePlace | None,
    wanted: Wanted,
    *,
    after: int | None = None,
    progress: Progress | None = None,
) -> Iterator[pa.RecordBatch]:
    """The wanted messages of an archive, of a store, or of both, in all columns; those behind that of position `after`.

    `progress` is told the bytes that are read: of files of the archive, then of the log.
    Raises ArchiveMissing, ArchiveMismatch for an archive of another store, DataLoss for a gap between the two.
    """
    progress = progress or Progress("read")
    begin = -1 if after is None else after  # where a record begins: none has to be looked for
    if table is not None:
        state = read_state(table)
        if place is not None:
            check_together(state, table, place)
        yield from read_archive(table, wanted, begin=begin + 1, progress=progress)
        begin = max(begin, state.end)
    if place is not None:
        whole = replace(wanted, columns=ALL_COLUMNS, broker_name=wanted.broker_name or find_name(place))
        splits = plan_log(place, begin)
        progress.begin("log", sum(map(_size_of, splits)))
        for split in splits:
            for batch in read_split(split, whole):
                yield batch if after is None else batch.filter(pc.greater(batch.column(POSITION), after))
                progress.add(0)
            progress.add(_size_of(split))


def _size_of(split: Split) -> int:
    return split.end - split.begin if isinstance(split, LogSplit) else 0


def estimate_size(table: Table | None, place: StorePlace | None, wanted: Wanted) -> int:
    """How many bytes of a log the wanted messages are at most; 0 if a filter or keys choose, so that nobody knows."""
    if wanted.filter_text is not None or wanted.keys is not None:
        return 0
    begin, size = 0, 0
    if table is not None:
        state = read_state(table)
        begin, size = state.end, min(find_unpacked_size(table, wanted), state.end - state.begin)
    if place is not None and wanted.topics is None and wanted.pattern is None and wanted.begin_time_ms is None:
        with closing(Survey(place)) as survey:
            size += max(survey.end - max(begin, survey.begin), 0)
    return size


def read_state(table: Table) -> ArchiveState:
    """How far an archive is. Raises ArchiveMissing."""
    state = table.find_state()
    if state is None:
        raise ArchiveMissing(table.target.name)
    return state


def find_topics(table: Table | None, place: StorePlace | None, wanted: Wanted) -> list[str]:
    """The topics that wanted messages may be of. Raises TopicAbsent if one is named that is not there."""
    known: set[str] = set()
    if table is not None:
        read_state(table)
        known |= {file.part.topic for file in table.find_files()}
    if place is not None:
        with closing(Survey(place)) as survey:
            known |= survey.topics
    check_known(wanted.topics or (), known)
    return sorted(filter(wanted.accepts_topic, known))


def check_known(topics: Iterable[str], known: Collection[str]) -> None:
    """Raise TopicAbsent unless all of these topics are known."""
    for topic in sorted(set(topics).difference(known)):
        nearest = difflib.get_close_matches(topic, known, n=1)
        raise TopicAbsent(topic, nearest[0] if nearest else None)


def check_together(state: ArchiveState, table: Table, place: StorePlace) -> None:
    """Raise ArchiveMismatch unless an archive is of this store, DataLoss if messages are in neither."""
    with closing(Survey(place)) as survey:
        check_store(state, survey, table.target.name)
        gap = find_gap(state, survey)
        if gap is not None:
            raise gap


def plan_log(place: StorePlace, begin: int, *, size: int = _STRETCH) -> list[Split]:
    """Splits of a store's log from a record's position on, in order; of all of it if negative. Raises DataLoss."""
    with closing(Survey(place)) as survey:
        if 0 <= begin < survey.begin:
            what, reason = f"log positions [{begin}, {survey.begin})", "the store has deleted them"
            raise DataLoss(place.name, what=what, reason=reason)
        begin = max(begin, survey.begin)
        return plan_stretch(survey, begin, survey.end, size, is_exact=True) if begin < survey.end else []
