"""What reports leave out: other topics than those that are asked for, and no more than that.

Two topics with one message of each kind: put off, given back, of a transaction, traced.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from embermq.format.record import Draft
from embermq.model.properties import format_properties
from embermq.model.topic import (
    DEAD_LETTER_PREFIX,
    HALF_DONE_TOPIC,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TRACE_TOPIC,
)
from tests.builders import ManualClock, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS = ("bills", "orders")
STEP_MS = 60_000
BEGIN_MS = 1_700_000_000_000
REPORTS = {"dlq": "originTopic", "delay": "topic", "trace": "topic", "transactions": "realTopic"}  # and their topics
NOW = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each minute something else becomes of the messages."""
    path, clock = tmp_path_factory.mktemp("choices") / "store", ManualClock(BEGIN_MS)
    trace = "Pub\x01{}\x01R\x01pg\x01{}\x01{}\x01\x01\x01h\x011\x012\x010\x01O\x01true\x02"
    with open_store(path, clock=clock) as opened:

        def put(topic: str, key: str, body: str = "x", **properties: str) -> None:
            draft = Draft(topic.encode(), 0, body.encode(), format_properties({"UNIQ_KEY": key, **properties}))
            opened.put_drafts(lambda: [draft])

        for topic in TOPICS:
            put(SCHEDULE_TOPIC, f"late-{topic}", REAL_TOPIC=topic)
            put(topic, f"lost-{topic}")
            put(HALF_TOPIC, f"ended-{topic}", REAL_TOPIC=topic, PGROUP="pg")
            put(HALF_TOPIC, f"open-{topic}", REAL_TOPIC=topic, PGROUP="pg")
        clock.advance(ms=STEP_MS)
        for topic in TOPICS:
            put(topic, f"late-{topic}")
            put(f"{RETRY_PREFIX}readers", f"lost-{topic}", RETRY_TOPIC=topic)
            put(f"{DEAD_LETTER_PREFIX}readers", f"lost-{topic}", RETRY_TOPIC=topic)
            put(TRACE_TOPIC, f"trace-{topic}", trace.format(BEGIN_MS, topic, f"lost-{topic}"))
        put(HALF_DONE_TOPIC, "done", "0,2,")
    return path


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=repr)


def make(spark: SparkSession, name: str, store: Path, **options: object) -> DataFrame:
    from embermq_spark import reports

    at: dict[str, object] = {"at": NOW} if name in ("delay", "transactions") else {}
    found: DataFrame = getattr(reports, name)(spark, path=store, **at, **options)
    return found


@pytest.mark.parametrize(
    "choice",
    [{"subscribe": "orders"}, {"subscribePattern": "ord.*"}, {"assign": '{"orders": {"store": [0]}}'}],
    ids=lambda choice: next(iter(choice)),
)
@pytest.mark.parametrize(("name", "column"), REPORTS.items())
def test_a_topic_has_the_rows_that_it_has_among_all(
    spark: SparkSession, store: Path, name: str, column: str, choice: dict[str, str]
) -> None:
    every = rows_of(make(spark, name, store))
    assert {row[column] for row in every} == set(TOPICS)
    assert rows_of(make(spark, name, store, **choice)) == [row for row in every if row[column] == "orders"]


def test_what_became_of_messages_is_told_however_late_it_was_stored(spark: SparkSession, store: Path) -> None:
    until = {"endingTimestamp": BEGIN_MS + STEP_MS}
    assert {row["state"] for row in rows_of(make(spark, "delay", store, **until))} == {"delivered"}
    found = rows_of(make(spark, "transactions", store, **until))
    assert {row["uniqKey"] for row in found} == {f"open-{topic}" for topic in TOPICS}


def test_originals_are_found_however_early_they_were_stored(spark: SparkSession, store: Path) -> None:
    since = {"startingTimestamp": BEGIN_MS + STEP_MS}
    for name, column in (("dlq", "originOffset"), ("trace", "stored")):
        found = rows_of(make(spark, name, store, **since))
        assert len(found) == len(TOPICS) and all(row[column] is not None for row in found)
