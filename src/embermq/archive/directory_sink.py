"""Replays into a store of its own, a new directory. Messages keep all they had but their place and store time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from embermq.archive.replay import StoredRow
from embermq.files.lock import LOCK_NAME
from embermq.format.host import encode_host
from embermq.format.record import Draft
from embermq.jobs.targets import building
from embermq.model.flags import SysFlag
from embermq.model.message import Host
from embermq.model.properties import INNER_BASE, INNER_NUM, PROPERTY_CRC, format_properties
from embermq.model.topic import TopicConfig
from embermq.store.settings import StoreSettings
from embermq.store.store import Store, open_store

_NOT_KEPT: Final = frozenset({INNER_NUM, INNER_BASE, PROPERTY_CRC})  # of the record that it was in
_LEVEL: Final = 5


@contextmanager
def open_directory_sink(target: Path, *, needs: int = 0, **settings: Any) -> Iterator[DirectorySink]:
    """A sink whose store, with these settings and `needs` bytes, becomes `target` when the block is left.

    Raises TargetExists, NoRoom.
    """
    given = {"durability": "async", "prepare_files": False, **settings}
    # What is not on disk yet when the store is closed, `building` brings there.
    with building(target, needs=needs + StoreSettings.make(given).reserve_bytes) as folder:
        with open_store(folder, **given) as store:
            yield DirectorySink(store)
        (folder / LOCK_NAME).unlink()


class DirectorySink:
    """See `replay.Sink`. Without a name: a directory is made at once, or not at all."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[str, int] = {}  # that topics have

    def find_position(self) -> int | None:
        return None

    def write(self, messages: list[StoredRow], position: int) -> None:
        for message in messages:
            if message.queue >= self._queues.get(message.topic, 0):
                self._add_queue(message.topic, message.queue)
        self._store.put_drafts(lambda: [draft_of(message) for message in messages])

    def _add_queue(self, topic: str, queue: int) -> None:
        count = self._queues[topic] = queue + 1
        self._store.save_topic(TopicConfig(topic, read_queues=count, write_queues=count))


def draft_of(message: StoredRow) -> Draft:
    """A message as it is stored again."""
    kept = {name: value for name, value in message.properties.items() if name not in _NOT_KEPT}
    address, _, port = message.born_host.rpartition(":")
    body, sys_flag = message.body, message.sys_flag
    if message.was_packed:
        body, sys_flag = zlib.compress(body, _LEVEL), sys_flag | SysFlag.COMPRESSED | SysFlag.ZLIB
    return Draft(
        message.topic.encode(),
        message.queue,
        body,
        format_properties(kept),
        flag=message.flag,
        sys_flag=sys_flag,
        born_time=message.born_ms,
        born_host=encode_host(Host(address.strip("[]"), int(port))),
        reconsume_times=message.reconsume_times,
    )
