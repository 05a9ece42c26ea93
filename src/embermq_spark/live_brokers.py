"""Brokers that run. EmberMQ's give an administrator the bytes of their files; all others are pulled from.

Both answer what `brokers.Broker` asks, so that readers need not know which they have.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from embermq.client.queue_reading import PULL_COUNT, BrokerQueues
from embermq.client.reader import READER_GROUP
from embermq.client.store_reading import BrokerStore
from embermq.errors import DataLoss, NotPermitted, NotSupported, Refused
from embermq.scan.broker_files import broker_line
from embermq.scan.pull_plan import plan_pulls
from embermq.scan.splits import BROKER_SCHEME, PULL_SCHEME, QueuePart, Split, StorePlace
from embermq.scan.store_state import Accepts, StoreState, everything
from embermq.scan.survey import QueueState
from embermq.scan.tally import Tally
from embermq.scan.wanted import Wanted
from embermq_spark.brokers import Broker, GroupOffsets, Search, StoreBroker
from embermq_spark.cluster import Cluster
from embermq_spark.options import ReadOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SharingBroker(StoreBroker):
    """A broker whose files are read through it."""

    cluster: Cluster

    def knows_topic(self, topic: str) -> bool:
        return True  # name servers told of it, or no broker would have been found

    def has_queue(self, topic: str, queue: int) -> bool:
        return self.cluster.has_queue(topic, self.name, queue)

    def written_queues(self, wanted: Wanted) -> list[tuple[str, int]]:
        return self.cluster.written_queues(self.name, wanted)

    def find_group(self, group: str, queues: Sequence[QueueState]) -> GroupOffsets | None:
        return _find_progress(BrokerQueues(broker_line(self.place), self.name), group, queues)


@dataclass(frozen=True, eq=False, slots=True)
class PulledBroker:
    """A broker that gives messages and nothing else."""

    name: str
    place: StorePlace
    cluster: Cluster
    wanted: Wanted  # whose topics are looked at
    group: str

    gives_log = False

    def look(self, accepts: Accepts = everything) -> StoreState:
        """The queues of all wanted topics. Raises ReadLost, or what the broker refuses with."""
        named = list(filter(accepts, self.cluster.find_topics(self.wanted)))
        queues = [
            (topic, queue.queue)
            for topic in named
            if (route := self.cluster.routes.find_route(topic)) is not None
            for queue in route.read_queues
            if queue.broker == self.name
        ]
        limits = self._queues.find_limits(queues)
        states = sorted(QueueState(*queue, *each) for queue, each in zip(queues, limits, strict=True))
        return StoreState(self.place, (), 0, tuple(states), is_settled=True)

    def knows_topic(self, topic: str) -> bool:
        return True  # as above

    def has_queue(self, topic: str, queue: int) -> bool:
        return self.cluster.has_queue(topic, self.name, queue)

    def written_queues(self, wanted: Wanted) -> list[tuple[str, int]]:
        return self.cluster.written_queues(self.name, wanted)

    def find_group(self, group: str, queues: Sequence[QueueState]) -> GroupOffsets | None:
        return _find_progress(self._queues, group, queues)

    def plan(self, wanted: Wanted, *, split_size: int | None = None, min_partitions: int = 1) -> list[Split]:
        """Splits that together hold all wanted messages. Raises DataLoss for offsets that are not there."""
        parts = self._in_time(self._parts_of(wanted), wanted)
        return plan_pulls(self.place, self.name, parts, group=self.group, min_partitions=min_partitions)

    def search(self, state: StoreState) -> Search:
        return _PullSearch(self._queues, self.group)

    @property
    def _queues(self) -> BrokerQueues:
        return BrokerQueues(broker_line(self.place), self.name)

    def _parts_of(self, wanted: Wanted) -> list[QueuePart]:
        if wanted.ranges is None:
            return [
                QueuePart(*queue)
                for queue in self.look().queues
                if wanted.accepts_topic(queue.topic) and queue.begin < queue.end
            ]
        limits = self._queues.find_limits([(topic, queue) for topic, queue, _, _ in wanted.ranges])
        parts = []
        for (topic, queue, begin, end), (low, high) in zip(wanted.ranges, limits, strict=True):
            first, last = low if begin is None else begin, high if end is None else end
            part = QueuePart(topic, queue, max(first, low), min(last, high))
            if (part.begin, part.end) != (first, last) and first < last:
                place = f"{self.place.name}, topic {topic!r}, queue {queue}"
                loss = DataLoss(place, what=f"offsets [{first}, {last})", reason=f"it has [{low}, {high})")
                count = last - first - max(part.end - part.begin, 0)
                Tally().add_loss(loss, count, fail=wanted.fail_on_loss)
            if part.begin < part.end:
                parts.append(part)
        return parts

    def _in_time(self, parts: Sequence[QueuePart], wanted: Wanted) -> list[QueuePart]:
        """The parts that can hold wanted times, and one message more on each side: brokers may be one off.

        What is too much is left out when it is read.
        """
        queues = [(part.topic, part.queue) for part in parts]
        begins: list[int] = [part.begin for part in parts]
        ends: list[int] = [part.end for part in parts]
        if wanted.begin_time_ms is not None:
            begins = [offset - 1 for offset in self._queues.find_times(queues, wanted.begin_time_ms)]
        if wanted.end_time_ms is not None:
            ends = [offset + 1 for offset in self._queues.find_times(queues, wanted.end_time_ms)]
        cut = [
            part._replace(begin=max(part.begin, begin), end=min(part.end, end))
            for part, begin, end in zip(parts, begins, ends, strict=True)
        ]
        return [part for part in cut if part.begin < part.end]


class _PullSearch:
    """Searches in queues by asking their broker."""

    def __init__(self, queues: BrokerQueues, group: str) -> None:
        self._queues = queues
        self._group = group

    def find_offset(self, queue: QueueState, time_ms: int) -> int:
        (offset,) = self._queues.find_times([(queue.topic, queue.queue)], time_ms)
        return min(max(offset, queue.begin), queue.end)

    def count_within(self, queue: QueueState, begin: int, size: int) -> int:
        """About so many: the first messages tell how large they are."""
        end = min(begin + PULL_COUNT, queue.end)
        pulls = self._queues.iter_range(queue.topic, queue.queue, begin, end, group=self._group)
        sample = sum(len(pulled.records) for pulled in pulls)
        average = max(sample // max(end - begin, 1), 1)
        return max(min(size // average, queue.end - begin), 1)


def find_live_brokers(options: ReadOptions, wanted: Wanted) -> list[Broker]:
    """The brokers of a cluster that have what is wanted. Raises TopicNotFound or ReadLost."""
    cluster = Cluster.of(options)
    found = cluster.find_brokers(wanted.topics or ())
    return [_make_broker(cluster, name, address, options, wanted) for name, address in sorted(found.items())]


def _make_broker(cluster: Cluster, name: str, address: str, options: ReadOptions, wanted: Wanted) -> Broker:
    place = cluster.place_of(address, BROKER_SCHEME)
    try:
        BrokerStore(broker_line(place)).look(["-"])  # whether it answers at all: there is no such topic
        return SharingBroker(name, place, cluster)
    except (NotSupported, NotPermitted, Refused) as error:
        log.info("messages are pulled broker=%s address=%s reason=%s", name, address, error)
        place = cluster.place_of(address, PULL_SCHEME)
        return PulledBroker(name, place, cluster, wanted, options.group or READER_GROUP)


def _find_progress(queues: BrokerQueues, group: str, known: Sequence[QueueState]) -> GroupOffsets | None:
    found: dict[str, dict[int, int]] = {}
    asked = [(queue.topic, queue.queue) for queue in known]
    for (topic, queue), offset in zip(asked, queues.find_progress(group, asked), strict=True):
        if offset is not None:
            found.setdefault(topic, {})[queue] = offset
    return found or None
