"""The format `rocketmq`: which columns, which reader, which writer. Spark makes one in every process that plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from embermq.errors import EmberError
from embermq_spark.compat import fit_stream
from embermq_spark.options import ReadOptions, WriteOptions
from embermq_spark.schema import check_schema, read_schema

if TYPE_CHECKING:
    from embermq_spark.sink import BatchSink, StreamSink


class RocketMQSource(DataSource):
    """Messages of a store directory or of a live cluster."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return read_schema(ReadOptions.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from embermq_spark.batch import make_batch_reader

        return make_batch_reader(self._read_options(schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from embermq_spark.streams import RefusedStream, make_stream_reader

        try:
            return fit_stream(make_stream_reader(self._read_options(schema), schema))
        except EmberError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        from embermq_spark.sink import BatchSink

        return BatchSink(schema, WriteOptions.parse(self.options), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        from embermq_spark.sink import StreamSink

        return StreamSink(schema, WriteOptions.parse(self.options), overwrite=overwrite)

    def _read_options(self, schema: StructType) -> ReadOptions:
        options = ReadOptions.parse(self.options)
        check_schema(options, schema)
        return options
