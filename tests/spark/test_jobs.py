"""Rebuild and verify on Spark: what local processes do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.jobs.faults import a_varied_store
from tests.unit.jobs.rebuilding import SIZES, derived
from tests.unit.store.planting import overwrite_log, records_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("varied") / "store"
    a_varied_store(path)
    return path


def test_a_store_that_spark_rebuilt_is_what_the_live_one_wrote(
    spark: SparkSession, store: Path, tmp_path: Path
) -> None:
    from embermq.store.settings import StoreSettings
    from embermq_spark.jobs import rebuild

    rebuild(spark, store, tmp_path / "out", settings=StoreSettings(**SIZES), range_size=40_000)
    assert derived(tmp_path / "out") == derived(store)


def test_a_sound_store_has_no_row_and_damage_has_its_place(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    from embermq_spark.jobs import verify

    assert verify(spark, store, range_size=40_000).count() == 0
    shutil.copytree(store, tmp_path / "damaged")
    record: Any = records_of(store)[33]
    overwrite_log(tmp_path / "damaged", record.position + 8, b"\xff" * 4)
    (row,) = verify(spark, tmp_path / "damaged", range_size=40_000).collect()
    assert (row.position, row.kind) == (record.position, "record")
    assert [tuple(each) for each in row.hides] == [(record.topic, record.queue, record.offset, record.offset + 1)]


def test_what_differs_has_a_row(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    from embermq_spark.jobs import compare

    other = shutil.copytree(store, tmp_path / "other")
    assert compare(spark, store, other).count() == 0
    record: Any = records_of(store)[33]
    overwrite_log(other, record.position + 88, b"?")
    (row,) = compare(spark, store, other, range_size=40_000, staging=tmp_path).collect()
    place = (record.topic, record.queue, record.offset, record.offset + 1)
    assert (row.topic, row.queue, row.begin, row.end, row.kind) == (*place, "different")


def test_a_path_means_the_same_where_tasks_run(
    spark: SparkSession, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from embermq.store.settings import StoreSettings
    from embermq_spark import jobs

    shutil.copytree(store, tmp_path / "elsewhere" / "store")
    shutil.move(tmp_path / "elsewhere" / "store" / "commitlog", tmp_path / "log")
    monkeypatch.chdir(tmp_path / "elsewhere")  # Spark's own processes were started before
    settings = StoreSettings(**SIZES, log_paths=("../log",))
    assert jobs.verify(spark, "store", settings=settings, range_size=40_000).count() == 0
    jobs.rebuild(spark, "store", "out", settings=settings, range_size=40_000)
    assert derived(tmp_path / "elsewhere" / "out") == derived(store)
    shutil.move(tmp_path / "log", tmp_path / "elsewhere" / "store" / "commitlog")
    assert jobs.compare(spark, "store", store, staging=".").count() == 0
