"""Stores that lie in an object store, or on a file system of fsspec: driver and executors read them from there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.golden_rows import ALL_COLUMNS, GoldenStores
from tests.spark.object_store import SECRET, ObjectStore, object_store

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest.importorskip("moto", reason="needs moto, an object store for tests")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("moto") / "log") as store:
        yield store


@pytest.fixture(scope="module")
def address(objects: ObjectStore, stores: GoldenStores) -> str:
    return objects.copy(stores.paths["basic"])


def rows(spark: SparkSession, path: object, **options: str) -> list[dict[str, Any]]:
    options = {"columns": ",".join(ALL_COLUMNS), **options}
    found = spark.read.format("rocketmq").options(**options).load(str(path)).collect()
    return sorted((row.asDict() for row in found), key=lambda row: row["physicalOffset"])


@pytest.mark.parametrize(
    "options",
    [
        {"splitSize": "100k"},
        {"subscribe": "TopicBeta", "minPartitions": "3"},
        {"startingOffsets": '{"TopicAlpha": {"broker-a": {"0": 40, "1": 40}}}', "subscribe": "TopicAlpha"},
        {"keys": "order-11,order-200"},
        {"filterExpression": "a > 3 AND TAGS IS NOT NULL"},
    ],
    ids=["log", "queues", "offsets", "keys", "SQL"],
)
def test_s3_gives_the_rows_of_the_files(
    spark: SparkSession, stores: GoldenStores, address: str, options: dict[str, str]
) -> None:
    expected = rows(spark, stores.paths["basic"], **options)
    assert expected
    assert rows(spark, address, **options) == expected


def test_s3_is_streamed(spark: SparkSession, stores: GoldenStores, address: str, tmp_path: Path) -> None:
    reader = spark.readStream.format("rocketmq").option("subscribePattern", "Topic.*")
    frame = reader.option("columns", "physicalOffset").load(address)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "marks"))
    assert writer.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination(120)
    found = sorted(row[0] for row in spark.read.parquet(str(tmp_path / "rows")).collect())
    assert found == [row["physicalOffset"] for row in rows(spark, stores.paths["basic"], subscribePattern="Topic.*")]


def test_what_is_not_there_is_said_without_keys(spark: SparkSession, objects: ObjectStore) -> None:
    with pytest.raises(Exception, match="no store at s3://stores/nothing: no such directory") as caught:
        rows(spark, objects.address_of("nothing"))
    assert SECRET not in str(caught.value)


def test_a_file_system_of_fsspec_gives_the_rows_of_the_files(spark: SparkSession, stores: GoldenStores) -> None:
    path = stores.paths["ordered"]
    assert rows(spark, f"local://{path}", storageOptions='{"auto_mkdir": false}') == rows(spark, path)
    with pytest.raises(Exception, match="no store at nothing://here: Protocol not known: nothing"):
        rows(spark, "nothing://here")
