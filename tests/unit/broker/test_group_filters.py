"""Filters of consumer groups: told by heartbeats, dead without them, and gone after a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.group_filters import FILTERS_FILE, GroupFilters
from embermq.broker.settings import BrokerSettings
from embermq.format.filter_table import FilterEntry
from embermq.model.subscription import Subscribed
from tests.builders import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def filters(tmp_path: Path, clock: ManualClock) -> GroupFilters:
    return GroupFilters(tmp_path / FILTERS_FILE, BrokerSettings(), clock=clock)


def sql(expression: str, *, version: int = 1, topic: str = "orders") -> Subscribed:
    return Subscribed(topic, expression, "SQL92", version=version)


def read(filters: GroupFilters, topic: str = "orders") -> FilterEntry:
    found = filters.find(topic, "g")
    assert found is not None
    return found


def test_a_heartbeat_makes_an_entry_and_a_newer_one_changes_it(filters: GroupFilters, clock: ManualClock) -> None:
    filters.note("g", [sql("a > 1"), Subscribed("tagged", "t1")])
    first = read(filters)
    assert (first.expression, first.version, first.born_time) == ("a > 1", 1, clock.now_ms())
    assert filters.find("tagged", "g") is None
    clock.advance(ms=5)
    filters.note("g", [sql("a > 2", version=0)])  # an old one that comes late
    assert read(filters) == first
    filters.note("g", [sql("a > 1", version=2)])
    assert read(filters).born_time == first.born_time and read(filters).version == 2
    filters.note("g", [sql("a > 3", version=3)])
    assert (read(filters).expression, read(filters).born_time) == ("a > 3", clock.now_ms())
    filters.note("g", [sql("a >", version=4)])
    assert filters.find("orders", "g") is None


def test_what_a_group_no_longer_reads_dies_and_comes_back(filters: GroupFilters, clock: ManualClock) -> None:
    filters.note("g", [sql("a > 1"), sql("b > 1", topic="bills")])
    clock.advance(ms=1)
    filters.note("g", [sql("a > 1")])
    assert not read(filters).is_dead and read(filters, "bills").is_dead
    filters.forget_group("g")
    assert read(filters).is_dead
    filters.note("g", [sql("a > 1")])
    assert not read(filters).is_dead


def test_entries_outlive_a_restart_and_are_removed_a_day_after_their_end(
    tmp_path: Path, filters: GroupFilters, clock: ManualClock
) -> None:
    filters.note("g", [sql("a > 1")])
    filters.save()
    again = GroupFilters(tmp_path / FILTERS_FILE, BrokerSettings(), clock=clock)
    assert read(again).is_dead, "nobody of the group is there yet"
    assert again.bits_of("orders", b"a\x015\x02") == again.shape.map_of(read(again).positions)
    clock.advance(hours=23)
    again.save()
    assert read(again)
    clock.advance(hours=2)
    again.save()
    assert again.find("orders", "g") is None
    assert GroupFilters(tmp_path / FILTERS_FILE, BrokerSettings(), clock=clock).find("orders", "g") is None


def test_a_message_has_the_bits_of_all_groups_that_want_it(filters: GroupFilters) -> None:
    assert filters.bits_of("orders", b"a\x015\x02") == b""
    filters.note("g", [sql("a > 3")])
    filters.note("h", [sql("a > 4")])
    both = {*read(filters).positions, *filters.shape.positions("h", "orders")}
    assert filters.bits_of("orders", b"a\x015\x02") == filters.shape.map_of(both)
    assert filters.bits_of("orders", b"a\x014\x02") == filters.shape.map_of(read(filters).positions)
    assert filters.bits_of("orders", b"a\x01x\x02") == bytes(filters.shape.size)
    assert filters.bits_of("orders", b"\xff\x01x\x02") == b""
