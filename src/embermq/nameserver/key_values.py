"""A small table for administrators: namespace, key, value. The only thing that a name server keeps on disk.

{"configTable":{namespace:{key:value}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embermq.errors import DiskFailed, IllegalField
from embermq.files.durable import make_directory, read_with_backup, replace_file
from embermq.format.json_fields import Fields, parse_fields
from embermq.format.wire_json import encode_body

KEY_VALUES_FILE: Final = "kvConfig.json"
ORDER_TOPICS: Final = "ORDER_TOPIC_CONFIG"  # the namespace of ordered topics: topic, `broker:queues;…`
MAX_NAME_SIZE: Final = 1024
MAX_VALUE_SIZE: Final = 64 * 1024

_Table = dict[str, dict[str, str]]


class KeyValues:
    """Values by namespace and key; saved at `path`, if there is one, before anybody sees a change."""

    def __init__(self, path: Path | None = None, *, limit: int = 100_000) -> None:
        self._path = path
        self._limit = limit
        self._table: _Table = {} if path is None else read_with_backup(path, _decode) or {}
        self._count = sum(map(len, self._table.values()))

    def find(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def find_all(self, namespace: str) -> Mapping[str, str] | None:
        """All values of a namespace; None if there never were any."""
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value. Raises IllegalField or DiskFailed, and changes nothing."""
        _check("namespace", namespace, MAX_NAME_SIZE)
        _check("key", key, MAX_NAME_SIZE)
        _check("value", value, MAX_VALUE_SIZE)
        is_new = self.find(namespace, key) is None
        if is_new and self._count >= self._limit:
            raise IllegalField("key", f"the table has {self._count} entries, limit {self._limit}; delete some first")
        self._replace({**self._table, namespace: {**self._table.get(namespace, {}), key: value}})
        self._count += is_new

    def delete(self, namespace: str, key: str) -> None:
        """Delete a value, if there is one. Raises DiskFailed, and changes nothing."""
        if self.find(namespace, key) is None:
            return
        rest = {name: value for name, value in self._table[namespace].items() if name != key}
        self._replace({**self._table, namespace: rest})
        self._count -= 1

    def _replace(self, table: _Table) -> None:
        if self._path is not None:
            try:
                make_directory(self._path.parent)
                replace_file(self._path, encode_body({"configTable": table}), keep_backup=True)
            except OSError as error:
                raise DiskFailed(self._path, error) from error
        self._table = table


def _decode(data: bytes) -> _Table:
    fields = parse_fields(data, "key values")
    return {name: Fields({name: values}, "key values").texts(name) for name, values in fields.items("configTable")}


def _check(name: str, text: str, limit: int) -> None:
    size = len(text.encode("utf-8", "backslashreplace"))
    if size > limit:
        raise IllegalField(name, f"{size} bytes, limit {limit}")
