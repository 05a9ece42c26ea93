"""The jobs of `embermq.jobs` and `embermq.archive` as functions of a Spark session."""

from __future__ import annotations

from embermq_spark.jobs.archive import archive, history, replay
from embermq_spark.jobs.compact import compact
from embermq_spark.jobs.compare import compare
from embermq_spark.jobs.rebuild import rebuild
from embermq_spark.jobs.verify import verify

__all__ = ["archive", "compact", "compare", "history", "rebuild", "replay", "verify"]
