"""What one task reads, and how: batches of messages in the columns that Spark expects."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from embermq.scan.reading import read_split
from embermq.scan.splits import Split
from embermq.scan.tally import Tally
from embermq.scan.wanted import Wanted
from embermq_spark.compat import arrow_schema

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Piece(InputPartition):
    """A part of a read. It travels to the executor, so it is plain data."""

    split: Split
    wanted: Wanted


def read_piece(piece: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The messages of a piece. Raises DamagedRecord or DataLoss, unless the piece may leave those out."""
    if not isinstance(piece, Piece):
        return  # what Spark makes of a read without pieces
    expected = arrow_schema(schema)
    tally = Tally()
    for batch in read_split(piece.split, piece.wanted, tally):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=expected)
    if tally.damaged or tally.lost:
        log.warning("read in part place=%s damaged=%d lost=%d", piece.split.place.name, tally.damaged, tally.lost)
