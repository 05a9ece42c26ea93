"""Finds records by their keys."""

from __future__ import annotations

from embermq.errors import CorruptRecord, OutOfRange
from embermq.format.record import Record
from embermq.log.commit_log import CommitLog
from embermq.log.key_index import KeyIndex, keys_of


def find_by_key(
    index: KeyIndex, commit_log: CommitLog, topic: str, key: str, begin_ms: int, end_ms: int, *, limit: int
) -> list[Record]:
    """The newest `limit` records of `topic` with this key, of the time from `begin_ms` to `end_ms`; oldest first."""
    found: dict[int, Record] = {}
    for position in index.iter_positions(topic, key, begin_ms=begin_ms, end_ms=end_ms):
        if len(found) == limit:
            break
        record = _find_with_key(commit_log, position, topic, key)
        if record is not None:
            found[position] = record
    return [found[position] for position in sorted(found)]


def _find_with_key(commit_log: CommitLog, position: int, topic: str, key: str) -> Record | None:
    """The record at `position`, if it is there and really has the key: the index knows only hashes."""
    try:
        record = commit_log.read(position)
        if record.topic == topic and key in keys_of(record.properties):
            record.property_map()  # which damage may have made no text
            return record
    except (OutOfRange, CorruptRecord):
        return None  # expired; or damaged, which `ember store verify` reports
    return None
