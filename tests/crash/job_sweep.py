"""A program that rebuilds or compacts a store and is stopped at one step after the other.

    python job_sweep.py <job> <kill or interrupt> <store> <folder> <first> <every>

A step is a change to files, or a sync. It is stopped before step `first`, then, with another copy of the store, before
step `first + every`, and so on, until a job comes to its end before that step. Each time it must have left nothing
that looks whole and is not; then another process does the job again, and checks what came of it. Prints how many steps
there were, or what was wrong.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from embermq.jobs.compact_in_place import compact_in_place
from embermq.jobs.in_place import rebuild_in_place
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.store.settings import StoreSettings
from tests.builders import a_store, read_all
from tests.crash.sweeping import INTERRUPTED, KILLED, Steps, live
from tests.unit.jobs.compacting import SMALL, Content, all_messages, compacted, newest_of, read_compacted
from tests.unit.jobs.rebuilding import SIZES, derived, rebuilt

CALLS = ("fsync", "fdatasync", "mkdir", "rename", "replace", "unlink", "rmdir", "truncate", "ftruncate", "pwrite")
SIGNS = {"kill": (signal.SIGKILL, KILLED), "interrupt": (signal.SIGINT, INTERRUPTED)}
OPTIONS: dict[str, Any] = {"range_size": 9_000, "settings": StoreSettings(**SIZES)}


class Facts(NamedTuple):
    """What the store holds, and what a compaction keeps of it."""

    derived: dict[str, Any]  # queues and index
    content: Any
    compacted: Content
    newest: Content

    @classmethod
    def of(cls, store: Path) -> Facts:
        queues = derived(store)
        with a_store(store) as opened:
            content = read_all(opened)
        return cls(queues, content, read_compacted(store), newest_of(all_messages(store)))


class Place(NamedTuple):
    """Where a job works."""

    store: Path
    out: Path


class Job(NamedTuple):
    """What is done, what must hold wherever it was stopped, and what must hold when it was done again."""

    work: Callable[[Place], object]
    check_stopped: Callable[[Facts, Place], None]
    check_done: Callable[[Facts, Place], None]


def compact_out(place: Place) -> None:
    if not place.out.exists():
        compacted(place.store, place.out, workers=1)


def compact(place: Place) -> None:
    runner, progress = LocalRunner(1), Progress("compact")
    compact_in_place(place.store, runner=runner, progress=progress, sizes=SMALL, **OPTIONS)


def rebuild_out(place: Place) -> None:
    if not place.out.exists():
        rebuilt(place.store, place.out, workers=1)


def rebuild(place: Place) -> None:
    rebuild_in_place(place.store, runner=LocalRunner(1), progress=Progress("rebuild"), **OPTIONS)


def check_compacted_out(facts: Facts, place: Place) -> None:
    assert read_compacted(place.out) == facts.newest, "other messages than a dict keeps"
    assert (place.out / "compaction" / "position-checkpoint").exists(), "nobody knows how far it goes"


def check_compacted(facts: Facts, place: Place) -> None:
    assert read_compacted(place.store) == facts.newest, "other messages than a dict keeps"


def check_each_queue(facts: Facts, place: Place) -> None:
    """Each queue is as it was, or as it becomes."""
    found = read_compacted(place.store)
    assert found.keys() == facts.newest.keys(), "a queue is missing"
    for queue, messages in found.items():
        assert messages in (facts.compacted[queue], facts.newest[queue]), f"queue {queue} is neither old nor new"


def check_rebuilt_out(facts: Facts, place: Place) -> None:
    assert derived(place.out) == facts.derived, "other queues and index than those of the store"


def check_rebuilt(facts: Facts, place: Place) -> None:
    assert derived(place.store) == facts.derived, "other queues and index than before"
    check_content(facts, place)


def check_content(facts: Facts, place: Place) -> None:
    with a_store(place.store) as store:
        assert read_all(store) == facts.content, "other messages than before"


def if_there(check: Callable[[Facts, Place], None]) -> Callable[[Facts, Place], None]:
    return lambda facts, place: check(facts, place) if place.out.exists() else None


JOBS = {
    "compact-out": Job(compact_out, if_there(check_compacted_out), check_compacted_out),
    "compact": Job(compact, check_each_queue, check_compacted),
    "rebuild-out": Job(rebuild_out, if_there(check_rebuilt_out), check_rebuilt_out),
    "rebuild": Job(rebuild, check_content, check_rebuilt),
}


class Sweep:
    """One job, stopped in one way, on copies of one store."""

    def __init__(self, job: Job, how: str, store: Path, folder: Path) -> None:
        self._job = job
        self._sign, self._stopped = SIGNS[how]
        self._store = store
        self._folder = folder
        self._facts = Facts.of(store)

    def stop_before(self, step: int) -> bool:
        """Stop the job before a step, and see what is left; whether it had so many."""
        work, copy = self._folder / "work", self._folder / "copy"
        place = Place(shutil.copytree(self._store, work / "store"), work / "out")
        ended = live(lambda: self._work_until(step, place))
        if ended not in (0, self._stopped):
            sys.exit(f"step {step}: ended with {ended}")
        shutil.copytree(work, copy)  # an opening ends what was begun; the job must be able to, too
        seen = live(lambda: self._job.check_stopped(self._facts, Place(copy / "store", copy / "out")))
        again = live(lambda: self._do_again(place))
        if seen or again:
            sys.exit(f"stopped before step {step}: not as it should be {'before' if seen else 'after'} a second run")
        shutil.rmtree(work)
        shutil.rmtree(copy)
        return ended != 0

    def _work_until(self, step: int, place: Place) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has those in the background ignore it
        Steps(step, self._sign).watch(os, *CALLS)
        self._job.work(place)

    def _do_again(self, place: Place) -> None:
        self._job.work(place)
        self._job.check_done(self._facts, place)


def main(name: str, how: str, store: Path, folder: Path, first: int, every: int) -> None:
    sweep, step = Sweep(JOBS[name], how, store, folder), first
    while sweep.stop_before(step):
        step += every
    print(step)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
