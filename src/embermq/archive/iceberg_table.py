"""An archive as an Iceberg table, through `pyiceberg`: parted by topic and by the day of the store time.

The catalog is a SQLite file in the target's own folder. How far the archive is lies in the table's properties, which
change in one commit with the files; the batch's number is in the snapshot's summary, too.

Only loaded where pyiceberg is, and pyarrow with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.table import Table as LoadedTable
from pyiceberg.transforms import DayTransform, IdentityTransform

from embermq.archive.errors import ArchiveBusy, ArchiveDamaged, ArchiveMismatch
from embermq.archive.rows import DAY, SCHEMA, Part, day_of
from embermq.archive.state import ArchiveState, decode_json
from embermq.archive.tables import ICEBERG, ArchivedFile, check_turn
from embermq.archive.target import Target
from embermq.archive.writing import RANKED, WrittenFile
from embermq.errors import SettingsError
from embermq.scan.columns import STORE_TIME, TOPIC

CATALOG_FILE: Final = "catalog.db"
NAMESPACE: Final = "ember"
NAME: Final = "archive"
PROPERTY: Final = "ember.state"
_WHOLE_PATHS: Final = "an Iceberg table names its files by their whole paths; bring it back to where it was made"
_SETTINGS: Final = {
    "write.metadata.delete-after-commit.enabled": "true",  # a stream commits for years
    "write.metadata.previous-versions-max": "100",
    "commit.manifest-merge.enabled": "true",
    # Our files have statistics of these columns alone.
    "write.metadata.metrics.default": "none",
    **{f"write.metadata.metrics.column.{name}": "full" for name in (TOPIC, *RANKED)},
}


class IcebergTable:
    """See `tables.Table`."""

    format: ClassVar[str] = ICEBERG
    with_topic: ClassVar[bool] = True
    prefix: ClassVar[str] = ""

    def __init__(self, target: Target) -> None:
        if target.local is None:
            raise SettingsError(
                f"target {target.name}: an Iceberg archive has its catalog in a file, so it needs a folder of "
                "this machine; use Parquet or Delta there"
            )
        self.target = target
        self._folder = target.local
        self._root = f"file://{target.local}"  # as it is: pyiceberg takes nothing in it for an escape

    def find_state(self) -> ArchiveState | None:
        table = self._find()
        return None if table is None else self._state_of(table)

    def create(self, state: ArchiveState) -> None:
        began_ns = time.time_ns()
        self.target.make_folder("")
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(NAMESPACE)
        new = self._catalog.create_table_transaction(
            (NAMESPACE, NAME), SCHEMA, location=self._root, properties={**_SETTINGS, PROPERTY: _text(state)}
        )
        with new as transaction, transaction.update_spec() as spec:
            spec.add_field(TOPIC, IdentityTransform(), TOPIC)
            spec.add_field(STORE_TIME, DayTransform(), DAY)
        self.target.sync_new("metadata", began_ns)

    def commit(self, state: ArchiveState, files: Sequence[WrittenFile]) -> None:
        began_ns = time.time_ns()
        self.target.sync([file.path for file in files])
        table = self._find()
        if table is None:
            raise ArchiveDamaged(self.target.name, f"table {NAMESPACE}.{NAME} is gone")
        check_turn(self._state_of(table).batch, state, self.target.name)
        try:
            with table.transaction() as transaction:
                transaction.set_properties({PROPERTY: _text(state)})
                if files:
                    transaction.add_files(
                        [f"{table.location()}/{file.path}" for file in files],
                        {"ember.batch": str(state.batch), "ember.end": str(state.end)},
                        check_duplicate_files=False,  # their names are new
                    )
        except CommitFailedException as error:
            raise ArchiveBusy(self.target.name, str(error)) from error
        self.target.sync_new("metadata", began_ns)

    def recover(self) -> None:
        """Nothing is left to do by transactions."""

    def find_files(self) -> list[ArchivedFile]:
        table = self._find()
        if table is None:
            return []
        found = []
        for task in table.scan().plan_files():
            topic, day = task.file.partition[0], task.file.partition[1]
            found.append(
                ArchivedFile(task.file.file_path.removeprefix(f"{table.location()}/"), Part(topic, day_of(day)))
            )
        return sorted(found)

    @cached_property
    def _catalog(self) -> SqlCatalog:
        return SqlCatalog(NAMESPACE, uri=f"sqlite:///{self._folder / CATALOG_FILE}", warehouse=self._root)

    def _state_of(self, table: LoadedTable) -> ArchiveState:
        text = table.properties.get(PROPERTY)
        if text is None:
            raise ArchiveDamaged(self.target.name, f"table {NAMESPACE}.{NAME} is no archive")
        return ArchiveState.from_json(decode_json(text, self.target.name), self.target.name)

    def _find(self) -> LoadedTable | None:
        if not (self._folder / CATALOG_FILE).exists():
            return None
        try:
            table = self._catalog.load_table((NAMESPACE, NAME))
        except NoSuchTableError:
            return None
        except FileNotFoundError as error:
            raise ArchiveMismatch(self.target.name, f"{_WHOLE_PATHS}: {error.strerror or error}") from error
        made_at = Path(table.location().removeprefix("file://"))
        if not (made_at.exists() and made_at.samefile(self._folder)):  # else a copy would change what it was made of
            raise ArchiveMismatch(self.target.name, f"it was made at {made_at}, and {_WHOLE_PATHS}")
        return table


def _text(state: ArchiveState) -> str:
    return json.dumps(state.to_json())
