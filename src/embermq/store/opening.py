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
    no log                                  0                        drops queues and index

From there every record is checked. The log is cut behind the last whole one, queues and
index forget what lies at or after the beginning, and are filled again from the log.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum

from embermq.errors import CorruptRecord, OutOfRange
from embermq.format.checkpoint import Progress
from embermq.log.commit_log import CommitLog
from embermq.log.key_index import KeyIndex
from embermq.log.recovery import BROKEN_FOLDER, Report, Scan, cut_log, first_matching_file, scan_log
from embermq.store.checkpoint_file import CheckpointFile
from embermq.store.dispatcher import Dispatcher
from embermq.store.layout import Layout
from embermq.store.queues import Queues

log = logging.getLogger(__name__)

CLOCK_SLACK_MS = 3_000  # RocketMQ's margin around the times in a checkpoint
_TAIL_CHECK = 4096


class Begin(StrEnum):
    """Why reading begins where it does."""

    NEW = "the log is empty"
    CHECKPOINT = "checkpoint"
    QUEUES_SHORT = "queues lack entries that the checkpoint counted"
    INDEX_SHORT = "the index lacks entries that the checkpoint counted"
    INDEX_MISSING = "there is no index"
    QUEUES_MISSING = "there are no queues"
    CHECKPOINT_AHEAD = "the checkpoint lies behind the log's end"
    QUEUES_AHEAD = "queues point behind the log's end"
    QUEUE_END = "end of the queues, after a clean stop of RocketMQ"
    FILE_BY_TIME = "newest file that the checkpoint's times vouch for"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What opening did."""

    begin: int
    reason: Begin
    scan: Scan
    clean: bool  # the last user closed the store
    kept: tuple[str, ...]  # files with bytes that were cut


def recover(
    layout: Layout,
    commit_log: CommitLog,
    queues: Queues,
    index: KeyIndex | None,
    dispatcher: Dispatcher,
    checkpoint: CheckpointFile,
    *,
    verify_properties: bool,
    report: Report,
) -> Recovered:
    """Bring log, queues and index into agreement. All of them are loaded; nothing was changed so far."""
    clean = not layout.abort_file.exists()
    begin, reason = _choose_begin(commit_log, queues, index, checkpoint, clean=clean)
    chain = commit_log.chain
    scan = scan_log(chain, begin, verify_properties=verify_properties, report=report)
    if scan.damage:
        log.warning("log ends in damage position=%d reason=%s", scan.end, scan.damage.reason)
    kept = []
    if clean and not scan.records and not scan.damage and _is_zero_behind(commit_log, scan.end):
        chain.set_end(scan.end)
    else:
        kept = cut_log(chain, scan.end, layout.root / BROKEN_FOLDER)
        chain.sync(begin)  # a killed process may have left it in memory only
    queues.cut(begin)
    if index is not None:
        index.cut(begin)
    commit_log.last_store_time = max(scan.last_store_time, checkpoint.checkpoint.log_time)
    dispatcher.position = begin
    while dispatcher.position < scan.end and dispatcher.dispatch_slice(scan.end):
        report(dispatcher.position - begin, scan.end - begin)
    queues.correct_min(commit_log.chain.begin)
    log.info("recovered begin=%d end=%d records=%d reason=%s clean=%s", begin, scan.end, scan.records, reason, clean)
    return Recovered(begin, reason, scan, clean, tuple(str(path) for path in kept))


def _choose_begin(
    commit_log: CommitLog, queues: Queues, index: KeyIndex | None, checkpoint: CheckpointFile, *, clean: bool
) -> tuple[int, Begin]:
    chain = commit_log.chain
    if not chain.files:
        return 0, Begin.NEW
    progress = checkpoint.progress
    if progress is not None:
        return _begin_by_progress(commit_log, queues, index, progress)
    if not len(queues):
        return chain.begin, Begin.QUEUES_MISSING
    if index is not None and not index.file_count:
        return chain.begin, Begin.INDEX_MISSING
    if not clean:
        limit = min(checkpoint.checkpoint.log_time, checkpoint.checkpoint.queue_time) - CLOCK_SLACK_MS
        return first_matching_file(chain, lambda _, store_time: store_time <= limit), Begin.FILE_BY_TIME
    if _reaches(commit_log, queues):
        return max(queues.end_position, chain.begin), Begin.QUEUE_END
    return chain.begin, Begin.QUEUES_AHEAD


def _begin_by_progress(
    commit_log: CommitLog, queues: Queues, index: KeyIndex | None, progress: Progress
) -> tuple[int, Begin]:
    """Whether queues and index still hold all that they held at the checkpoint."""
    first = commit_log.chain.begin
    if not first <= progress.position <= commit_log.chain.end:
        return first, Begin.CHECKPOINT_AHEAD
    queues.cut(progress.position)
    if index is not None:
        index.cut(progress.position)
    # More queues than counted are those that the cut has just emptied.
    if len(queues) < progress.queue_count or queues.entry_count != progress.entry_count:
        return first, Begin.QUEUES_SHORT
    if index is not None and index.entry_count != progress.index_entries:
        return first, Begin.INDEX_SHORT
    if not _reaches(commit_log, queues):
        return first, Begin.CHECKPOINT_AHEAD
    return progress.position, Begin.CHECKPOINT


def _reaches(commit_log: CommitLog, queues: Queues) -> bool:
    """Whether the log still holds the newest record that a queue points to."""
    last = queues.last_entry()
    if last is None or last.position < commit_log.chain.begin:
        return True
    try:
        return commit_log.read(last.position).size == last.size
    except (CorruptRecord, OutOfRange):
        return False


def _is_zero_behind(commit_log: CommitLog, end: int) -> bool:
    """A look at the first bytes behind the end; after a clean stop no more is needed."""
    rest = commit_log.chain.select_rest(end)
    return rest is None or not any(rest[:_TAIL_CHECK])
