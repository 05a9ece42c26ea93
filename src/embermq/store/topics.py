"""The topics of a store: config/topics.json, saved whole at every change."""

from __future__ import annotations

from pathlib import Path

from embermq.clock import Clock
from embermq.errors import TopicNotFound
from embermq.files.durable import read_with_backup, replace_file
from embermq.format.tables import TopicTable, decode_topics, encode_topics
from embermq.log.queue_kind import QueueKind
from embermq.model.topic import TopicConfig, check_topic, is_light_queue, is_system_topic
from embermq.model.version import DataVersion
from embermq.store.state import refusal_of


class Topics:
    """Topic settings by name. One thread changes them; any number may read."""

    def __init__(self, path: Path, *, clock: Clock, default_queues: int, auto_create: bool) -> None:
        self._path = path
        self._clock = clock
        self._default_queues = default_queues
        self._auto_create = auto_create
        table = read_with_backup(path, decode_topics)
        self._table = table if table is not None else TopicTable(DataVersion(0, 0, 0), {})

    @property
    def table(self) -> TopicTable:
        return self._table

    def names(self) -> list[str]:
        return sorted(self._table.topics)

    def find(self, name: str) -> TopicConfig | None:
        return self._table.topics.get(name)

    def for_put(self, name: str) -> TopicConfig:
        """The topic to put into; made if it is new and the settings allow it. Raises IllegalTopic or TopicNotFound."""
        found = self._table.topics.get(name)
        if found is not None:
            return found
        check_topic(name)
        if not self._auto_create:
            raise TopicNotFound(name)
        made = TopicConfig(name, read_queues=self._default_queues, write_queues=self._default_queues)
        self.save(made)
        return made

    def save(self, *configs: TopicConfig) -> None:
        """Make or change topics; on disk when this returns."""
        for config in configs:
            check_topic(config.name)
        self._replace({**self._table.topics, **{config.name: config for config in configs}})

    def delete(self, name: str) -> None:
        if name not in self._table.topics:
            raise TopicNotFound(name)
        self._replace({key: value for key, value in self._table.topics.items() if key != name})

    def is_known(self, name: str) -> bool:
        """Whether messages of this topic may be: it is in the table, or none of its business."""
        return name in self._table.topics or is_light_queue(name) or is_system_topic(name)

    def kind_of(self, name: str) -> QueueKind | None:
        """The kind of queue that messages of this topic are filed in; None if there is no such topic."""
        if is_light_queue(name):
            return QueueKind.SIMPLE
        found = self._table.topics.get(name)
        if found is None:
            return None
        return QueueKind.BATCH if found.queue_type == QueueKind.BATCH else QueueKind.SIMPLE

    def _replace(self, topics: dict[str, TopicConfig]) -> None:
        table = TopicTable(self._table.version.next(self._clock.now_ms()), topics)
        try:
            self._path.parent.mkdir(exist_ok=True)
            replace_file(self._path, encode_topics(table), keep_backup=True)
        except OSError as error:
            raise refusal_of(error, self._path) from error
        self._table = table
