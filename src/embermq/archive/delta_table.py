"""An archive as a Delta table, through `deltalake`: no JVM, no jar.

How far the archive is lies in the transaction's own numbers (Delta's `txn` actions): they are kept for good, and of two
transactions that set the same one at once, Delta refuses one. What is fixed is in the table's properties.

Only loaded where deltalake is, and pyarrow with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from embermq.archive.errors import ArchiveBusy, ArchiveDamaged
from embermq.archive.rows import DAY, PARTED_BY, SCHEMA_WITH_DAY, Part
from embermq.archive.state import ArchiveState, decode_json
from embermq.archive.tables import DELTA, ArchivedFile, check_turn
from embermq.archive.target import Target
from embermq.archive.writing import WrittenFile
from embermq.scan.columns import STORE_TIME, TOPIC

LOG_FOLDER: Final = "_delta_log"
PROPERTY: Final = "ember.archive"
_NUMBERS: Final = ("batch", "end", "last_position", "last_crc")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DeltaLakeTable:
    """See `tables.Table`."""

    format: ClassVar[str] = DELTA
    with_topic: ClassVar[bool] = False
    prefix: ClassVar[str] = ""

    def __init__(self, target: Target) -> None:
        self.target = target

    def find_state(self) -> ArchiveState | None:
        if not DeltaTable.is_deltatable(self.target.address):
            return None
        table = DeltaTable(self.target.address)
        text = table.metadata().configuration.get(PROPERTY)
        if text is None:
            raise ArchiveDamaged(self.target.name, "this Delta table is no archive; name another target")
        facts = decode_json(text, self.target.name)
        found = {name: table.transaction_version(f"ember.{name}") for name in _NUMBERS}
        if None in found.values():
            raise ArchiveDamaged(self.target.name, "its transactions do not tell how far it is")
        position, crc = found.pop("last_position"), found.pop("last_crc")
        facts |= found | {"last": {"position": position, "crc": crc} if position >= 0 else None}
        return ArchiveState.from_json(facts, self.target.name)

    def create(self, state: ArchiveState) -> None:
        began_ns = time.time_ns()
        DeltaTable.create(
            self.target.address,
            Schema.from_arrow(SCHEMA_WITH_DAY),
            partition_by=list(PARTED_BY),
            name="archive",
            description=f"{state.origin.describe()} of broker {state.origin.broker}",
            configuration={PROPERTY: json.dumps(state.to_json())},
            commit_properties=_properties(state),
            raise_if_key_not_exists=False,
        )
        self.target.sync_new(LOG_FOLDER, began_ns)

    def commit(self, state: ArchiveState, files: Sequence[WrittenFile]) -> None:
        began_ns = time.time_ns()
        self.target.sync([file.path for file in files])
        table = DeltaTable(self.target.address)
        check_turn(table.transaction_version("ember.batch"), state, self.target.name)
        try:
            table.create_write_transaction(
                [_add(file) for file in files],
                "append",
                Schema.from_arrow(SCHEMA_WITH_DAY),
                partition_by=list(PARTED_BY),
                commit_properties=_properties(state),
            )
        except DeltaError as error:
            raise ArchiveBusy(self.target.name, str(error)) from error
        self.target.sync_new(LOG_FOLDER, began_ns)

    def recover(self) -> None:
        """Nothing is left to do by transactions."""

    def find_files(self) -> list[ArchivedFile]:
        actions = pa.table(DeltaTable(self.target.address).get_add_actions(flatten=True))
        columns = (actions["path"], actions[f"partition.{TOPIC}"], actions[f"partition.{DAY}"])
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return sorted(ArchivedFile(unquote(path), Part(topic, str(day))) for path, topic, day in rows)


def _properties(state: ArchiveState) -> CommitProperties:
    last = state.last
    numbers = (state.batch, state.end, last.position if last else -1, last.crc if last else 0)
    transactions = [Transaction(f"ember.{name}", number) for name, number in zip(_NUMBERS, numbers, strict=True)]
    shown = {"emberBatch": str(state.batch), "emberEnd": str(state.end)}
    return CommitProperties(custom_metadata=shown, app_transactions=transactions)


def _add(file: WrittenFile) -> AddAction:
    stats = {"numRecords": file.rows, "minValues": _shown(file.low), "maxValues": _shown(file.high)}
    values = {TOPIC: file.part.topic, DAY: file.part.day}
    now_ms = time.time_ns() // 1_000_000
    return AddAction(file.path, file.size, values, now_ms, True, json.dumps(stats))


def _shown(values: Mapping[str, int]) -> dict[str, Any]:
    """Values as Delta's statistics have them; a time that no calendar has is left out."""
    shown: dict[str, Any] = dict(values)
    try:
        moment = _EPOCH + timedelta(microseconds=values[STORE_TIME])
        shown[STORE_TIME] = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
    except OverflowError:
        del shown[STORE_TIME]
    return shown
