"""The format `rocketmq`: which columns, which reader, which writer. Spark makes one in every process that plans."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from embermq_spark.options import ReadOptions
from embermq_spark.schema import read_schema


class RocketMQSource(DataSource):
    """Messages of a store directory or of a live cluster."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> StructType:
        return read_schema(ReadOptions.parse(self.options))
