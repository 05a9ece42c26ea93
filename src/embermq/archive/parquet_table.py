"""An archive of plain Parquet files, in folders by topic and day, that any reader of Parquet understands.

    _ember/state.json                    how far the archive is, and the files of its last batch: the transaction
    topic=…/day=…/.b00000012-….parquet   written, not part of the archive; readers pass over such names
    topic=…/day=…/b00000012-….parquet    part of it

The state is replaced first, then its files get their names. Who finds files of the state without their names,
gives them.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from embermq.archive.errors import ArchiveDamaged
from embermq.archive.rows import DAY, Part
from embermq.archive.state import ArchiveState, decode_json
from embermq.archive.tables import PARQUET, ArchivedFile, check_turn, visible_name
from embermq.archive.target import OWN_FOLDER, Target
from embermq.archive.writing import WrittenFile
from embermq.scan.columns import TOPIC

STATE_FILE: Final = f"{OWN_FOLDER}/state.json"


class ParquetTable:
    """See `tables.Table`."""

    format: ClassVar[str] = PARQUET
    with_topic: ClassVar[bool] = False
    prefix: ClassVar[str] = "."

    def __init__(self, target: Target) -> None:
        self.target = target

    def find_state(self) -> ArchiveState | None:
        facts = self._read()
        return None if facts is None else ArchiveState.from_json(facts, self.target.name)

    def create(self, state: ArchiveState) -> None:
        self._save(state, [])

    def commit(self, state: ArchiveState, files: Sequence[WrittenFile]) -> None:
        found = self.find_state()
        check_turn(found.batch if found is not None else None, state, self.target.name)
        names = [file.path for file in files]
        self.target.sync(names)
        self._save(state, names)
        self._show(names)

    def recover(self) -> None:
        facts = self._read()
        if facts is not None:
            self._show(_names_in(facts, self.target.name))

    def find_files(self) -> list[ArchivedFile]:
        facts = self._read() or {"files": []}
        hidden = set(_names_in(facts, self.target.name))  # as long as nobody gave them their names
        found = []
        for info in self.target.list("", recursive=True):
            path = self.target.name_of(info)
            name = path.rpartition("/")[2]
            if path.startswith(f"{OWN_FOLDER}/") or not name.endswith(".parquet"):
                continue
            if not name.startswith(self.prefix) or path in hidden:
                found.append(ArchivedFile(path, part_of(path, self.target.name)))
        return sorted(found)

    def _read(self) -> dict[str, Any] | None:
        data = self.target.read(STATE_FILE)
        if data is None:
            return None
        facts = decode_json(data, f"{self.target.name}/{STATE_FILE}")
        if not isinstance(facts, dict):
            raise ArchiveDamaged(self.target.name, f"{STATE_FILE} holds no object")
        return facts

    def _save(self, state: ArchiveState, names: Sequence[str]) -> None:
        facts = state.to_json() | {"files": list(names)}
        self.target.write(STATE_FILE, json.dumps(facts, indent=1).encode())

    def _show(self, names: Sequence[str]) -> None:
        """Give the files of a batch their names, those that have not got them."""
        shown = []
        for name in names:
            final = visible_name(name, self.prefix)
            if self.target.exists(name):
                self.target.move(name, final)
            elif not self.target.exists(final):
                raise ArchiveDamaged(self.target.name, f"{final} is gone; restore it")
            shown.append(final)
        self.target.sync(shown)


def part_of(path: str, place: str) -> Part:
    """Topic and day of a file, by its path."""
    values = dict(piece.split("=", 1) for piece in path.split("/")[:-1] if "=" in piece)
    try:
        return Part(unquote(values[TOPIC]), values[DAY])
    except KeyError as error:
        raise ArchiveDamaged(place, f"{path} is no file of an archive: no {error} in its path") from error


def _names_in(facts: dict[str, Any], place: str) -> list[str]:
    names = facts.get("files")
    if not isinstance(names, list) or not all(isinstance(name, str) and ".." not in name for name in names):
        raise ArchiveDamaged(place, f"the files that {STATE_FILE} names cannot be read")
    return names
