"""The format `rocketmq`: which columns, which reader, which writer. Spark makes one in every process that plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from embermq_spark.options import ReadOptions, WriteOptions
from embermq_spark.schema import read_schema

if TYPE_CHECKING:
    from embermq_spark.sink import BatchSink, StreamSink


class RocketMQSource(DataSource):
    """Messages of a store directory or of a live cluster."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return read_schema(ReadOptions.parse(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        from embermq_spark.sink import BatchSink

        return BatchSink(schema, WriteOptions.parse(self.options), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        from embermq_spark.sink import StreamSink

        return StreamSink(schema, WriteOptions.parse(self.options), overwrite=overwrite)
