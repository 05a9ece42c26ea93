"""Batch reads: planned on the driver, read by tasks, with nothing kept in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from embermq.errors import SettingsError
from embermq_spark.compat import pushes_filters
from embermq_spark.option_values import EARLIEST, LATEST, Offsets
from embermq_spark.options import ReadOptions, name_of
from embermq_spark.pieces import Piece, read_piece
from embermq_spark.pushdown import Narrowing, narrow
from embermq_spark.schema import columns_of
from embermq_spark.selection import select


def make_batch_reader(options: ReadOptions, schema: StructType) -> DataSourceReader:
    """The reader that this process may have: only where Spark plans with filters may one take them."""
    _check_limits(options)
    if options.push_filters and pushes_filters():
        return FilteringReader(options, schema)
    return BatchReader(options, schema)


class BatchReader(DataSourceReader):
    """Reads what options say."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._narrowing = Narrowing({}, {})

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        pieces = []
        for selected in select(options, columns_of(self._schema)):
            narrowed = self._narrowing.apply(selected)
            if narrowed is None:
                continue
            splits = narrowed.broker.plan(
                narrowed.wanted, split_size=options.split_size, min_partitions=options.min_partitions or 1
            )
            pieces += [Piece(split, narrowed.wanted) for split in splits]
        return pieces

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_piece(partition, self._schema)


class FilteringReader(BatchReader):
    """The same, and filters spare it what they leave out."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._narrowing = narrow(filters)
        return filters  # Spark applies them, too


def _check_limits(options: ReadOptions) -> None:
    for name, offsets, word, number, hint in (
        ("startingOffsets", options.starting_offsets, "latest", LATEST, "it is for streams"),
        ("endingOffsets", options.ending_offsets, "earliest", EARLIEST, "name a later offset"),
    ):
        if offsets == word or number in _numbers(offsets):
            raise SettingsError(f"option {name}: {word} ({number}) leaves nothing to read in a batch; {hint}")
    for name in ("max_offsets_per_trigger", "max_bytes_per_trigger", "min_offsets_per_trigger", "max_trigger_delay"):
        if getattr(options, name) is not None:
            raise SettingsError(f"option {name_of(name)} is for streams; a batch reads everything that is there")
    if options.commit_group is not None:
        raise SettingsError("option commitGroup is for streams; a batch has no progress to tell of")


def _numbers(offsets: Offsets | None) -> set[int]:
    if offsets is None or isinstance(offsets, str):
        return set()
    return {offset for brokers in offsets.values() for queues in brokers.values() for offset in queues.values()}
