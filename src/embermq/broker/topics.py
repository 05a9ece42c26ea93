"""The topics of a broker: found, made on the fly, changed, and told to the name servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from embermq.broker.settings import BrokerSettings
from embermq.clock import Clock, SystemClock
from embermq.errors import TopicNotFound
from embermq.format.tables import TopicTable
from embermq.model.flags import Permission
from embermq.model.pop import revive_topic_of
from embermq.model.topic import (
    BENCHMARK_TOPIC,
    HALF_DONE_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TEMPLATE_TOPIC,
    TIMER_TOPIC,
    TRACE_TOPIC,
    TopicConfig,
    check_topic,
    find_nearest,
    is_light_queue,
)
from embermq.store.queue_mappings import MAPPINGS_FILE, QueueMappings
from embermq.store.store import Store

READ_WRITE = Permission.READ | Permission.WRITE
ALL = READ_WRITE | Permission.INHERIT
BENCHMARK_QUEUES = 1024
CLUSTER_QUEUES = 16
SCHEDULE_QUEUES = 18
REPLY_SUFFIX = "_REPLY_TOPIC"

OnChange = Callable[[Sequence[TopicConfig]], None]


class BrokerTopics:
    """Topics by name, on top of the store's table."""

    def __init__(self, store: Store, settings: BrokerSettings, *, clock: Clock | None = None) -> None:
        self.listeners: list[OnChange] = []  # told of topics that were made or changed
        self.deletion_listeners: list[Callable[[str], None]] = []
        self.mappings = QueueMappings(store.path / "config" / MAPPINGS_FILE, clock=clock or SystemClock())
        self._store = store
        self.settings = settings  # replaced when one is changed at run time

    def make_system_topics(self) -> None:
        """Make those that every broker has, as far as they are missing."""
        missing = [config for config in _system_topics(self.settings) if self.find(config.name) is None]
        if missing:
            self.save(*missing)

    def find(self, name: str) -> TopicConfig | None:
        found = self._store.find_topic(name)
        if found is None and is_light_queue(name) and self._store.settings.light_queues:
            return _light_topic(name)
        return found

    def read(self, name: str) -> TopicConfig:
        """The topic of this name. Raises TopicNotFound, which names the nearest one there is."""
        found = self.find(name)
        if found is None:
            raise self.not_found(name)
        return found

    def not_found(self, name: str) -> TopicNotFound:
        return TopicNotFound(name, find_nearest(name, self._store.topics()))

    def for_send(self, name: str, *, template: str, queues: int) -> TopicConfig:
        """The topic to send to, made after its template if it is new. Raises IllegalTopic or TopicNotFound."""
        found = self.find(name)
        if found is not None:
            return found
        check_topic(name)
        model = self._store.find_topic(template)
        if not self.settings.auto_create_topics or model is None or not model.permission & Permission.INHERIT:
            raise self.not_found(name)
        count = max(1, min(queues, model.write_queues))
        made = TopicConfig(
            name,
            read_queues=count,
            write_queues=count,
            permission=model.permission & ~Permission.INHERIT,
            filter_type=model.filter_type,
        )
        self.save(made)
        return made

    def ensure(self, name: str, *, queues: int = 1, order: bool = False, sys_flag: int = 0) -> TopicConfig:
        """The topic of this name, made for reading and writing if it is new; for retries and dead letters."""
        found = self._store.find_topic(name)
        if found is None:
            found = TopicConfig(
                name, read_queues=queues, write_queues=queues, permission=READ_WRITE, order=order, sys_flag=sys_flag
            )
            self.save(found)
        return found

    def save(self, *configs: TopicConfig) -> None:
        """Make or change topics: on disk, and told to the name servers."""
        self._store.save_topic(*configs)
        for listener in self.listeners:
            listener(configs)

    def delete(self, name: str) -> None:
        self._store.delete_topic(name)
        self.mappings.forget(name)
        for listener in self.deletion_listeners:
            listener(name)

    def note_order_topics(self, names: Iterable[str]) -> None:
        """Mark topics as ordered that an administrator declared so in a name server."""
        found = [config for config in map(self.find, names) if config is not None and not config.order]
        if found:
            self.save(*(replace(config, order=True) for config in found))

    def is_static(self, name: str) -> bool:
        """Whether the queues of a topic are parts of static ones."""
        return name in self.mappings.all()

    def table(self) -> TopicTable:
        return self._store.topic_table()

    def system_names(self) -> set[str]:
        """The topics that belong to the broker itself, whatever their names look like."""
        return {config.name for config in _system_topics(self.settings)}


@lru_cache(maxsize=4096)
def _light_topic(name: str) -> TopicConfig:
    """A light queue as a topic: there is always one, and no table holds it."""
    return TopicConfig(name, read_queues=1, write_queues=1, permission=READ_WRITE)


def _system_topics(settings: BrokerSettings) -> list[TopicConfig]:
    def topic(name: str, queues: int = 1, permission: int = READ_WRITE) -> TopicConfig:
        return TopicConfig(name, read_queues=queues, write_queues=queues, permission=permission)

    topics = [
        topic(SELF_TEST_TOPIC),
        topic(BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        topic(settings.cluster, CLUSTER_QUEUES, ALL),
        topic(settings.name, 1, ALL),
        topic(OFFSET_MOVED_TOPIC),
        topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES),
        topic(settings.cluster + REPLY_SUFFIX),
        topic(f"rmq_sys_SYNC_BROKER_MEMBER_{settings.name}", 1, Permission.INHERIT),
        topic(HALF_TOPIC),
        topic(HALF_DONE_TOPIC),
        topic(revive_topic_of(settings.cluster), settings.revive_queues),
    ]
    if settings.auto_create_topics:
        topics.append(topic(TEMPLATE_TOPIC, settings.template_queues, ALL))
    if settings.timers:
        topics.append(topic(TIMER_TOPIC))
    if settings.trace_topic:
        topics.append(topic(TRACE_TOPIC))
    return topics
