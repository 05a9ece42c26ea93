"""How far consumers are: config/consumerOffset.json, saved every few seconds.

committed   the next offset of each queue of a topic, by group; on disk
pending     offsets that an operator set, and that the group's next pull is told; in memory.
            Meanwhile its own commits count for nothing, because they are of before.
pulled      where the last pull of each queue ended; in memory, for those who watch
light       the next offset of groups that are named as light queues, of which there may be a million: one number
            for each topic, whatever the queue. All is in config/lmqConsumerOffset.json then
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from embermq.clock import Clock
from embermq.errors import StoreUnwritable
from embermq.files.durable import read_with_backup
from embermq.format.tables import OffsetTable, decode_offsets, encode_light_offsets, encode_offsets
from embermq.model.topic import is_light_queue
from embermq.model.version import DataVersion
from embermq.store.table_file import save_table

log = logging.getLogger(__name__)

OFFSETS_FILE = "consumerOffset.json"
LIGHT_OFFSETS_FILE = "lmqConsumerOffset.json"
_VERSION_STEP: Final = 500  # commits that make a new version, as in RocketMQ

_Table = dict[tuple[str, str], dict[int, int]]  # by (topic, group), then queue
_NONE: Final[Mapping[int, int]] = {}


class ConsumerOffsets:
    """The offsets of all groups. One thread uses them; `save` and `table` may be called from any."""

    def __init__(self, path: Path, *, clock: Clock, light_path: Path | None = None, counts_saves: bool = False) -> None:
        """With a `light_path` all offsets are kept there; those at `path` are only what it begins with.

        With `counts_saves` each save makes a new version: where RocketMQ has offsets in a RocksDB, it takes ours over
        only if they are newer.
        """
        self._counts_saves = counts_saves
        self._has_light = light_path is not None
        self._path = light_path or path
        self._clock = clock
        table = read_with_backup(self._path, decode_offsets) or read_with_backup(path, decode_offsets)
        path = self._path
        table = table or OffsetTable(DataVersion(), {})
        self.saved_position = table.log_position  # everything popped before it was counted in; None: nobody knows
        self.saved_ms = int(path.stat().st_mtime * 1000) if path.exists() else 0
        self.position: Callable[[], int | None] = lambda: None  # the same of this moment
        self._version = table.version
        self._committed: _Table = {key: dict(queues) for key, queues in table.offsets.items()}
        self._light = dict(table.light_offsets)
        self._pending: _Table = {}
        self._pulled: _Table = {}
        self._commits = 0
        self._is_changed = False
        self._saving = threading.Lock()

    def find(self, topic: str, group: str, queue: int) -> int | None:
        """The next offset of the group, the one it was reset to first; None if it never said any."""
        key = (topic, group)
        if self._pending:
            pending = self._pending.get(key, _NONE).get(queue)
            if pending is not None:
                return pending
        if self._is_light(group):
            return self._light.get(key)
        queues = self._committed.get(key)
        return None if queues is None else queues.get(queue)

    def commit(self, topic: str, group: str, queue: int, offset: int) -> bool:
        """Note the next offset, which may be smaller than the last; tells whether it counts.

        It does not if it is negative, which some clients send of queues they never read, or
        while the group has not heard of a reset yet.
        """
        key = (topic, group)
        if offset < 0 or (self._pending and queue in self._pending.get(key, _NONE)):
            return False
        self._set(key, queue, offset)
        return True

    def reset(self, topic: str, group: str, queue: int, offset: int) -> None:
        """Have the group go on at `offset`; its next pull is told."""
        key = (topic, group)
        self._set(key, queue, offset)
        self._pending.setdefault(key, {})[queue] = offset
        self._pulled.get(key, {}).pop(queue, None)

    @property
    def has_resets(self) -> bool:
        """Whether any group was reset and has not been told yet."""
        return bool(self._pending)

    def is_reset(self, topic: str, group: str, queue: int) -> bool:
        """Whether the group was reset and no pull has been told yet."""
        return queue in self._pending.get((topic, group), _NONE)

    def take_reset(self, topic: str, group: str, queue: int) -> int | None:
        """The offset that the group was reset to, for the pull that tells it; only once."""
        if not self._pending:
            return None
        key = (topic, group)
        queues = self._pending.get(key)
        if queues is None:
            return None
        offset = queues.pop(queue, None)
        if not queues:
            del self._pending[key]
        return offset

    def note_pull(self, topic: str, group: str, queue: int, next_offset: int) -> None:
        """Remember where a pull ended; not of a light queue, whose reader is the only one."""
        if self._has_light and is_light_queue(topic):
            return
        queues = self._pulled.get((topic, group))
        if queues is None:
            queues = self._pulled[topic, group] = {}
        queues[queue] = next_offset

    def pull_offset(self, topic: str, group: str, queue: int) -> int:
        """Where the last pull ended; never before what is committed."""
        return max(self._pulled.get((topic, group), _NONE).get(queue, 0), self.find(topic, group, queue) or 0)

    def queues(self, topic: str, group: str) -> Mapping[int, int]:
        """The committed offsets of a group in all queues of a topic that it ever read."""
        if self._is_light(group):
            offset = self._light.get((topic, group))
            return _NONE if offset is None else {0: offset}
        return self._committed.get((topic, group), _NONE)

    def topics_of(self, group: str) -> set[str]:
        """The topics that a group has offsets of."""
        return {topic for topic, name in self._of(group) if name == group}

    def groups_of(self, topic: str) -> set[str]:
        """The groups that have offsets of a topic."""
        return {group for table in (self._committed, self._light) for name, group in table if name == topic}

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give a group the offsets that another one has of a topic."""
        for queue, offset in list(self.queues(topic, source).items()):
            self._set((topic, target), queue, offset)

    def forget_group(self, group: str) -> None:
        self._forget([key for table in self._tables() for key in table if key[1] == group])

    def forget_topic(self, topic: str) -> None:
        self._forget([key for table in self._tables() for key in table if key[0] == topic])

    def table(self) -> OffsetTable:
        """What is committed at this moment, as a copy."""
        position = self.position()  # first: what is committed from now on is more than it promises
        # Copying one map is a single step of the interpreter: the thread of the commits cannot get in between.
        committed = {key: queues.copy() for key, queues in self._committed.copy().items()}
        return OffsetTable(self._version, committed, self._light.copy(), position)

    def save(self) -> None:
        """Bring the offsets to disk if they changed since the last time. Raises StoreUnwritable."""
        with self._saving:
            if not self._is_changed:
                return
            self._is_changed = False  # first, so that a commit from now on counts for the next time
            if self._counts_saves:
                self._version = self._version.next(self._clock.now_ms())
            encode = encode_light_offsets if self._has_light else encode_offsets
            try:
                save_table(self._path, encode(self.table()))
            except StoreUnwritable:
                self._is_changed = True
                raise

    def _is_light(self, group: str) -> bool:
        return self._has_light and is_light_queue(group)

    def _of(self, group: str) -> Mapping[tuple[str, str], object]:
        return self._light if self._is_light(group) else self._committed

    def _set(self, key: tuple[str, str], queue: int, offset: int) -> None:
        if self._is_light(key[1]):
            self._light[key] = offset
            self._is_changed = True  # and the version stays, as in RocketMQ
            return
        queues = self._committed.get(key)
        if queues is None:
            queues = self._committed[key] = {}
        before = queues.get(queue)
        if before == offset:
            return
        if before is not None and offset < before:
            log.info("offset goes back topic=%s group=%s queue=%d from=%d to=%d", *key, queue, before, offset)
        queues[queue] = offset
        self._count_change()

    def _forget(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            for table in self._tables():
                table.pop(key, None)
        if keys:
            self._count_change()

    def _count_change(self) -> None:
        self._is_changed = True
        self._commits += 1
        if self._commits % _VERSION_STEP == 0:
            self._version = self._version.next(self._clock.now_ms())

    def _tables(self) -> tuple[dict[tuple[str, str], Any], ...]:
        return self._committed, self._pending, self._pulled, self._light
