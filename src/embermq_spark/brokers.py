"""The brokers that a read is about, each the files of one store: their names, what they hold, how far groups are.

Everything that readers ask of a place where messages are is asked here and of `embermq.scan`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from embermq.errors import CorruptRecord, SettingsError
from embermq.format.tables import OffsetTable, decode_offsets, decode_topics
from embermq.scan.splits import StorePlace
from embermq.scan.store_files import StoreFiles
from embermq.scan.store_state import StoreState, look
from embermq_spark.options import ReadOptions

T = TypeVar("T")

TOPICS_FILE: Final = "config/topics.json"
OFFSETS_FILE: Final = "config/consumerOffset.json"
_NAMED_AFTER_BROKER: Final = "rmq_sys_SYNC_BROKER_MEMBER_"  # every broker has a topic of this name and its own

GroupOffsets = Mapping[str, Mapping[int, int]]  # by topic and queue


@dataclass(frozen=True, slots=True)
class Broker:
    """The store of one broker."""

    name: str
    place: StorePlace

    def look(self) -> StoreState:
        """What it holds now. Raises StoreError."""
        return look(self.place)

    def find_group(self, group: str) -> GroupOffsets | None:
        """How far a consumer group has read, as the broker last saved it; None if it never read anything here."""
        table: OffsetTable | None = _read_table(StoreFiles(self.place), OFFSETS_FILE, decode_offsets)
        offsets = table.offsets if table else {}
        return {topic: queues for (topic, owner), queues in offsets.items() if owner == group} or None


def find_brokers(options: ReadOptions) -> list[Broker]:
    """The brokers whose stores options name. Raises StoreMissing, or SettingsError if two have the same name."""
    places = [StorePlace(_absolute(path)) for path in options.all_paths]
    given = options.broker_name
    if given and len(given) != len(places):
        raise SettingsError(f"option brokerName has {len(given)} names for {len(places)} stores; give one for each")
    names = given or [_find_name(place) for place in places]
    brokers = [Broker(name, place) for name, place in zip(names, places, strict=True)]
    for number, broker in enumerate(brokers):
        for other in brokers[:number]:
            if other.name == broker.name:
                raise SettingsError(
                    f"{other.place.address} and {broker.place.address} are both of broker {broker.name!r}; "
                    "give each a name with option brokerName, as in brokerName=broker-a,broker-b"
                )
    return brokers


def find_group(brokers: list[Broker], group: str) -> dict[str, GroupOffsets]:
    """How far a group is, by broker. Raises SettingsError if no broker knows it."""
    found = {broker.name: broker.find_group(group) for broker in brokers}
    if not any(found.values()):
        places = ", ".join(broker.place.address for broker in brokers)
        raise SettingsError(f"option group: {group!r} has read nothing yet, as far as {OFFSETS_FILE} of {places} tells")
    return {name: offsets or {} for name, offsets in found.items()}


def _absolute(path: str) -> str:
    """A path that means the same in the folders where executors work."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def _find_name(place: StorePlace) -> str:
    """What the broker called itself; of a store that no broker had, the name of its folder."""
    table = _read_table(StoreFiles(place), TOPICS_FILE, decode_topics)
    for topic in table.topics if table else ():
        if topic.startswith(_NAMED_AFTER_BROKER):
            return topic.removeprefix(_NAMED_AFTER_BROKER)
    return place.address.rstrip("/").rpartition("/")[2] or place.address


def _read_table(store: StoreFiles, path: str, decode: Callable[[bytes], T]) -> T | None:
    """A small table of the store, or its backup if it cannot be read; None if neither can."""
    for name in (path, f"{path}.bak"):
        try:
            return decode(store.read(name))
        except (OSError, CorruptRecord):
            continue
    return None
