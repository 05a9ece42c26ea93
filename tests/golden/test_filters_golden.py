"""Filters of consumer groups and the bits they set: as RocketMQ has them in its files."""

from __future__ import annotations

from embermq.broker.group_filters import FILTERS_FILE, GroupFilters
from embermq.broker.settings import BrokerSettings
from embermq.format.filter_table import decode_filters, encode_filters
from embermq.model.properties import format_properties
from tests.builders import ManualClock
from tests.conftest import Golden

TOPIC = "ExtTopic"


def test_the_file_is_read_and_written_as_rocketmq_does(golden: Golden) -> None:
    data = (golden.store("cq-ext") / "config" / FILTERS_FILE).read_bytes()
    entries = decode_filters(data)
    assert [entry.group for entry in entries] == ["GID_ext2", "GID_ext0", "GID_ext1"]
    assert encode_filters(entries) == data


def test_entries_survive_their_groups_with_rocketmqs_bits(golden: Golden) -> None:
    path = golden.store("cq-ext") / "config" / FILTERS_FILE
    written = {entry.group: entry for entry in decode_filters(path.read_bytes())}
    clock = ManualClock(max(entry.dead_time for entry in written.values()) + 1)
    filters = GroupFilters(path, BrokerSettings(), clock=clock)
    assert {group: filters.find(TOPIC, group) for group in written} == written
    clock.advance(hours=25)
    filters.save()
    assert filters.find(TOPIC, "GID_ext0") is None
    assert decode_filters(path.read_bytes()) == []


def test_the_bits_of_every_message_are_rocketmqs(golden: Golden) -> None:
    path, expected = golden.store("cq-ext"), golden.expected("cq-ext")
    filters = GroupFilters(path / "config" / FILTERS_FILE, BrokerSettings(), clock=ManualClock())
    records = {record["physicalOffset"]: record for record in expected["commitLog"]["records"]}
    compared = 0
    for queue in expected["consumeQueues"][TOPIC].values():
        for (position, *_), extended in zip(queue["units"], queue["ext"], strict=True):
            properties = format_properties(records[position]["properties"])
            assert filters.bits_of(TOPIC, properties).hex() == extended["filterBitMap"]
            compared += 1
    assert compared == 120
