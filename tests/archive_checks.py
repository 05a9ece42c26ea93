"""What archives hold, as other readers see them: pyarrow's datasets, delta-rs, pyiceberg. And what they should."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset

from embermq.archive.job import Archived, ArchiveOptions, Archiver
from embermq.archive.rows import SCHEMA
from embermq.archive.tables import DELTA, FORMATS, ICEBERG, PARQUET, open_table
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.scan.columns import ALL_COLUMNS, OFFSET, POSITION
from embermq.scan.planner import plan
from embermq.scan.reading import read_split
from embermq.scan.splits import StorePlace
from embermq.scan.store_name import find_name
from embermq.scan.wanted import Wanted

__all__ = ["DELTA", "FORMATS", "ICEBERG", "PARQUET", "archive", "left_files", "rows_of_archive", "rows_of_store"]


def archive(store: Path, target: Path, format: str = PARQUET, *, workers: int = 1, **options: object) -> Archived:
    """Bring an archive up to its store."""
    archiver = Archiver(
        StorePlace(str(store)),
        open_table(str(target), format),
        ArchiveOptions(**options),  # type: ignore[arg-type]
        LocalRunner(workers),
        Progress("archive"),
    )
    with archiver.open():
        return archiver.run()


def rows_of_store(store: Path, **wanted: object) -> list[dict[str, object]]:
    """What an archive of a store has to hold."""
    place = StorePlace(str(store))
    asked = Wanted(columns=ALL_COLUMNS, broker_name=find_name(place), **wanted)  # type: ignore[arg-type]
    batches = [batch for split in plan(place, asked) for batch in read_split(split, asked)]
    return in_order(pa.Table.from_batches(batches, SCHEMA))


def rows_of_archive(target: Path, format: str) -> list[dict[str, object]]:
    """What readers that know nothing of us find in an archive."""
    match format:
        case "parquet":
            parting = pa.dataset.partitioning(pa.schema([("topic", pa.string()), ("day", pa.date32())]), flavor="hive")
            table = pa.dataset.dataset(target, format="parquet", partitioning=parting).to_table()
        case "delta":
            from deltalake import DeltaTable

            table = pa.table(DeltaTable(target).to_pyarrow_table())
        case _:
            from pyiceberg.catalog.sql import SqlCatalog

            catalog = SqlCatalog("ember", uri=f"sqlite:///{target}/catalog.db", warehouse=f"file://{target}")
            table = catalog.load_table("ember.archive").scan().to_arrow()
            catalog.engine.dispose()
    return in_order(table.select(SCHEMA.names).cast(SCHEMA))


def in_order(table: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.sort_by([(POSITION, "ascending"), (OFFSET, "ascending")]).to_pylist()
    return rows


def left_files(target: Path, format: str) -> set[str]:
    """Files with rows that are not part of the archive, and signs of a batch that is being written."""
    known = {file.path for file in open_table(str(target), format).find_files()}
    found = {str(path.relative_to(target)) for path in target.rglob("*.parquet")}
    return (found - known) | {str(path) for path in target.glob("_ember/writing.json")}
