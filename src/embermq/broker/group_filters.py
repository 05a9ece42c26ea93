"""The SQL92 filters of consumer groups, kept as RocketMQ keeps them: also while nobody of a group is there.

    heartbeat ─→ entry (topic, group): expression, since when, its bits
                    ├─ the group leaves, or no longer reads the topic ─→ dead; removed after filter_keep_ms
                    └─ a message is dispatched ─→ the bits of all groups that want it go into the extended queue

Kept in config/consumerFilter.json. The event loop changes entries; any thread may ask for the bits of a message.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from embermq.broker.settings import BrokerSettings
from embermq.clock import Clock
from embermq.errors import IllegalFilter
from embermq.files.durable import make_directory, read_with_backup, replace_file
from embermq.filters import SqlFilter, parse_sql
from embermq.format.filter_table import FilterEntry, decode_filters, encode_filters
from embermq.model.bloom import BloomShape
from embermq.model.properties import parse_properties
from embermq.model.subscription import SQL_TYPE, Subscribed

log = logging.getLogger(__name__)

FILTERS_FILE: Final = "consumerFilter.json"
_FORGOTTEN_MS: Final = 30_000  # how long before a start a group may have died that nobody saw dying

_Entries = Mapping[str, Mapping[str, tuple[FilterEntry, SqlFilter | None]]]  # by topic, then group


class GroupFilters:
    """Entries by topic and group."""

    def __init__(self, path: Path, settings: BrokerSettings, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._keep_ms = settings.filter_keep_ms
        self.shape = BloomShape.make(
            error_percent=settings.filter_bits_error_percent, consumers=settings.filter_bits_consumers
        )
        self._entries: _Entries = {}  # replaced, never changed
        self._is_changed = False
        for entry in read_with_backup(path, decode_filters) or ():
            self._put(self._loaded(entry), _find_program(entry))
        self._is_changed = False

    def find(self, topic: str, group: str) -> FilterEntry | None:
        found = self._entries.get(topic, {}).get(group)
        return found[0] if found else None

    def note(self, group: str, subscriptions: Iterable[Subscribed]) -> None:
        """A member has told what it reads: all of it."""
        told = {each.topic: each for each in subscriptions if each.expression_type == SQL_TYPE and each.expression}
        for subscribed in told.values():
            self._register(group, subscribed)
        self._bury(group, keep=told.keys())

    def forget_group(self, group: str) -> None:
        """The last member of a group is gone."""
        self._bury(group, keep=())

    def bits_of(self, topic: str, properties: bytes) -> bytes:
        """The map of a message: the bits of every group that wants it. None at all if no group has a filter."""
        entries = self._entries.get(topic)
        if not entries:
            return b""
        try:
            values = parse_properties(properties)
        except ValueError:  # a reader finds out what is wrong
            return b""
        wanted = [entry for entry, program in entries.values() if program is not None and program.matches(values)]
        return self.shape.map_of(position for entry in wanted for position in entry.positions)

    def save(self) -> None:
        """Bring the entries to disk if they changed; those that are dead for long are removed."""
        oldest = self._clock.now_ms() - self._keep_ms
        everyone = [entry for groups in self._entries.values() for entry, _ in groups.values()]
        for entry in everyone:
            if entry.is_dead and entry.dead_time < oldest:
                self._remove(entry.topic, entry.group)
        if not self._is_changed:
            return
        self._is_changed = False
        make_directory(self._path.parent)
        kept = [entry for groups in self._entries.values() for entry, _ in groups.values()]
        replace_file(self._path, encode_filters(kept), keep_backup=True)

    def _register(self, group: str, subscribed: Subscribed) -> None:
        topic, now = subscribed.topic, self._clock.now_ms()
        known = self.find(topic, group)
        if known is not None and subscribed.version < known.version:
            return
        is_same = known is not None and (known.expression, known.expression_type) == (
            subscribed.expression,
            subscribed.expression_type,
        )
        if known is not None and (is_same or subscribed.version == known.version):
            if known.is_dead or subscribed.version > known.version:
                alive = replace(known, version=subscribed.version, dead_time=0)
                self._put(alive, self._entries[topic][group][1])
            return
        entry = FilterEntry(
            topic,
            group,
            subscribed.expression,
            subscribed.expression_type,
            subscribed.version,
            born_time=now,
            bits=self.shape.bits,
            positions=self.shape.positions(group, topic),
        )
        program = _find_program(entry)
        if program is not None:
            self._put(entry, program)
        elif known is not None:
            self._remove(topic, group)

    def _bury(self, group: str, *, keep: Iterable[str]) -> None:
        """Note that a group no longer wants topics, except those to `keep`."""
        now, kept = self._clock.now_ms(), set(keep)
        for topic, groups in self._entries.items():
            found = groups.get(group)
            if found is not None and topic not in kept and not found[0].is_dead:
                self._put(replace(found[0], dead_time=now), found[1])

    def _put(self, entry: FilterEntry, program: SqlFilter | None) -> None:
        groups = {**self._entries.get(entry.topic, {}), entry.group: (entry, program)}
        self._entries = {**self._entries, entry.topic: groups}
        self._is_changed = True

    def _remove(self, topic: str, group: str) -> None:
        groups = {name: found for name, found in self._entries[topic].items() if name != group}
        others = {name: found for name, found in self._entries.items() if name != topic}
        self._entries = {**others, topic: groups} if groups else others
        self._is_changed = True

    def _loaded(self, entry: FilterEntry) -> FilterEntry:
        """An entry of the file: nobody of its group is there yet, and its bits are those of our maps."""
        died = entry.dead_time or max(entry.born_time, self._clock.now_ms() - _FORGOTTEN_MS)
        positions = self.shape.positions(entry.group, entry.topic)
        return replace(entry, dead_time=died, bits=self.shape.bits, positions=positions)


def _find_program(entry: FilterEntry) -> SqlFilter | None:
    try:
        return parse_sql(entry.expression)
    except IllegalFilter as error:
        log.warning("filter refused topic=%s group=%s reason=%s", entry.topic, entry.group, error)
        return None
