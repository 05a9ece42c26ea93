"""What pushed filters leave out. No Spark runs here."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from embermq import Message, open_store
from embermq.scan.wanted import OffsetRange, Wanted
from embermq_spark.options import ReadOptions
from embermq_spark.pushdown import narrow
from embermq_spark.selection import select


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with two topics of three queues, each with ten messages."""
    folder = tmp_path_factory.mktemp("pushdown") / "data"
    with open_store(folder, durability="async") as store:
        for topic in ("orders", "bills"):
            for number in range(30):
                store.put(Message(topic, b"x"), queue=number % 3)
    return folder


def wanted_of(path: Path, *filters: Filter, **options: str) -> Wanted | None:
    (selected,) = select(ReadOptions.parse({"path": str(path), **options}), ("topic",))
    found = narrow(filters).apply(selected)
    return None if found is None else found.wanted


def at(name: str) -> tuple[str]:
    return (name,)


def test_topics_are_those_that_are_there(path: Path) -> None:
    found = wanted_of(path, In(at("topic"), ["orders", "nowhere"]))
    assert found is not None
    assert [topic for topic in ("orders", "bills", "nowhere") if found.accepts_topic(topic)] == ["orders"]
    assert wanted_of(path, EqualTo(at("topic"), "nowhere")) is None
    assert wanted_of(path, EqualTo(at("topic"), "bills"), subscribe="orders") is None
    assert wanted_of(path, EqualTo(at("TOPIC"), "orders"), EqualTo(at("topic"), "bills")) is None


def test_queues_and_offsets_become_ranges(path: Path) -> None:
    filters = [EqualTo(at("topic"), "orders"), In(at("queueId"), [1, 2, 9])]
    found = wanted_of(path, *filters, GreaterThanOrEqual(at("queueOffset"), 4), LessThan(at("queueOffset"), 40))
    assert found is not None
    assert found.ranges == (OffsetRange("orders", 1, 4, 10), OffsetRange("orders", 2, 4, 10))
    assert wanted_of(path, GreaterThan(at("queueOffset"), 10)) is None
    single = wanted_of(path, EqualTo(at("queueOffset"), 3), EqualTo(at("queueId"), 0), subscribe="bills")
    assert single is not None
    assert single.ranges == (OffsetRange("bills", 0, 3, 4),)


def test_ranges_of_options_are_cut(path: Path) -> None:
    starts = '{"orders": {"data": {"0": 5}}}'
    found = wanted_of(path, LessThanOrEqual(at("queueOffset"), 6), subscribe="orders", startingoffsets=starts)
    assert found is not None
    assert found.ranges is not None
    assert found.ranges[0] == OffsetRange("orders", 0, 5, 7)


def test_a_store_that_crashed_is_not_asked_for_its_queues(path: Path) -> None:
    (path / "abort").touch()
    try:
        found = wanted_of(path, EqualTo(at("queueId"), 1), EqualTo(at("topic"), "lost"))
    finally:
        (path / "abort").unlink()
    assert found is not None
    assert found.ranges is None
    assert found.accepts_topic("lost")


def test_times_are_cut_to_milliseconds(path: Path) -> None:
    time = datetime(2025, 6, 1, 12, 0, 0, 1_500, tzinfo=UTC)
    found = wanted_of(path, GreaterThan(at("storeTimestamp"), time), LessThan(at("storeTimestamp"), time))
    assert found is not None
    milliseconds = 1_748_779_200_001
    assert (found.begin_time_ms, found.end_time_ms) == (milliseconds, milliseconds + 1)
    later = wanted_of(path, GreaterThan(at("storeTimestamp"), time), startingtimestamp=str(milliseconds + 5))
    assert later is not None
    assert later.begin_time_ms == milliseconds + 5


def test_keys_and_tags_are_asked_for(path: Path) -> None:
    found = wanted_of(path, In(at("keys"), ["o-1", "a  b"]), EqualTo(at("tags"), "eu"), EqualTo(at("uniqKey"), "U"))
    assert found is not None
    assert (found.keys, found.filter_text, found.unique_keys) == ({"o-1", "a"}, "eu", {"U"})


@pytest.mark.parametrize(
    "given",
    [
        EqualTo(at("keys"), " "),
        EqualTo(at("keys"), "a\tb"),
        EqualTo(at("tags"), "*"),
        EqualTo(at("tags"), "a || b"),
        EqualTo(at("tags"), " a"),
        EqualTo(at("tags"), ""),
        EqualNullSafe(at("tags"), None),
        EqualTo(at("body"), b"x"),
        Not(EqualTo(at("topic"), "orders")),
        StringContains(at("topic"), "ord"),
        GreaterThan(at("storeTimestamp"), datetime(2025, 6, 1)),
        GreaterThan(at("topic"), "a"),
    ],
    ids=str,
)
def test_filters_that_say_nothing_certain_are_passed_over(path: Path, given: Any) -> None:
    assert wanted_of(path, given) == wanted_of(path)


def test_a_tag_does_not_replace_the_filter_of_an_option(path: Path) -> None:
    found = wanted_of(path, EqualTo(at("tags"), "eu"), filterexpression="us || eu")
    assert found is not None
    assert found.filter_text == "us || eu"


def test_a_broker_can_be_left_out(path: Path) -> None:
    assert wanted_of(path, EqualTo(at("brokerName"), "data")) is not None
    assert wanted_of(path, EqualTo(at("brokerName"), "broker-b")) is None
