"""Runs tasks in processes of this machine.

Processes are forked when tasks are known, so that they begin with all that is loaded, kernels too, and nothing but the
number of a task travels to them. Each gets the next task when it is done with one.

Ctrl-C is for the process that waits for them: it stops the others. They die with it, whatever it dies of.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

from embermq.jobs.errors import WorkerLost
from embermq.jobs.failures import Failure
from embermq.jobs.progress import Report

if TYPE_CHECKING:
    from embermq.jobs.running import Work

T = TypeVar("T")
R = TypeVar("R")

_REPORT_EVERY_S: Final = 0.1
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG, see prctl(2)


class LocalRunner:
    """Runs tasks in `workers` processes, one a core unless given. A single task or worker needs no process."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))

    def run(self, work: Work[T, R], tasks: Sequence[T], report: Report) -> list[R]:
        """See `running.Runner`."""
        if min(self.workers, len(tasks)) <= 1:
            return [work(task, report) for task in tasks]
        crew = _Crew(work, tasks, report)
        try:
            crew.start(min(self.workers, len(tasks)))
            return crew.wait()
        finally:
            crew.stop()


class _Crew:
    """The processes of one run, and what they have done."""

    def __init__(self, work: Work[Any, Any], tasks: Sequence[Any], report: Report) -> None:
        self._work = work
        self._tasks = tasks
        self._report = report
        self._results: dict[int, Any] = {}
        self._next = 0
        self._workers: dict[Connection, multiprocessing.process.BaseProcess] = {}

    def start(self, count: int) -> None:
        context = multiprocessing.get_context("fork")
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, self._work, self._tasks, os.getpid()), daemon=True)
            process.start()
            there.close()
            self._workers[here] = process
            self._give(here)

    def wait(self) -> list[Any]:
        """Wait for all results."""
        while len(self._results) < len(self._tasks):
            for ready in wait(list(self._workers), timeout=_REPORT_EVERY_S):
                assert isinstance(ready, Connection)
                self._take(ready)
            self._report(0)
        return [self._results[number] for number in range(len(self._tasks))]

    def stop(self) -> None:
        """End all processes, in the middle of a task if need be."""
        for process in self._workers.values():
            process.kill()
        for here, process in self._workers.items():
            process.join()
            here.close()

    def _take(self, here: Connection) -> None:
        try:
            message = here.recv()
        except (EOFError, ConnectionResetError) as error:
            process = self._workers[here]
            process.join()
            raise WorkerLost(process.pid or 0, process.exitcode or 0) from error
        match message:
            case int(size):
                self._report(size)
            case Failure() as failure:
                raise failure.to_error()
            case (number, result):
                self._results[number] = result
                self._give(here)

    def _give(self, here: Connection) -> None:
        if self._next < len(self._tasks):
            here.send(self._next)
            self._next += 1


def _serve(there: Connection, work: Work[Any, Any], tasks: Sequence[Any], parent: int) -> None:
    """What a process does: tasks by their numbers, until it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we could say so
        return
    while True:
        number = there.recv()
        report = _ThriftyReport(there)
        try:
            result = work(tasks[number], report)
        except Exception as error:
            there.send(Failure.of(error))
        else:
            report.send()
            there.send((number, result))


class _ThriftyReport:
    """Tells how much is done, but not too often."""

    def __init__(self, there: Connection) -> None:
        self._there = there
        self._size = 0
        self._next_at = time.monotonic() + _REPORT_EVERY_S

    def __call__(self, size: int) -> None:
        self._size += size
        if time.monotonic() >= self._next_at:
            self.send()

    def send(self) -> None:
        self._there.send(self._size)
        self._size = 0
        self._next_at = time.monotonic() + _REPORT_EVERY_S
