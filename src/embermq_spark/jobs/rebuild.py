"""`rebuild` as a function of a Spark session."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from embermq.jobs.progress import Progress
from embermq.jobs.rebuild import Rebuilt
from embermq.jobs.rebuild import rebuild as rebuild_store
from embermq.store.settings import StoreSettings
from embermq_spark.jobs.running import SparkRunner


def rebuild(
    spark: SparkSession,
    path: str | Path,
    out: str | Path,
    *,
    settings: StoreSettings | None = None,
    with_index: bool = True,
    range_size: int | None = None,
) -> Rebuilt:
    """Make queues and index of the store at `path` anew, in the new directory `out`; all executors must see both."""
    return rebuild_store(
        path,
        out,
        runner=SparkRunner(spark),
        progress=Progress("rebuild"),
        settings=settings,
        with_index=with_index,
        range_size=range_size,
    )
