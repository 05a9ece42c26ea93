"""Opening a directory: what is read again, and where the log ends.

    the directory has                       begins reading at        and then
    ───────────────────────────────────────────────────────────────────────────────────────────
    our checkpoint, queues and index whole  the checkpoint           nothing, after a clean stop
    our checkpoint, a queue or index short  the log's first record   fills what is missing
    no checkpoint of ours, stopped cleanly  the end of the queues    as RocketMQ does
    no checkpoint of ours, crashed          the file that its times  as RocketMQ does
                                            vouch for
    a checkpoint that knows more than       the log's first record   trusts the log, not it
    the log
    a mark that filling was interrupted     the log's first record   fills everything again
    no log                                  0                        drops queues and index

From there, or from our checkpoint on if that lies behind it, every record is checked. The log
is cut behind the last whole one, queues and index forget what lies at or after the beginning,
and are filled again from the log. What a checkpoint has vouched for is never cut: damage there
costs the record it is in, and none behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from embermq.errors import CorruptRecord, OutOfRange
from embermq.files.durable import sync_directory
from embermq.files.file_chain import FileChain
from embermq.format.checkpoint import Checkpoint, Progress
from embermq.format.record import decode_record
from embermq.log.commit_log import CommitLog
from embermq.log.key_index import KeyIndex
from embermq.log.recovery import (
    BROKEN_FOLDER,
    Report,
    Scan,
    cut_log,
    find_next_record,
    first_matching_file,
    scan_log,
)
from embermq.store.checkpoint_file import CheckpointFile
from embermq.store.database_queues import DatabaseQueues
from embermq.store.dispatcher import Dispatcher
from embermq.store.layout import Layout
from embermq.store.queues import Queues, QueueStore

log = logging.getLogger(__name__)

CLOCK_SLACK_MS = 3_000  # RocketMQ's margin around the times in a checkpoint
_TAIL_CHECK = 4096
_INTERRUPTED = -1  # as the position of a checkpoint


class Begin(StrEnum):
    """Why reading begins where it does."""

    NEW = "the log is empty"
    CHECKPOINT = "checkpoint"
    QUEUES_SHORT = "queues lack entries that the checkpoint counted"
    INDEX_SHORT = "the index lacks entries that the checkpoint counted"
    INDEX_MISSING = "there is no index"
    QUEUES_MISSING = "there are no queues"
    CHECKPOINT_AHEAD = "the checkpoint lies behind the log's end"
    INTERRUPTED = "an earlier opening was interrupted while it filled queues and index"
    QUEUES_AHEAD = "queues point behind the log's end"
    QUEUE_END = "end of the queues, after a clean stop of RocketMQ"
    QUEUE_DATABASE = "what the database of queues knows"
    FILE_BY_TIME = "newest file that the checkpoint's times vouch for"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What opening did."""

    begin: int
    reason: Begin
    scan: Scan
    clean: bool  # the last user closed the store
    kept: tuple[str, ...]  # files with bytes that were cut
    skipped: tuple[int, ...] = ()  # positions of damaged records that are in no queue


# Without a checkpoint of ours nothing would tell that they did not come to their end.
_FILLS_EVERYTHING = (Begin.QUEUES_MISSING, Begin.INDEX_MISSING, Begin.QUEUES_AHEAD)


class _Plan(NamedTuple):
    """Where reading begins, and from which position on queues and index are made again."""

    begin: int
    reason: Begin
    queues_from: int
    index_from: int
    safe_end: int = 0  # up to here the checkpoint vouches for the log

    @property
    def scan_from(self) -> int:
        return max(self.begin, self.safe_end)


