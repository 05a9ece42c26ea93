"""`compare` as a function of a Spark session: what differs as a DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from embermq.jobs.compare import compare as compare_stores
from embermq.jobs.progress import Progress
from embermq_spark.jobs.running import SparkRunner

DIFFERENCE_SCHEMA: Final = "topic string, queue int, begin long, end long, kind string, detail string"


def compare(
    spark: SparkSession,
    first: str | Path,
    second: str | Path,
    *,
    range_size: int | None = None,
    staging: str | Path | None = None,
) -> DataFrame:
    """Compare two stores, which all executors must see, and the folder `staging`; a row for each difference.

    Without `staging`, fingerprints are kept in the folder for temporary files.
    """
    runner, progress = SparkRunner(spark), Progress("compare")
    found = compare_stores(first, second, runner=runner, progress=progress, range_size=range_size, staging=staging)
    rows = [(each.topic, each.queue, each.begin, each.end, str(each.kind), each.detail) for each in found.differences]
    return spark.createDataFrame(rows, DIFFERENCE_SCHEMA)
