"""How far Spark is with work that is cut by Spark itself, such as a report: tasks of the stage that is under way."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.core.status import StatusTracker
from pyspark.sql import SparkSession

from embermq.jobs.progress import Progress
from embermq_spark.sessions import is_remote


def stage_watch(spark: SparkSession, progress: Progress) -> Callable[[], None]:
    """A function that tells `progress` how far it is, whenever it is called. Servers that are far away do not tell."""
    return (lambda: None) if is_remote(spark) else _StageWatch(spark.sparkContext.statusTracker(), progress)


class _StageWatch:
    """The stage that was seen last, and how many of its tasks were done."""

    def __init__(self, tracker: StatusTracker, progress: Progress) -> None:
        self._tracker = tracker
        self._progress = progress
        self._stage = -1
        self._done = 0

    def __call__(self) -> None:
        found = [info for stage in self._tracker.getActiveStageIds() if (info := self._tracker.getStageInfo(stage))]
        largest = max(found, key=lambda info: info.numTasks, default=None)
        if largest is None:
            return
        if largest.stageId != self._stage:
            self._stage, self._done = largest.stageId, 0
            self._progress.begin(f"stage {largest.stageId}", largest.numTasks, unit="tasks")
        self._progress.add(largest.numCompletedTasks - self._done)
        self._done = largest.numCompletedTasks
