"""Archives made by Spark, read by Spark's own readers, and joined with the log behind them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from embermq import Client, Message
from tests.archive_checks import FORMATS, rows_of_archive, rows_of_store
from tests.builders import SMALL_SIZES, open_store, some_messages
from tests.e2e.conftest import Served
from tests.test_docs import DEFAULT_ADDRESS, DOCS, run_page

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAGE = DOCS / "archive.md"


def fill(path: Path) -> None:
    with open_store(path, **SMALL_SIZES) as store:
        for topic in ("orders", "42", "orders-2"):
            store.put_many(some_messages(40, topic=topic))


def positions(frame: DataFrame) -> list[int]:
    return sorted(row["physicalOffset"] for row in frame.select("physicalOffset").collect())


def expected_positions(store: Path) -> list[Any]:
    return [row["physicalOffset"] for row in rows_of_store(store)]


@pytest.mark.parametrize("format", FORMATS)
def test_spark_archives_and_one_view_has_archive_and_log(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    from embermq_spark import jobs

    monkeypatch.setattr("embermq.archive.job.SMALLEST_TASK", 6_000)
    store, target = tmp_path / "store", tmp_path / "archive"
    fill(store)
    done = jobs.archive(spark, store, target, format=format)
    assert done.messages == 120
    assert rows_of_archive(target, format) == rows_of_store(store)
    fill(store)
    view = jobs.history(spark, target, store)
    view.createOrReplaceTempView("history")
    assert positions(view) == expected_positions(store)
    counts = spark.sql("select topic, count(*) as n from history where tags = 'tag1' group by topic").collect()
    assert Counter({row["topic"]: row["n"] for row in counts}) == Counter({"orders": 26, "42": 26, "orders-2": 26})
    before = positions(jobs.history(spark, target))
    assert before == expected_positions(store)[:120]
    waits = iter((False, False, True))
    followed = jobs.archive(spark, store, target, wait=lambda: fill(store) or next(waits))
    assert followed.messages == 3 * 120  # what came while it waited for the last time is left for the next
    assert positions(view) == expected_positions(store)[:240]  # what it was made of is still there


def test_spark_reads_plain_archives_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    from embermq_spark import jobs

    fill(tmp_path / "store")
    jobs.archive(spark, tmp_path / "store", tmp_path / "archive")
    frame = spark.read.parquet(str(tmp_path / "archive"))
    assert positions(frame) == expected_positions(tmp_path / "store")
    assert frame.where("topic = 'orders'").count() == 40
    properties = frame.where("topic = 'orders' and keys = 'key-7'").select("properties").first()
    assert properties is not None
    assert properties[0]["number"] == "7"


def test_what_the_page_says_of_spark_is_true(
    spark: SparkSession, tmp_path: Path, ember: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store(tmp_path / "data", **SMALL_SIZES) as store:
        store.put_many(Message("orders", b"order %d" % n, tags="eu" if n % 2 else "us") for n in range(100))
    page = PAGE.read_text().replace(DEFAULT_ADDRESS, ember.namesrv)
    run_page(page[page.index("```python spark") :], PAGE.name, has_spark=True)


def test_spark_sends_an_archive_again(spark: SparkSession, tmp_path: Path, ember: Served) -> None:
    from embermq_spark import jobs

    fill(tmp_path / "store")
    jobs.archive(spark, tmp_path / "store", tmp_path / "archive")
    jobs.replay(
        spark, tmp_path / "archive", ember.namesrv, where="tags = 'tag1'", topics={"42": "forty-two"}, to="others"
    )
    with Client(ember.namesrv) as mq:
        sent = {topic: list(mq.read(topic, since=None, follow=False)) for topic in ("forty-two", "others")}
    assert [len(sent["forty-two"]), len(sent["others"])] == [13, 26]
    assert {message.tags for message in sent["others"]} == {"tag1"}
    assert {message.properties["number"] for message in sent["forty-two"]} == {str(n) for n in range(1, 40, 3)}
