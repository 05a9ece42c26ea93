"""config/transactionMetrics: how many transactions are open, by the topic that their messages belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from embermq.format.json_fields import Fields, parse_fields
from embermq.format.tables import encode_metrics, read_version, version_members
from embermq.model.version import DataVersion


@dataclass(frozen=True, slots=True)
class TransactionTable:
    """Counts by topic, each with the time of its last change in ms."""

    version: DataVersion
    counts: Mapping[str, tuple[int, int]]


def decode_transactions(data: str | bytes) -> TransactionTable:
    """The table of a file. Raises CorruptRecord."""
    fields = parse_fields(data, "transactions")
    counts = {topic: Fields(value, f"transactions {topic}") for topic, value in fields.items("transactionCount")}
    return TransactionTable(
        read_version(fields),
        {topic: (each.integer("count"), each.integer("timeStamp")) for topic, each in counts.items()},
    )


def encode_transactions(table: TransactionTable) -> bytes:
    """The text of the file."""
    counts = {topic: {"count": count, "timeStamp": time} for topic, (count, time) in table.counts.items()}
    return encode_metrics({"dataVersion": version_members(table.version), "transactionCount": counts})
