"""All reports by the names they have in `ember report`, and what is drawn of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from embermq_spark import reports


@dataclass(frozen=True, slots=True)
class Report:
    """A report: who makes it, and the bars of its picture, a `value` for each row that has these `labels`."""

    make: Callable[..., DataFrame]
    title: str
    labels: Sequence[str]
    value: str


CATALOGUE: Final[Mapping[str, Report]] = {
    "lag": Report(reports.lag, "messages that groups have not consumed", ("group", "topic", "queueId"), "lag"),
    "skew": Report(reports.skew, "messages of queues", ("topic", "brokerName", "queueId"), "messages"),
    "keys": Report(reports.hot_keys, "messages of the hottest keys", ("topic", "key"), "messages"),
    "duplicates": Report(reports.duplicates, "copies of messages", ("topic", "uniqKey"), "copies"),
    "order": Report(
        reports.order, "how much older messages are than the one before", ("topic", "shardingKey"), "olderByMs"
    ),
    "dlq": Report(reports.dlq, "retries of messages", ("group", "state", "uniqKey"), "retries"),
    "trace": Report(
        reports.trace_latency,
        "99th percentile of the wait for a consumer",
        ("topic", "consumerGroup"),
        "waitedMsP99",
    ),
    "delay": Report(reports.delay, "how late messages are", ("state", "topic", "uniqKey"), "lateMs"),
    "transactions": Report(reports.transactions, "age of open transactions", ("producerGroup", "uniqKey"), "ageMs"),
}
