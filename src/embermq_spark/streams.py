"""Which stream reader options ask for: by queues with a subscription, else by the whole log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from embermq.errors import EmberError, SettingsError
from embermq_spark.compat import SupportsTriggerAvailableNow
from embermq_spark.log_stream import LogStream
from embermq_spark.options import ReadOptions, name_of
from embermq_spark.queue_stream import QueueStream
from embermq_spark.stream import Stream


def make_stream_reader(options: ReadOptions, schema: StructType) -> Stream:
    """The reader of a stream. Raises SettingsError for options that streams do not have."""
    for field in ("ending_offsets", "ending_timestamp"):
        if getattr(options, field) is not None:
            raise SettingsError(f"option {name_of(field)} is for batches; a stream does not end")
    if options.subscribe or options.subscribe_pattern or options.assign:
        return QueueStream(options, schema)
    if options.commit_group is not None:
        raise SettingsError("option commitGroup goes with subscribe, subscribePattern or assign: groups have queues")
    if options.starting_offsets not in (None, "earliest", "latest"):
        raise SettingsError(
            "option startingOffsets: offsets of queues and of groups go with subscribe, subscribePattern or assign; "
            "a stream of the whole log begins at earliest or latest, or at startingTimestamp"
        )
    return LogStream(options, schema)


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stands for a stream that cannot be, and says why as soon as it is asked for anything.

    Of an error while a reader is made, Spark (4.1 to 4.3) would show one of its own last: it closes what there is not.
    """

    def __init__(self, error: EmberError) -> None:
        self._error = error

    def prepareForTriggerAvailableNow(self) -> None:
        raise self._error

    def initialOffset(self) -> NoReturn:
        raise self._error

    def latestOffset(self, *_: object) -> NoReturn:
        raise self._error

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        raise self._error
