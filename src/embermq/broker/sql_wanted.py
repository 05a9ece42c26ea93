"""Which messages a consumer with an SQL92 filter wants: asked with what the queue knows, then with the record."""

from __future__ import annotations

from embermq.broker.settings import BrokerSettings
from embermq.errors import FiltersOff, IllegalFilter
from embermq.filters import SqlFilter
from embermq.format.extended_entry import ExtendedEntry
from embermq.format.filter_table import FilterEntry
from embermq.format.record import read_properties
from embermq.model.bloom import has_bits
from embermq.model.properties import find_property
from embermq.model.subscription import SQL_TYPE


def check_kind(kind: str, settings: BrokerSettings) -> None:
    """Refuse filters of a kind that is not known, or not wanted here. Raises IllegalFilter or FiltersOff."""
    if kind != SQL_TYPE:
        raise IllegalFilter(f"filters of type {kind[:80]!r} are not known; use TAG or SQL92")
    if not settings.sql_filters:
        raise FiltersOff(f"broker {settings.name!r} does not filter by SQL92; use tags, or see its `sql_filters`")


class SqlWanted:
    """A filter, and the entry of its group, if bits in the extended queue may stand for it."""

    __slots__ = ("_entry", "_names", "filter")

    def __init__(self, wanted: SqlFilter, entry: FilterEntry | None = None) -> None:
        self.filter = wanted
        self._entry = entry
        self._names = [(name, name.encode()) for name in wanted.names]

    def may_accept(self, extended: ExtendedEntry | None) -> bool:
        """Whether the bits of a message leave it possible that it is wanted."""
        entry = self._entry
        if entry is None or extended is None or len(extended.bits) * 8 != entry.bits:
            return True
        return extended.store_time <= entry.born_time or has_bits(extended.bits, entry.positions)

    def accepts(self, data: memoryview) -> bool:
        """Whether the message of a record is wanted. Raises CorruptRecord."""
        properties = read_properties(data)
        found = ((name, find_property(properties, key)) for name, key in self._names)
        return self.filter.matches({name: value.decode(errors="replace") for name, value in found if value is not None})
