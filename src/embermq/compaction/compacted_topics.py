"""All compacted queues of a store: filled from the log, read, and compacted in the background.

Whatever a queue lacks is taken from the log, by the offsets of the topic's ordinary queue: after a crash, or when a
topic is found whose messages were never taken. What the log has lost meanwhile leaves a gap.
"""

from __future__ import annotations

import logging
import shutil
from typing import Final

from embermq.compaction.compacted_queue import Compacted, CompactedQueue, Pace, Sizes
from embermq.errors import CorruptRecord, OutOfRange
from embermq.files.durable import make_directory, read_with_backup, replace_file
from embermq.format.compacted import (
    COMPACTED_LOG_FOLDER,
    COMPACTED_QUEUE_FOLDER,
    COMPACTION_FOLDER,
    POSITIONS_FILE,
    decode_compacted_positions,
    encode_compacted_positions,
    pair_folders,
    position_key,
)
from embermq.format.record import scan_record
from embermq.model.properties import KEYS, find_property
from embermq.model.topic import TopicConfig
from embermq.store.gathering import FoundBytes
from embermq.store.reading import Accept, Wanted
from embermq.store.store import Store

log = logging.getLogger(__name__)

COMPACTION: Final = "COMPACTION"
TAKEN_AT_ONCE: Final = 256
_KEYS: Final = KEYS.encode()


def is_compacted(topic: TopicConfig | None) -> bool:
    return topic is not None and topic.cleanup_policy == COMPACTION


class CompactedTopics:
    """The compacted queues by topic and number. Used in one thread; only `compact` runs in another."""

    def __init__(self, store: Store, sizes: Sizes, *, most_keys: int) -> None:
        self._store = store
        self._sizes = sizes
        self._most_keys = most_keys
        self._folder = store.path / COMPACTION_FOLDER
        self._positions_path = self._folder / POSITIONS_FILE
        self._positions = read_with_backup(self._positions_path, decode_compacted_positions) or {}
        self._queues: dict[tuple[str, int], CompactedQueue] = {}
        self.kept = self.dropped = 0  # messages, by compactions since the start

    def open(self) -> None:
        """Open all queues there are, and take what they lack."""
        for topic in self._store.topics():
            if is_compacted(self._store.find_topic(topic)):
                for queue in self._store.queues(topic):
                    self.take(topic, queue)

    def read(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        limit: int,
        max_bytes: int,
        accept: Accept | None = None,
        wanted: Wanted | None = None,
    ) -> FoundBytes:
        """What `Store.read_bytes` gives, of the messages that are kept."""
        self.take(topic, queue)
        return self._queue(topic, queue).read(offset, limit=limit, max_bytes=max_bytes, accept=accept, wanted=wanted)

    def offsets(self, topic: str, queue: int) -> tuple[int, int]:
        """The first offset that is kept and the next to be given."""
        self.take(topic, queue)
        found = self._queue(topic, queue)
        return found.min_offset, max(found.max_offset, self._store.offsets(topic, queue=queue)[1])

    def take(self, topic: str, queue: int) -> None:
        """Take from the log what the queue lacks. A full disk stops it for now."""
        compacted = self._queue(topic, queue)
        low, high = self._store.offsets(topic, queue=queue)
        offset = max(compacted.max_offset, low)
        try:
            while offset < high:
                entries = self._store.entries(topic, queue=queue, offset=offset, limit=TAKEN_AT_ONCE)
                if not entries:
                    break
                for entry in entries:
                    self._take_one(compacted, entry.position, entry.size)
                offset += len(entries)
        except OSError as error:
            log.error("compacted queue waits topic=%s queue=%d reason=%s", topic, queue, error)

    def _take_one(self, compacted: CompactedQueue, position: int, size: int) -> None:
        try:
            data = self._store.select_record(position, size)
            found = scan_record(data, 0, position, check_body=False)
        except (OutOfRange, CorruptRecord) as error:
            log.error("message lost to compaction position=%d reason=%s", position, error)
            return
        if found is None or not find_property(found.properties, _KEYS):
            log.warning("message without keys is not kept position=%d", position)
        elif found.offset >= compacted.max_offset:
            compacted.append(data)

    def due(self) -> list[tuple[str, int]]:
        """The queues that compaction would make smaller."""
        return [
            place for place, each in self._queues.items() if each.is_due(self._positions.get(position_key(*place), -1))
        ]

    def compact(self, topic: str, queue: int, pace: Pace) -> Compacted:
        """Write what is kept of a queue beside it; for a thread. `use` puts it in place."""
        return self._queues[topic, queue].compact(most_keys=self._most_keys, pace=pace)

    def use(self, topic: str, queue: int, compacted: Compacted) -> None:
        """Put what `compact` made in place. Raises OSError."""
        self._queues[topic, queue].use(compacted)
        self._positions[position_key(topic, queue)] = compacted.position
        replace_file(self._positions_path, encode_compacted_positions(self._positions), keep_backup=True)
        self.kept += compacted.kept
        self.dropped += compacted.dropped
        log.info("compacted topic=%s queue=%d kept=%d dropped=%d", topic, queue, compacted.kept, compacted.dropped)

    def flush(self) -> None:
        """Bring what was taken onto the disk. Raises SyncFailed."""
        for each in list(self._queues.values()):
            each.flush()

    def forget(self, topic: str) -> None:
        """Delete the files of a topic that was deleted."""
        for place in [place for place in self._queues if place[0] == topic]:
            self._queues.pop(place).close()
            self._positions.pop(position_key(*place), None)
        for folder in (COMPACTED_LOG_FOLDER, COMPACTED_QUEUE_FOLDER):
            shutil.rmtree(self._folder / folder / topic, ignore_errors=True)

    def close(self) -> None:
        for each in self._queues.values():
            each.close()
        self._queues = {}

    def _queue(self, topic: str, queue: int) -> CompactedQueue:
        found = self._queues.get((topic, queue))
        if found is None:
            make_directory(self._folder)
            found = CompactedQueue(*pair_folders(self._folder, topic, queue), self._sizes)
            found.load()
            self._queues[topic, queue] = found
        return found
