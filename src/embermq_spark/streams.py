"""Which stream reader options ask for: by queues with a subscription, else by the whole log."""

from __future__ import annotations

from pyspark.sql.types import StructType

from embermq.errors import SettingsError
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
