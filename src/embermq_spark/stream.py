"""What both kinds of stream have in common. Their reader lives on the driver as long as the query runs."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from embermq.clock import SystemClock
from embermq.errors import DataLoss, TopicNotFound, TransportError
from embermq.scan.store_state import Accepts, StoreState
from embermq_spark.admission import Limits, Patience
from embermq_spark.brokers import Broker, find_brokers
from embermq_spark.compat import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from embermq_spark.options import ReadOptions
from embermq_spark.pieces import read_piece
from embermq_spark.schema import columns_of
from embermq_spark.selection import make_wanted

log = logging.getLogger(__name__)

FIND_EVERY_S: Final = 30.0  # how often a cluster is asked who is there


class Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream that ends where its store ended when it was asked to read what is available now, or never."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._wanted = make_wanted(options, columns_of(schema))
        self._brokers = find_brokers(options, self._wanted)
        self._found_s = SystemClock().monotonic()
        self.limits = Limits.of(options)

    @abstractmethod
    def _accepts(self, topic: str) -> bool:
        """Whether queues of a topic must be looked at."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark has no limit with several parts; any of them tells that options count."""
        limits = self.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        return ReadAllAvailable()

    def with_new(self, start: dict[str, Any]) -> dict[str, Any]:
        """The beginning of a batch whose end says more than it: with what has come since."""
        return start

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(partition, self._schema)

    def _look(self, accepts: Accepts | None = None) -> dict[Broker, StoreState]:
        """What the brokers hold now; new ones of a cluster are found after a while, those that are away are kept."""
        now_s = SystemClock().monotonic()
        if not self._options.all_paths and now_s - self._found_s >= FIND_EVERY_S:
            self._found_s = now_s
            known = {broker.name: broker for broker in self._brokers}
            try:
                known |= {broker.name: broker for broker in find_brokers(self._options, self._wanted)}
            except (TransportError, TopicNotFound) as error:
                log.warning("brokers not looked for reason=%s", error)
            self._brokers = list(known.values())
        return {broker: broker.look(accepts or self._accepts) for broker in self._brokers}

    def _report_loss(self, loss: DataLoss) -> None:
        """Raise it, or log it where options allow for it."""
        if self._options.fail_on_data_loss:
            raise loss
        log.warning("lost place=%s what=%s reason=%s", loss.place, loss.what, loss.reason)


def make_patience(limits: Limits) -> Patience:
    return Patience(limits, SystemClock())


def is_unlimited(limit: Any) -> bool:
    """Whether Spark wants everything, whatever options say."""
    return isinstance(limit, ReadAllAvailable)