def recover(
    layout: Layout,
    commit_log: CommitLog,
    dispatcher: Dispatcher,
    checkpoint: CheckpointFile,
    *,
    verify_properties: bool,
    has_topic: Callable[[str], bool],
    report: Report,
) -> Recovered:
    """Bring log, queues and index into agreement. All of them are loaded; nothing was changed so far."""
    clean = not layout.abort_file.exists()
    queues, index, chain = dispatcher.queues, dispatcher.index, commit_log.chain
    plan = _make_plan(commit_log, queues, index, checkpoint, clean=clean)
    is_ours = checkpoint.progress is not None
    scan = scan_log(chain, plan.scan_from, verify_properties=verify_properties, is_ours=is_ours, report=report)
    if scan.damage:
        log.warning("log ends in damage position=%d reason=%s", scan.end, scan.damage.reason)
    kept = []
    if clean and not scan.records and not scan.damage and _is_zero_behind(commit_log, scan.end):
        chain.set_end(scan.end)
    else:
        kept = cut_log(chain, scan.end, layout.root / BROKEN_FOLDER)
        chain.sync(plan.scan_from)  # a killed process may have left it in memory only
    if plan.reason in _FILLS_EVERYTHING:
        expect_interruption(layout, checkpoint)
    queues.cut(min(plan.queues_from, scan.end))
    if not clean and plan.reason is not Begin.CHECKPOINT:
        queues.sync()  # a checkpoint of ours vouches for them; RocketMQ's does not
    if index is not None:
        index.cut(min(plan.index_from, scan.end))
    commit_log.last_store_time = max(scan.last_store_time, checkpoint.checkpoint.log_time)
    if plan.reason is Begin.QUEUES_SHORT:
        dispatcher.wants_topic = has_topic  # what is filled again must not bring a deleted topic back
    skipped = _dispatch(dispatcher, chain, plan.begin, scan.end, report)
    dispatcher.wants_topic = None
    queues.correct_min(chain.begin)
    log.info(
        "recovered begin=%d end=%d records=%d reason=%s clean=%s",
        plan.begin,
        scan.end,
        scan.records,
        plan.reason,
        clean,
    )
    return Recovered(plan.begin, plan.reason, scan, clean, tuple(str(path) for path in kept), tuple(skipped))


def expect_interruption(layout: Layout, checkpoint: CheckpointFile) -> None:
    """See to it that half-filled queues do not look whole to the next opening, should who fills them be killed."""
    _, _, _, master_flushed, confirmed = checkpoint.checkpoint
    # First the checkpoint: with the mark of a crash alone, the old one would still be believed.
    checkpoint.save(Checkpoint(0, 0, 0, master_flushed, confirmed), Progress(_INTERRUPTED, 0, 0, 0, 0, 0, 0, 0))
    layout.abort_file.touch()
    sync_directory(layout.root)


def _dispatch(dispatcher: Dispatcher, chain: FileChain, begin: int, end: int, report: Report) -> list[int]:
    """Fill queues and index with the records of [begin, end); returns where one was damaged and passed over."""
    skipped: list[int] = []
    dispatcher.position, limit = begin, end
    while dispatcher.position < end:
        try:
            has_moved = dispatcher.dispatch_slice(limit)
        except CorruptRecord as damage:
            limit, has_moved = damage.position, True  # first what lies before it
            log.error("damaged record passed over position=%d reason=%s", damage.position, damage.reason)
        if not has_moved and limit == end:
            break
        if not has_moved:
            skipped.append(limit)
            dispatcher.position = min(find_next_record(chain, limit + 1), end)
            limit = end
        report(dispatcher.position - begin, end - begin)
    return skipped


