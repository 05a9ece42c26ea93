"""Checks a whole store in parallel: what `store.verify` does, in tasks over ranges of the log.

    ranges ─→ verify_part ─┬→ records, damage, what lies between     put together in the order of the log;
                           ├→ queues: which entries are confirmed    what does not fit is looked at again in the end
                           └→ index: which entries its keys have     if they are not all, one after the other, the plain
    index files ─→ verify_part ─→ whether chains and slots are right check goes over the index and says what is wrong

The verdict is the same as that of `store.verify`, which also is what checks stores that are small, or have no kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from embermq.jobs.kernels_ready import load_for
from embermq.jobs.log_ranges import choose_size, find_used_end, plan_ranges
from embermq.jobs.places import make_absolute
from embermq.jobs.progress import Progress, Report
from embermq.jobs.running import Runner
from embermq.kernels import loading
from embermq.store.reader import StoreReader
from embermq.store.settings import StoreSettings
from embermq.store.verify import StoreCheck, Verdict, verify_store
from embermq.store.verify_damage import DamageList, Ranges
from embermq.store.verify_files import Views
from embermq.store.verify_index import IndexCheck
from embermq.store.verify_index_file import IndexOutline
from embermq.store.verify_log import LogState, LogWalk
from embermq.store.verify_queues import QueueState

if TYPE_CHECKING:
    from embermq.store.verify_index_proof import Span

_PAYS_AFTER: Final = 64 << 20  # bytes of the log


class VerifyTask(NamedTuple):
    """A range of the log or, where `chains_of` is given, a file of the index."""

    root: str
    log_paths: tuple[str, ...]
    begin: int = 0
    end: int = 0
    is_exact: bool = False  # a record, or what should be one, begins at `begin`
    index_files: tuple[IndexOutline, ...] | None = None  # None: they are not looked at
    chains_of: IndexOutline | None = None


class PartVerdict(NamedTuple):
    """What was found in a range."""

    log: LogState
    queues: list[QueueState]
    span: Span | None


def verify(
    path: str | Path,
    *,
    runner: Runner,
    progress: Progress,
    settings: StoreSettings | None = None,
    range_size: int | None = None,
) -> Verdict:
    """Check every record, queue entry and key of a store, whoever owns it. Nothing is changed. Raises StoreMissing."""
    root, settings = make_absolute(path, settings)
    with StoreReader(root, settings) as reader:
        check = StoreCheck(reader, lambda done, total: None)
        segments = check.log.find_readable()
        end = find_used_end(segments, check.log.file_size)
        size = sum(max(min(segment.size, end - segment.start), 0) for segment in segments)
        if range_size is None and (size < _PAYS_AFTER or not load_for(size)):
            return _verify_plainly(reader, progress, size)
        job = _Job(check, runner, progress, tuple(settings.log_paths))
        parts = plan_ranges(segments, check.log.file_size, end, size=range_size or choose_size(size, runner.workers))
        return job.run([(part.begin, part.end) for part in parts])


def _verify_plainly(reader: StoreReader, progress: Progress, size: int) -> Verdict:
    progress.begin("log", size)
    return verify_store(reader, _Counted(progress.add))


class _Counted:
    """Tells how much more is done, of what is told as how much is done."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        self._report(done - self._done)
        self._done = done


