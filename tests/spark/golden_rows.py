"""RocketMQ's golden stores for Spark: all of them in one read, each as a broker of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import Golden

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

Facts = dict[str, Any]
Place = tuple[str, int]  # store and position: which record

# What a row says in other words than the golden data, or does not say.
LEFT_OUT = {"storedPhysicalOffset", "magic", "msgId", "plainBodySha256", "plainBodySize"}
AS_THEY_ARE = (
    *("physicalOffset", "topic", "queueId", "queueOffset", "flag", "sysFlag", "bodyCRC", "bornHost", "storeHost"),
    *("reconsumeTimes", "preparedTransactionOffset"),
)
ALL_COLUMNS = (
    *("topic", "queueId", "queueOffset", "storeTimestamp", "bornTimestamp", "tags", "keys", "body", "brokerName"),
    *("physicalOffset", "storeSize", "flag", "sysFlag", "bodyCRC", "bornHost", "storeHost", "reconsumeTimes"),
    *("preparedTransactionOffset", "uniqKey", "properties"),
)


class GoldenStores:
    """All stores, unpacked, and what RocketMQ read from them."""

    def __init__(self, folder: Path) -> None:
        golden = Golden(folder)
        self.paths = {name: golden.store(name) for name in golden.names}
        self.records: dict[Place, Facts] = {
            (name, facts["physicalOffset"]): facts
            for name in golden.names
            for facts in golden.expected(name)["commitLog"]["records"]
        }
        self.expected = golden.expected

    def load(self, spark: SparkSession, names: list[str] | None = None, **options: str) -> DataFrame:
        """One DataFrame of several stores, of all of them unless some are named."""
        chosen = names or list(self.paths)
        options = {"brokerName": ",".join(chosen), "decodeBody": "false", **options}
        reader = spark.read.format("rocketmq").options(**options)
        return reader.load([str(self.paths[name]) for name in chosen])

    def places(self, chooses: Callable[[str, Facts], bool]) -> set[Place]:
        """The records that a function of store and facts chooses."""
        return {place for place, facts in self.records.items() if chooses(place[0], facts)}


def places_of(frame: DataFrame) -> list[Place]:
    return sorted(
        (row.brokerName, row.physicalOffset) for row in frame.select("brokerName", "physicalOffset").collect()
    )


def facts_of(row: Row) -> Facts:
    """A row in the words of the golden data."""
    body = bytes(row.body)
    return {
        **{name: row[name] for name in AS_THEY_ARE},
        "totalSize": row.storeSize,
        "bornTimestamp": milliseconds_of(row.bornTimestamp),
        "storeTimestamp": milliseconds_of(row.storeTimestamp),
        "properties": row.properties,
        "bodySize": len(body),
        **({"bodyHex": body.hex()} if len(body) <= 256 else {"bodySha256": hashlib.sha256(body).hexdigest()}),
    }


def comparable(facts: Facts) -> Facts:
    """What a row tells of a golden record."""
    digests = {name: facts[name].lower() for name in ("bodyHex", "bodySha256") if name in facts}
    return {**{name: value for name, value in facts.items() if name not in LEFT_OUT}, **digests}


def milliseconds_of(time: Any) -> int:
    return round(time.timestamp() * 1000)


def as_json(value: object) -> str:
    return json.dumps(value)
