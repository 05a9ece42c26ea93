"""Where the log of a store ends that nobody opens: found as opening it would, but nothing is cut."""

from __future__ import annotations

from typing import Final

from embermq.files.file_chain import FileChain
from embermq.log.recovery import first_matching_file, scan_log
from embermq.store.checkpoint_file import CheckpointFile
from embermq.store.layout import Layout

_CLOCK_SLACK_MS: Final = 3_000  # as RocketMQ has it, for a checkpoint that tells only times


def open_chain(layout: Layout) -> FileChain:
    """The log's files, for reading. Raises what a FileChain does for files that are not as they should be."""
    chain = FileChain(
        layout.log_paths, layout.log_file_size, read_only=True, read_only_paths=layout.read_only_log_paths
    )
    chain.load()
    return chain


def find_end(chain: FileChain, layout: Layout) -> int:
    """The position behind the last whole record.

    What a checkpoint vouches for is believed. From there on every record is checked, body and all: after a crash the
    first that is damaged ends the log.
    """
    checkpoint = CheckpointFile(layout.checkpoint_file)
    progress, is_clean = checkpoint.progress, not layout.abort_file.exists()
    if progress is not None and chain.begin <= progress.position <= chain.end:
        begin = progress.position
    elif is_clean:
        begin = _find_last_used(chain)
    else:
        limit = min(checkpoint.checkpoint.log_time, checkpoint.checkpoint.queue_time) - _CLOCK_SLACK_MS
        begin = first_matching_file(chain, lambda _, store_time: store_time <= limit)
    return scan_log(chain, begin, is_ours=progress is not None).end


def _find_last_used(chain: FileChain) -> int:
    """Where the last file begins that has anything in it."""
    for file in reversed(chain.files):
        if any(file.view[:4]):
            return file.start
    return chain.begin
