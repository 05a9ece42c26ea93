"""How groups take messages, by pull or by pop: config/messageRequestMode.json, saved whole at every change."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from embermq.files.durable import read_with_backup
from embermq.format.assignment_body import Modes, RequestMode, decode_modes, encode_modes_file
from embermq.store.table_file import save_table

MODES_FILE: Final = "messageRequestMode.json"


class RequestModes:
    """The modes by topic and group. Used in the event loop alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._modes: dict[tuple[str, str], RequestMode] = read_with_backup(path, decode_modes) or {}

    def table(self) -> Modes:
        return self._modes

    def find(self, topic: str, group: str) -> RequestMode | None:
        return self._modes.get((topic, group))

    def set(self, mode: RequestMode) -> None:
        """Set the mode of a topic and group; on disk when this returns. Raises StoreUnwritable."""
        self._replace({**self._modes, (mode.topic, mode.group): mode})

    def forget_topic(self, topic: str) -> None:
        self._drop([key for key in self._modes if key[0] == topic])

    def forget_group(self, group: str) -> None:
        self._drop([key for key in self._modes if key[1] == group])

    def _drop(self, keys: list[tuple[str, str]]) -> None:
        if keys:
            self._replace({key: mode for key, mode in self._modes.items() if key not in keys})

    def _replace(self, modes: dict[tuple[str, str], RequestMode]) -> None:
        save_table(self._path, encode_modes_file(modes))
        self._modes = modes
