"""Queues all of whose records have expired: the log does not know their next offset any more, only their files do.

Without them, the next message of such a queue would begin at offset 0 again, and groups would miss it. So what they
have is copied, if it can be read and leads to nothing that the log still has.
"""

from __future__ import annotations

import shutil
from collections.abc import Container
from pathlib import Path

from embermq.errors import StoreError
from embermq.jobs.rebuild_source import Source
from embermq.jobs.rebuild_tasks import QueueKey
from embermq.log.batch_queue import BatchQueue
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.queue_kind import QueueKind
from embermq.store.queues import BATCH_FOLDER, EXTENDED_FOLDER, SIMPLE_FOLDER
from embermq.store.verify_queues import iter_folders


def keep_expired(source: Source, target: Path, made: Container[QueueKey]) -> dict[QueueKey, int]:
    """Copy the queues that were not made because the log has nothing of them; their next offsets."""
    kept: dict[QueueKey, int] = {}
    for kind, name in ((QueueKind.SIMPLE, SIMPLE_FOLDER), (QueueKind.BATCH, BATCH_FOLDER)):
        for topic, queue, folder in iter_folders(source.root / name):
            is_batch = topic in source.kinds.batch
            if (topic, queue) in made or not source.kinds.is_wanted(topic) or is_batch != (kind is QueueKind.BATCH):
                continue
            end = _find_end(source, kind, topic, queue, folder)
            if end:
                shutil.copytree(folder, target / name / topic / str(queue))
                extended = source.root / EXTENDED_FOLDER / topic / str(queue)
                if extended.is_dir():
                    shutil.copytree(extended, target / EXTENDED_FOLDER / topic / str(queue))
                kept[topic, queue] = end
    return kept


def _find_end(source: Source, kind: QueueKind, topic: str, queue: int, folder: Path) -> int:
    """The next offset of a queue that leads to nothing in the log; 0 if it has none, or cannot be read."""
    sizes = source.layout.queue_sizes
    opened = (
        BatchQueue(folder, topic, queue, file_size=sizes.batch, read_only=True)
        if kind is QueueKind.BATCH
        else ConsumeQueue(folder, topic, queue, file_size=sizes.simple, read_only=True)
    )
    try:
        opened.load()
        return opened.max_offset if opened.end_position <= source.begin else 0
    except (StoreError, OSError):
        return 0
    finally:
        opened.close()
