"""Where the tasks of a job run: in processes of this machine, or on Spark. A job does not know which.

    job ── plan ──→ tasks ──→ runner ──→ work(task, report) ──→ results, in the order of the tasks ──→ job

`work` is a function at the top of a module, a task and a result are small and plain (they are pickled); what is
large goes to files. A task may be run twice, or on another machine, after it failed half-way: it must write the
same bytes to the same place. `report` is told the bytes as they are done.

A job ends in one of three ways, and each leaves no process behind: with its result; with the first task's error, the
others being stopped; or by Ctrl-C. What it makes becomes visible at its end only: see `targets`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeAlias, TypeVar

from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Report
from embermq.jobs.spark_modules import import_spark_module

T = TypeVar("T")
R = TypeVar("R")

Work: TypeAlias = Callable[[T, Report], R]


class Runner(Protocol):
    """Runs tasks."""

    @property
    def workers(self) -> int:
        """How many tasks run at once: work is cut into a few times as many."""

    def run(self, work: Work[T, R], tasks: Sequence[T], report: Report) -> list[R]:
        """Do the work of all tasks; returns their results in the order of the tasks.

        `report` is called in this thread, with the bytes done since the last call. Raises the error of a task that
        failed: an EmberError or OSError as it was, TaskFailed for others, WorkerLost if its process is gone.
        """


@contextmanager
def open_runner(spark: str | None = None, *, workers: int | None = None) -> Iterator[Runner]:
    """A runner for `--spark MASTER` or, without it, `workers` processes, one a core unless given.

    `spark` is any master that Spark knows, or `sc://host:port` for a Spark Connect server. Raises SettingsError without
    PySpark and for a master that is none, MasterUnreachable if nobody answers there.
    """
    if spark is None:
        yield LocalRunner(workers)
        return
    running = import_spark_module("jobs.running", what="--spark needs")
    with running.open_spark_runner(spark) as runner:
        yield runner