def _make_plan(
    commit_log: CommitLog, queues: QueueStore, index: KeyIndex | None, checkpoint: CheckpointFile, *, clean: bool
) -> _Plan:
    chain = commit_log.chain
    first, end = chain.begin, chain.end
    if not chain.files:
        return _Plan(0, Begin.NEW, 0, 0)
    if isinstance(queues, DatabaseQueues):
        return _plan_by_database(commit_log, queues, index, checkpoint.progress, clean=clean)
    if checkpoint.progress is not None:
        return _plan_by_progress(commit_log, queues, index, checkpoint.progress)
    if not clean:
        limit = min(checkpoint.checkpoint.log_time, checkpoint.checkpoint.queue_time) - CLOCK_SLACK_MS
        begin = first_matching_file(chain, lambda _, store_time: store_time <= limit)
        if not len(queues):
            return _Plan(first, Begin.QUEUES_MISSING, first, begin)
        if index is not None and not index.file_count:
            return _Plan(first, Begin.INDEX_MISSING, begin, first)
        return _Plan(begin, Begin.FILE_BY_TIME, begin, begin)
    if not _reaches(commit_log, queues):
        return _Plan(first, Begin.QUEUES_AHEAD, first, first)
    if not len(queues):
        return _Plan(first, Begin.QUEUES_MISSING, first, end)
    if index is not None and not index.file_count:
        return _Plan(first, Begin.INDEX_MISSING, end, first)
    begin = max(queues.end_position, first)
    return _Plan(begin, Begin.QUEUE_END, begin, begin)


def _plan_by_progress(commit_log: CommitLog, queues: Queues, index: KeyIndex | None, progress: Progress) -> _Plan:
    """Whether queues and index still hold all that they held at the checkpoint."""
    first, done = commit_log.chain.begin, progress.position
    if done == _INTERRUPTED:
        return _Plan(first, Begin.INTERRUPTED, first, first)
    if not first <= done <= commit_log.chain.end:
        return _Plan(first, Begin.CHECKPOINT_AHEAD, first, first)
    queues.cut(done)
    if index is not None:
        index.cut(done)
    if not _reaches(commit_log, queues):
        return _Plan(first, Begin.CHECKPOINT_AHEAD, first, first)
    is_index_whole = index is None or index.entry_count == progress.index_entries
    # More queues than counted are those that the cut has just emptied.
    if len(queues) < progress.queue_count or queues.entry_count != progress.entry_count:
        return _Plan(first, Begin.QUEUES_SHORT, done, done if is_index_whole else first, safe_end=done)
    if not is_index_whole:
        return _Plan(first, Begin.INDEX_SHORT, done, first, safe_end=done)
    return _Plan(done, Begin.CHECKPOINT, done, done)


def _plan_by_database(
    commit_log: CommitLog, queues: DatabaseQueues, index: KeyIndex | None, progress: Progress | None, *, clean: bool
) -> _Plan:
    """The database knows what it holds; but of what was written last, a crash may have left the bounds alone."""
    first, end, done = commit_log.chain.begin, commit_log.chain.end, queues.dispatched
    if not _reaches(commit_log, queues):
        return _Plan(first, Begin.QUEUES_AHEAD, done, first)
    is_ours = progress is not None and first <= progress.position <= end
    begin = max(min(done, end), first)
    if progress is not None and is_ours:
        begin = min(begin, progress.position)
    elif not clean:
        begin = first_matching_file(commit_log.chain, lambda position, _: position <= done)
    safe_end = progress.position if progress is not None and is_ours else 0
    if index is not None:
        index.cut(safe_end if is_ours else begin)
        counted = progress.index_entries if progress is not None and is_ours else None
        if not index.file_count if counted is None else index.entry_count != counted:
            return _Plan(first, Begin.INDEX_SHORT, done, first, safe_end=safe_end)
    return _Plan(begin, Begin.QUEUE_DATABASE, done, safe_end or begin, safe_end=safe_end)


def _reaches(commit_log: CommitLog, queues: QueueStore) -> bool:
    """Whether the log still holds the newest record that a queue points to, damaged or not."""
    last = queues.last_entry()
    if last is None or last.position < commit_log.chain.begin:
        return True
    try:
        data = commit_log.select(last.position, last.size)
        return decode_record(data, last.position, check_body=False).size == last.size
    except (CorruptRecord, OutOfRange):
        return False


def _is_zero_behind(commit_log: CommitLog, end: int) -> bool:
    """A look at the first bytes behind the end; after a clean stop no more is needed."""
    rest = commit_log.chain.select_rest(end)
    return rest is None or not any(rest[:_TAIL_CHECK])
