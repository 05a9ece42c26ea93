"""The jobs of `embermq.jobs` and `embermq.archive` as functions of a Spark session."""

from __future__ import annotations

from embermq_spark.jobs.archive import archive, history, replay

__all__ = ["archive", "history", "replay"]