class _Job:
    """One check of a store."""

    def __init__(self, check: StoreCheck, runner: Runner, progress: Progress, log_paths: tuple[str, ...]) -> None:
        self._check = check
        self._runner = runner
        self._progress = progress
        self._log_paths = log_paths

    def run(self, ranges: Sequence[tuple[int, int]]) -> Verdict:
        check = self._check
        outline = self._outline_index()
        tasks = [self._task(begin, end, outline) for begin, end in ranges]
        more = [VerifyTask(str(check.root), self._log_paths, chains_of=file) for file in outline or ()]
        self._progress.begin("log", sum(end - begin for begin, end in ranges))
        # A file of the index takes longer than a range of the log, so these come first.
        results = self._runner.run(verify_part, [*more, *tasks], self._progress.add)
        parts = self._chain(tasks, [result for result in results if isinstance(result, PartVerdict)])
        for part in parts:
            check.log.absorb(part.log)
            check.queues.absorb(part.queues)
        total = sum(file.entry_count for file in outline or ())
        if outline is not None and all(results[: len(more)]) and _covers([part.span for part in parts], total):
            index = check.open_index()
            index.accept()
        else:
            index = self._explain_index()
        return check.finish(index)

    def _outline_index(self) -> tuple[IndexOutline, ...] | None:
        """What a proof of the index begins with; None if there is none."""
        if not (self._check.judgement.is_settled and loading.is_loaded()):
            return None
        outline = self._check.open_index(DamageList(self._check.root)).outline()
        return None if outline is None else tuple(outline)

    def _task(self, begin: int, end: int, outline: tuple[IndexOutline, ...] | None) -> VerifyTask:
        return VerifyTask(str(self._check.root), self._log_paths, begin, end, index_files=outline)

    def _chain(self, tasks: Sequence[VerifyTask], parts: Sequence[PartVerdict]) -> list[PartVerdict]:
        """The parts in their order, each beginning where the one before it ended; if it does not, it is done again.

        It does not where damage lies on the border of two ranges, or a body looks like records.
        """
        chained: list[PartVerdict] = []
        after = 0
        for task, found in zip(tasks, parts, strict=True):
            part = found
            if task.begin == self._check.log.segment_of(task.begin).start:
                after = task.begin
            if after < task.end and part.log.first != after:
                part = _check_range(task._replace(begin=after, is_exact=True), lambda size: None)
            if after < task.end:
                chained.append(part)
                after = part.log.after
        return chained

    def _explain_index(self) -> IndexCheck:
        """Go over the log once more, for the index alone."""
        check = self._check
        index, segments = check.open_index(), check.log.find_readable()
        aside = DamageList(check.root)  # what is wrong with the log is known already
        counted = _Counted(self._progress.add)
        walk = LogWalk(segments, check.log.file_size, Views(aside), aside, counted, Ranges())
        self._progress.begin("index", sum(segment.size for segment in segments))
        for batch in walk.iter_batches():
            index.check(batch)
        return index


def _covers(spans: Sequence[Span | None], total: int) -> bool:
    """Whether entries follow each other from the first to the last."""
    if not total:
        return all(span is not None for span in spans)
    known = [span for span in spans if span is not None]
    if len(known) < len(spans) or not known or known[0].begin != 0 or known[-1].end != total:
        return False
    return all(earlier.end == later.begin for earlier, later in pairwise(known))


def verify_part(task: VerifyTask, report: Report) -> PartVerdict | bool:
    """Check a range of the log, or whether the chains of an index file are right."""
    if task.chains_of is None:
        return _check_range(task, report)
    from embermq.store.verify_index_proof import is_chained  # not there without numba

    view = Views(DamageList(Path(task.root))).of(Path(task.chains_of.path))
    return is_chained(task.chains_of, view)


def _check_range(task: VerifyTask, report: Report) -> PartVerdict:
    with StoreReader(task.root, StoreSettings(log_paths=task.log_paths)) as reader:
        check = StoreCheck(reader, _Counted(report), begin=task.begin)
        spans = None
        if task.index_files is not None and loading.is_loaded():
            from embermq.store.verify_index_proof import SpanCheck  # not there without numba

            spans = SpanCheck(task.index_files, check.views, task.begin)
        for batch in check.log.iter_range(task.begin, task.end, is_exact=task.is_exact):
            check.queues.check(batch)
            if spans is not None:
                spans.check(batch)
        return PartVerdict(check.log.state(), check.queues.state(), spans.span if spans is not None else None)
