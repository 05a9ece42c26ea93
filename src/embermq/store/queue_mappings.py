"""The static topics of a broker: config/topicQueueMapping.json, saved whole at every change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embermq.clock import Clock
from embermq.files.durable import read_with_backup
from embermq.format.mapping_json import MappingTable, decode_mappings_file, encode_mappings_file
from embermq.model.queue_mapping import QueueMapping
from embermq.model.version import DataVersion
from embermq.store.table_file import save_table

MAPPINGS_FILE: Final = "topicQueueMapping.json"


class QueueMappings:
    """Mappings by topic. One thread uses them."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._table = read_with_backup(path, decode_mappings_file) or MappingTable(
            DataVersion(0, 0, clock.now_ms()), {}
        )

    def table(self) -> MappingTable:
        return self._table

    def all(self) -> Mapping[str, QueueMapping]:
        return self._table.mappings

    def find(self, topic: str) -> QueueMapping | None:
        """The mapping of a topic; None if it is an ordinary one."""
        return self._table.mappings.get(topic)

    def save(self, mapping: QueueMapping) -> None:
        """Make a static topic, or change it; on disk when this returns. Raises StoreUnwritable."""
        self._replace({**self._table.mappings, mapping.topic: mapping})

    def forget(self, topic: str) -> None:
        if topic in self._table.mappings:
            self._replace({name: mapping for name, mapping in self._table.mappings.items() if name != topic})

    def _replace(self, mappings: Mapping[str, QueueMapping]) -> None:
        table = MappingTable(self._table.version.next(self._clock.now_ms()), mappings)
        save_table(self._path, encode_mappings_file(table))
        self._table = table
