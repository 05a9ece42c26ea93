"""The consumer groups of a store: config/subscriptionGroup.json, saved whole at every change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from embermq.clock import Clock
from embermq.errors import GroupNotFound
from embermq.files.durable import read_with_backup
from embermq.format.tables import GroupTable, decode_groups, encode_groups
from embermq.model.flags import Permission
from embermq.model.group import PREDEFINED_GROUPS, GroupConfig, check_group
from embermq.model.topic import is_light_queue
from embermq.model.version import DataVersion
from embermq.store.table_file import save_table

log = logging.getLogger(__name__)

GROUPS_FILE = "subscriptionGroup.json"
_READING = int(Permission.READ)  # the bit of what may be forbidden to a group


class Groups:
    """Group settings by name, and which topics a group may not read. One thread uses them.

    With `light_queues`, every group that is named as a light queue is there, and none of them is kept.
    """

    def __init__(self, path: Path, *, clock: Clock, auto_create: bool, light_queues: bool = False) -> None:
        self._has_light = light_queues
        self.auto_create = auto_create  # whether the first use of an unknown group makes it
        self.deletion_listeners: list[Callable[[str], None]] = []
        self._path = path
        self._clock = clock
        table = read_with_backup(path, decode_groups) or GroupTable(DataVersion(), {})
        missing = {name: GroupConfig(name) for name in PREDEFINED_GROUPS if name not in table.groups}
        # Those that every broker has are no change: they are saved with the first one.
        self._table = GroupTable(table.version, {**table.groups, **missing}, table.forbidden)

    def table(self) -> GroupTable:
        """All groups and the version of their table, as of this moment."""
        return self._table

    def find(self, name: str) -> GroupConfig | None:
        found = self._table.groups.get(name)
        return _light_group(name) if found is None and self._has_light and is_light_queue(name) else found

    def read(self, name: str) -> GroupConfig:
        """The group of this name, made if it is new and may be. Raises GroupNotFound or IllegalGroup."""
        found = self.find(name)
        if found is not None:
            return found
        if not self.auto_create:
            raise GroupNotFound(name)
        made = GroupConfig(name)
        self.save(made)
        log.info("group made group=%s", name)
        return made

    def save(self, *configs: GroupConfig) -> None:
        """Make or change groups; on disk when this returns. Raises IllegalGroup."""
        for config in configs:
            check_group(config.name)
        self._replace({**self._table.groups, **{config.name: config for config in configs}}, self._table.forbidden)

    def delete(self, name: str) -> None:
        """Forget a group and what was forbidden to it. Raises GroupNotFound."""
        if name not in self._table.groups:
            raise GroupNotFound(name)
        groups = {key: value for key, value in self._table.groups.items() if key != name}
        self._replace(groups, {key: value for key, value in self._table.forbidden.items() if key != name})
        for listener in self.deletion_listeners:
            listener(name)

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Whether the group may not read this topic."""
        topics = self._table.forbidden.get(group)
        return topics is not None and bool(topics.get(topic, 0) & _READING)

    def set_forbidden(self, group: str, topic: str, readable: bool) -> None:
        """Allow a group to read a topic, or forbid it; on disk when this returns."""
        if self.is_forbidden(group, topic) is not readable:
            return
        topics = dict(self._table.forbidden.get(group, {}))
        bits = topics.pop(topic, 0) & ~_READING | (0 if readable else _READING)
        if bits:
            topics[topic] = bits
        others = {key: value for key, value in self._table.forbidden.items() if key != group}
        self._replace(dict(self._table.groups), {**others, group: topics} if topics else others)

    def _replace(self, groups: dict[str, GroupConfig], forbidden: Mapping[str, Mapping[str, int]]) -> None:
        table = GroupTable(self._table.version.next(self._clock.now_ms()), groups, forbidden)
        save_table(self._path, encode_groups(table))
        self._table = table


@lru_cache(maxsize=4096)
def _light_group(name: str) -> GroupConfig:
    return GroupConfig(name)
