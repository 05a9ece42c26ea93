"""`compact` as a function of a Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from embermq.compaction.compacted_queue import Sizes
from embermq.jobs.compact import Compacted
from embermq.jobs.compact import compact as compact_store
from embermq.jobs.progress import Progress
from embermq.store.settings import StoreSettings
from embermq_spark.jobs.running import SparkRunner


def compact(
    spark: SparkSession,
    path: str | Path,
    out: str | Path,
    *,
    topics: Sequence[str] | None = None,
    settings: StoreSettings | None = None,
    sizes: Sizes | None = None,
    range_size: int | None = None,
) -> Compacted:
    """Compact topics of the store at `path`, into the new directory `out`; all executors must see both."""
    return compact_store(
        path,
        out,
        runner=SparkRunner(spark),
        progress=Progress("compact"),
        topics=topics,
        settings=settings,
        sizes=sizes,
        range_size=range_size,
    )
