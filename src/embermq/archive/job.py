"""Brings an archive up to its store: once, or again and again.

    table's state ─→ next stretch of the log ─→ tasks write files ─→ one transaction: files, batch, how far ─→ mark

What a batch holds, and that it is done, is in the table alone. A job that was killed at any moment leaves files that no
table knows: the next one removes them. The mark tells the store what it need not keep any more.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from embermq.archive.errors import ArchiveMismatch
from embermq.archive.origin import check_first, check_store, check_wanted, find_gap, find_record
from embermq.archive.state import ArchiveState, Origin
from embermq.archive.tables import Table, find_format, open_table
from embermq.archive.target import OWN_FOLDER
from embermq.archive.writing import TaskResult, WriteTask, write_stretch
from embermq.errors import SettingsError
from embermq.files.lock import DirectoryLock
from embermq.jobs.errors import TargetExists
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.jobs.running import Runner
from embermq.scan.broker_files import open_broker_store
from embermq.scan.columns import ALL_COLUMNS
from embermq.scan.file_system import LocalFiles, open_file_system
from embermq.scan.log_plan import plan_stretch
from embermq.scan.searching import StoreSearch
from embermq.scan.splits import LogSplit, StorePlace
from embermq.scan.store_name import find_name
from embermq.scan.store_state import StoreState
from embermq.scan.survey import Survey
from embermq.scan.wanted import Wanted
from embermq.store.archive_marks import ArchiveMark, write_mark

log = logging.getLogger(__name__)

WRITING_FILE: Final = f"{OWN_FOLDER}/writing.json"  # there while a batch is written
BATCH_BYTES: Final = 512 << 20  # of the log, for each worker
SMALLEST_TASK: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What is archived, and how."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    system_topics: bool = False
    batch_bytes: int | None = None  # of the log, in one transaction; BATCH_BYTES for each worker unless given
    allow_loss: bool = False  # leave out damaged records, and what was deleted before it was archived
    broker: str | None = None  # its name; as the store tells unless given

    def __post_init__(self) -> None:
        if self.topics is not None and self.pattern is not None:
            raise SettingsError("topics are chosen by name or by pattern, not by both")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise SettingsError(f"pattern {self.pattern!r} is no regular expression: {error}") from error


@dataclass(slots=True)
class Archived:
    """What a job did."""

    batches: int = 0
    messages: int = 0
    files: int = 0
    bytes: int = 0  # of the log
    damaged: int = 0
    end: int = 0  # the log position that the archive is up to


class Archiver:
    """One archive and its store. All but `open` is for inside of its block, in which nobody else adds to it."""

    def __init__(
        self, place: StorePlace, table: Table, options: ArchiveOptions, runner: Runner, progress: Progress
    ) -> None:
        self._place = place
        self._table = table
        self._options = options
        self._runner = runner
        self._progress = progress
        self.done = Archived()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Have the archive for this job alone. Everything is checked before anything is changed.

        Raises ArchiveMismatch for an archive of another store or of other topics, TargetExists for what is no archive,
        NoRoom, DataLoss, StoreMissing.
        """
        self._check()
        with self._lock():
            state = self._check()  # once more: until now, others could change it
            if self._table.find_state() is None:
                self._table.create(state)
            self._table.recover()
            self._clean()
            if state.batch >= 0:
                self._mark(state)  # in case that the last job was killed before it did
            yield

    def find_absent(self) -> list[str]:
        """The topics that the archive is of, and that the store does not have: they may come, or be misspelt."""
        with closing(Survey(self._place)) as survey:
            return sorted(set(self._read_state().origin.topics or ()) - survey.topics) if survey.topics else []

    def run(self) -> Archived:
        """Archive all that is in the log now."""
        with closing(Survey(self._place)) as survey:
            goal = survey.end
        state = self._read_state()
        self._progress.begin("log", max(goal - state.end, 0))
        while self.step(goal):
            pass
        return self.done

    def follow(self, wait: Callable[[], bool]) -> Archived:
        """Archive all that comes, until `wait`, which is called when there is nothing more, says that it is over."""
        while True:
            self.run()
            if wait():
                return self.done

    def step(self, goal: int | None = None) -> bool:
        """Archive one batch, of the log before `goal`; False if there is nothing to do."""
        state = self._read_state()
        self.done.end = state.end
        with closing(Survey(self._place)) as survey:
            begin, goal = self._find_begin(survey, state), min(survey.end if goal is None else goal, survey.end)
            if begin >= goal:
                return False
            end = self._find_end(survey, begin, goal)
            self._table.target.check_room(end - begin)
            results = self._write(survey, state, begin, end)
            position = max(result.last_position for result in results)
            last = find_record(survey, position) if position >= 0 else state.last
        new = replace(state, batch=state.batch + 1, end=end, last=last)
        self._commit(new, results)
        self._count(results, end - begin, end)
        self._mark(new)
        return True

    def _commit(self, state: ArchiveState, results: list[TaskResult]) -> None:
        try:
            self._table.commit(state, [file for result in results for file in result.files])
        except BaseException:
            self._clean()  # which leaves what has become part of the table nevertheless
            raise
        self._table.target.delete(WRITING_FILE)

    def _check(self) -> ArchiveState:
        """The state of the archive, or the one that a new one begins with. Raises what speaks against it."""
        with closing(Survey(self._place)) as survey:
            state = self._check_with(survey)
            self._table.target.check_room(min(survey.end - state.end, self._batch_bytes))
            return state

    def _check_with(self, survey: Survey) -> ArchiveState:
        options, address = self._options, self._table.target.name
        topics = tuple(sorted(set(options.topics))) if options.topics is not None else None
        broker = options.broker or find_name(self._place)
        asked = Origin(uuid.uuid4().hex, broker, topics, options.pattern, options.system_topics)
        if self._table.target.is_file:
            raise TargetExists(address)
        state = self._table.find_state()
        if state is None:
            if not self._table.target.is_free:
                self._check_format()
                raise TargetExists(address)
            return ArchiveState(asked, batch=-1, begin=survey.begin, end=survey.begin)
        check_wanted(state.origin, asked, address)
        check_store(state, survey, address)
        return state

    def _check_format(self) -> None:
        """Raise ArchiveMismatch if there is an archive in another format."""
        found, asked = find_format(self._table.target), self._table.format
        if found not in (None, asked) and open_table(self._table.target.address).find_state() is not None:
            reason = f"its format is {found}, and {asked} was asked for; leave the format out"
            raise ArchiveMismatch(self._table.target.name, reason)

    def _read_state(self) -> ArchiveState:
        state = self._table.find_state()
        assert state is not None, "made when the job began"
        return state

    @property
    def _batch_bytes(self) -> int:
        return self._options.batch_bytes or BATCH_BYTES * self._runner.workers

    def _find_begin(self, survey: Survey, state: ArchiveState) -> int:
        """Where the next batch begins. Raises ArchiveMismatch, DataLoss, DamagedRecord."""
        check_store(state, survey, self._table.target.name)
        gap = find_gap(state, survey)
        if not self._options.allow_loss:
            if gap is not None:
                raise gap
            check_first(survey, state.end)
        return max(state.end, survey.begin)

    def _find_end(self, survey: Survey, begin: int, goal: int) -> int:
        """Where a batch ends: between two records, so that the next one need not look for its first."""
        if goal - begin <= self._batch_bytes:
            return goal
        state = StoreState(survey.place, survey.files, goal, (), survey.is_settled)
        return StoreSearch(state).find_stop(begin, size=self._batch_bytes).position

    def _write(self, survey: Survey, state: ArchiveState, begin: int, end: int) -> list[TaskResult]:
        """Have tasks write the files of one batch. If it fails, none is left."""
        batch, attempt = state.batch + 1, os.urandom(4).hex()
        origin = state.origin
        wanted = Wanted(
            topics=frozenset(origin.topics) if origin.topics is not None else None,
            pattern=origin.pattern,
            system_topics=origin.system_topics,
            columns=ALL_COLUMNS,
            by_topic=True,
            broker_name=origin.broker,
            skip_damaged=self._options.allow_loss,
        )
        workers = self._runner.workers
        is_far = self._table.target.local is None or self._place.is_broker
        if is_far and isinstance(self._runner, LocalRunner):
            workers = 1  # connections do not survive a fork, and one task needs none
        size = max(-(-(end - begin) // workers), SMALLEST_TASK)
        prefix = f"{self._table.prefix}b{batch:08}-{attempt}"
        tasks = [
            WriteTask(split, wanted, self._table.target, number, prefix, self._table.with_topic)
            for number, split in enumerate(plan_stretch(survey, begin, end, size, is_exact=True))
            if isinstance(split, LogSplit)
        ]
        self._table.target.write(WRITING_FILE, json.dumps({"batch": batch, "attempt": attempt}).encode())
        try:
            return self._runner.run(write_stretch, tasks, self._progress.add)
        except BaseException:
            self._clean()
            raise

    def _clean(self) -> None:
        """Remove what a batch left that did not come to its end."""
        target = self._table.target
        data = target.read(WRITING_FILE)
        if data is None:
            return
        attempt = f"-{json.loads(data)['attempt']}-"
        known = {file.path for file in self._table.find_files()}
        for info in target.list("", recursive=True):
            path = target.name_of(info)
            if attempt in path.rpartition("/")[2] and path not in known:
                target.delete(path)
        target.delete(WRITING_FILE)

    def _count(self, results: list[TaskResult], size: int, end: int) -> None:
        files = [file for result in results for file in result.files]
        self.done.batches += 1
        self.done.messages += sum(file.rows for file in files)
        self.done.files += len(files)
        self.done.bytes += size
        self.done.damaged += sum(result.damaged for result in results)
        self.done.end = end

    def _mark(self, state: ArchiveState) -> None:
        """Tell the store how far its log is archived."""
        mark = ArchiveMark(state.origin.archive, state.end, self._table.target.name)
        if self._place.is_broker:
            open_broker_store(self._place).mark_archived(*mark)
            return
        system = open_file_system(self._place)
        if isinstance(system, LocalFiles):
            try:
                write_mark(Path(system.root), mark)
            except OSError as error:
                log.warning("no mark in the store path=%s reason=%s", system.root, error)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """The right to change the archive; object stores have no locks."""
        target = self._table.target
        if target.local is None:
            yield
            return
        with DirectoryLock(target.local / OWN_FOLDER):
            yield
