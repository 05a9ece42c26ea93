"""The tables that an archive can be: what each must do, and which is at a place.

A batch becomes part of the table in one transaction, together with how far the archive is. So a batch is there whole
and once, whatever is killed: who goes on asks the table how far it is, and nobody else.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

from embermq.archive.errors import ArchiveBusy, ArchiveMissing
from embermq.archive.rows import Part
from embermq.archive.state import ArchiveState
from embermq.archive.target import Target
from embermq.archive.writing import WrittenFile
from embermq.errors import SettingsError

PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, DELTA, ICEBERG)
_CLASSES: Final = {
    PARQUET: ("embermq.archive.parquet_table", "ParquetTable", "pyarrow"),
    DELTA: ("embermq.archive.delta_table", "DeltaLakeTable", "deltalake"),
    ICEBERG: ("embermq.archive.iceberg_table", "IcebergTable", "pyiceberg"),
}


class ArchivedFile(NamedTuple):
    """A file of the table."""

    path: str
    part: Part


class Table(Protocol):
    """One archive."""

    format: ClassVar[str]
    with_topic: ClassVar[bool]  # whether files have the topic as a column
    prefix: ClassVar[str]  # of the names of files that are not part of the table yet

    @property
    def target(self) -> Target: ...

    def find_state(self) -> ArchiveState | None:
        """How far the archive is; None if there is none. Raises ArchiveDamaged."""
        ...

    def create(self, state: ArchiveState) -> None:
        """Make it, without rows."""
        ...

    def commit(self, state: ArchiveState, files: Sequence[WrittenFile]) -> None:
        """Make files part of the table and `state` its state, in one; durable when it returns.

        Raises ArchiveBusy, and changes nothing, if the table is not at the batch before this one.
        """
        ...

    def recover(self) -> None:
        """Finish what a transaction that is done left to do."""
        ...

    def find_files(self) -> list[ArchivedFile]:
        """The files that are part of the table now."""
        ...


def open_table(address: str, format: str | None = None) -> Table:
    """The archive at an address, which may not be there yet; of the format that it has, if none is given.

    Raises SettingsError for a format that is none, or whose library is missing.
    """
    target = Target(address)
    found = format or find_format(target)
    if found is None:
        raise ArchiveMissing(target.name)
    if found not in _CLASSES:
        raise SettingsError(f"format {found!r}: {', '.join(FORMATS)} are known")
    module, name, library = _CLASSES[found]
    try:
        importlib.import_module(library)
    except ImportError as error:
        raise SettingsError(f"format {found} needs {library} ({error}); pip install 'embermq[archive]'") from error
    table: Table = getattr(importlib.import_module(module), name)(target)
    return table


def find_format(target: Target) -> str | None:
    """What the archive at a place is; None if there is none."""
    if target.is_file:
        return None
    names = {info.base_name for info in target.list("")}
    if "_delta_log" in names:
        return DELTA
    if "catalog.db" in names:
        return ICEBERG
    return PARQUET if "_ember" in names else None


def check_turn(found: int | None, state: ArchiveState, place: str) -> None:
    """Raise ArchiveBusy unless the last batch of a table, `found`, is the one before that of `state`."""
    if found != state.batch - 1:
        raise ArchiveBusy(place, f"its last batch is {found}, and {state.batch} was to follow {state.batch - 1}")


def visible_name(path: str, prefix: str) -> str:
    """What a file is called once it is part of the table."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name.removeprefix(prefix)}"
