"""The brokers that a read is about: their names, what they hold, how far groups are, how reads are cut.

A broker is the files of one store, or one that runs (`live_brokers.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from embermq.errors import SettingsError
from embermq.format.tables import OffsetTable, decode_offsets, decode_topics
from embermq.model.topic import TopicConfig
from embermq.scan.planner import plan
from embermq.scan.searching import StoreSearch
from embermq.scan.splits import Split, StorePlace, stored_at
from embermq.scan.store_files import StoreFiles
from embermq.scan.store_name import TOPICS_FILE, find_name, read_table
from embermq.scan.store_state import Accepts, StoreState, everything, look
from embermq.scan.survey import QueueState
from embermq.scan.told_queues import ToldSearch
from embermq.scan.wanted import Wanted
from embermq_spark.options import ReadOptions

OFFSETS_FILE: Final = "config/consumerOffset.json"

GroupOffsets = Mapping[str, Mapping[int, int]]  # by topic and queue


class Search(Protocol):
    """Finds offsets in a broker as it was looked at. See `embermq.scan.searching`."""

    def find_offset(self, queue: QueueState, time_ms: int) -> int: ...

    def count_within(self, queue: QueueState, begin: int, size: int) -> int: ...


class Broker(Protocol):
    """Where messages are."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> StorePlace: ...

    @property
    def gives_log(self) -> bool:
        """Whether the log can be read as a whole: its state has files and an end then."""
        ...

    def look(self, accepts: Accepts = everything) -> StoreState:
        """What it holds now, with the queues of accepted topics. Raises StoreError or TransportError."""
        ...

    def knows_topic(self, topic: str) -> bool:
        """Whether there is such a topic, though it may have no messages yet."""
        ...

    def has_queue(self, topic: str, queue: int) -> bool:
        """Whether a topic has such a queue, though it may have no messages yet."""
        ...

    def written_queues(self, wanted: Wanted) -> list[tuple[str, int]]:
        """Topic and number of the queues that messages go to, of wanted topics, whether they have any or not."""
        ...

    def find_group(self, group: str, queues: Sequence[QueueState]) -> GroupOffsets | None:
        """How far a consumer group has read; None if it never read anything here."""
        ...

    def plan(self, wanted: Wanted, *, split_size: int | None = None, min_partitions: int = 1) -> list[Split]:
        """See `embermq.scan.planner`."""
        ...

    def search(self, state: StoreState) -> Search: ...


@dataclass(frozen=True)
class StoreBroker:
    """The store of one broker, whose files are read."""

    name: str
    place: StorePlace

    gives_log: ClassVar[bool] = True

    def look(self, accepts: Accepts = everything) -> StoreState:
        return look(self.place, accepts)

    def plan(self, wanted: Wanted, *, split_size: int | None = None, min_partitions: int = 1) -> list[Split]:
        return plan(self.place, wanted, split_size=split_size, min_partitions=min_partitions)

    def search(self, state: StoreState) -> Search:
        return ToldSearch(state.place, state.files, state.end) if state.is_told else StoreSearch(state)

    def knows_topic(self, topic: str) -> bool:
        return topic in self._read_topics()

    def has_queue(self, topic: str, queue: int) -> bool:
        config = self._read_topics().get(topic)
        return config is not None and queue < config.read_queues

    def written_queues(self, wanted: Wanted) -> list[tuple[str, int]]:
        configs = [config for config in self._read_topics().values() if wanted.accepts_topic(config.name)]
        return [(config.name, queue) for config in configs for queue in range(config.write_queues)]

    def _read_topics(self) -> Mapping[str, TopicConfig]:
        table = read_table(StoreFiles(self.place), TOPICS_FILE, decode_topics)
        return table.topics if table is not None else {}

    def find_group(self, group: str, queues: Sequence[QueueState]) -> GroupOffsets | None:
        """As the broker last saved it."""
        offsets = self.read_offsets()
        return {topic: queues for (topic, owner), queues in offsets.items() if owner == group} or None

    def read_offsets(self) -> Mapping[tuple[str, str], Mapping[int, int]]:
        """How far all groups have read, by topic and group, as the broker last saved it."""
        table: OffsetTable | None = read_table(StoreFiles(self.place), OFFSETS_FILE, decode_offsets)
        return table.offsets if table else {}


def find_brokers(options: ReadOptions, wanted: Wanted) -> list[Broker]:
    """The brokers that options name. Raises StoreMissing, TopicNotFound, ReadLost, or SettingsError."""
    if not options.all_paths:
        from embermq_spark.live_brokers import find_live_brokers

        return find_live_brokers(options, wanted)
    places = [stored_at(_absolute(path), options.storage_options) for path in options.all_paths]
    given = options.broker_name
    if given and len(given) != len(places):
        raise SettingsError(f"option brokerName has {len(given)} names for {len(places)} stores; give one for each")
    names = given or [find_name(place) for place in places]
    brokers: list[Broker] = [StoreBroker(name, place) for name, place in zip(names, places, strict=True)]
    for number, broker in enumerate(brokers):
        for other in brokers[:number]:
            if other.name == broker.name:
                raise SettingsError(
                    f"{other.place.name} and {broker.place.name} are both of broker {broker.name!r}; "
                    "give each a name with option brokerName, as in brokerName=broker-a,broker-b"
                )
    return brokers


def find_group(states: Mapping[Broker, StoreState], group: str) -> dict[str, GroupOffsets]:
    """How far a group is, by broker. Raises SettingsError if no broker knows it."""
    found = {broker.name: broker.find_group(group, state.queues) for broker, state in states.items()}
    if not any(found.values()):
        places = ", ".join(broker.place.name for broker in states)
        raise SettingsError(f"option group: {group!r} has read nothing yet, as far as {places} can tell")
    return {name: offsets or {} for name, offsets in found.items()}


def _absolute(path: str) -> str:
    """A path that means the same in the folders where executors work; `file:/data` is how Hadoop writes one."""
    if path.startswith("file:/") and not path.startswith("file://"):
        path = path.replace("file:", "file://", 1)
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))
