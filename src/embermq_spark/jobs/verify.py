"""`verify` as a function of a Spark session: the damage as a DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from embermq.jobs.progress import Progress
from embermq.jobs.verify import verify as verify_store
from embermq.store.settings import StoreSettings
from embermq_spark.jobs.running import SparkRunner

DAMAGE_SCHEMA: Final = (
    "file string, position long, kind string, detail string, "
    "hides array<struct<topic: string, queue: int, begin: long, end: long>>"
)


def verify(
    spark: SparkSession, path: str | Path, *, settings: StoreSettings | None = None, range_size: int | None = None
) -> DataFrame:
    """Check the store at `path`, which all executors must see; a row for each damage, none if it is sound."""
    verdict = verify_store(
        path, runner=SparkRunner(spark), progress=Progress("verify"), settings=settings, range_size=range_size
    )
    rows = [
        (each.file, each.position, str(each.kind), each.detail, [tuple(hidden) for hidden in each.hides])
        for each in verdict.damage
    ]
    return spark.createDataFrame(rows, DAMAGE_SCHEMA)
