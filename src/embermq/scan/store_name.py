"""What the broker of a store calls itself, as its files tell.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from embermq.errors import CorruptRecord
from embermq.format.tables import decode_topics
from embermq.scan.splits import StorePlace
from embermq.scan.store_files import StoreFiles

T = TypeVar("T")

TOPICS_FILE: Final = "config/topics.json"
_NAMED_AFTER_BROKER: Final = "rmq_sys_SYNC_BROKER_MEMBER_"  # every broker has a topic of this name and its own


def find_name(place: StorePlace) -> str:
    """What the broker called itself; of a store that no broker had, the name of its folder."""
    if place.is_broker:
        from embermq.scan.broker_files import open_broker_store

        return open_broker_store(place).look().broker_name
    table = read_table(StoreFiles(place), TOPICS_FILE, decode_topics)
    for topic in table.topics if table else ():
        if topic.startswith(_NAMED_AFTER_BROKER):
            return topic.removeprefix(_NAMED_AFTER_BROKER)
    return place.name.rstrip("/").rpartition("/")[2] or place.name


def read_table(store: StoreFiles, path: str, decode: Callable[[bytes], T]) -> T | None:
    """A small table of the store, or its backup if it cannot be read; None if neither can."""
    for name in (path, f"{path}.bak"):
        try:
            return decode(store.read(name))
        except (OSError, CorruptRecord):
            continue
    return None
