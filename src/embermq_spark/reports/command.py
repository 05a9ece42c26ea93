"""What `ember report` runs: a report as plain rows, and its picture if one is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

from embermq.errors import SettingsError
from embermq.jobs.progress import Progress, Show
from embermq_spark.brokers import find_brokers
from embermq_spark.jobs.running import call_apart, open_spark_session
from embermq_spark.jobs.stages import stage_watch
from embermq_spark.options import ReadOptions
from embermq_spark.reports.catalogue import CATALOGUE
from embermq_spark.reports.group_lag import keep_lag, lag_history
from embermq_spark.reports.plots import check_picture, plot_bars, plot_lines
from embermq_spark.selection import check_names, make_wanted

Row = dict[str, Any]

FIRST_AFTER_S: Final = 5.0  # most reports show nothing but themselves
_TIMES: Final = ("startingTimestamp", "endingTimestamp")


@dataclass(frozen=True, slots=True)
class Asked:
    """A report that somebody wants."""

    name: str
    master: str
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: int = 100
    picture: Path | None = None
    keep: str | None = None  # of lag: the folder that this report is added to
    history: str | None = None  # of lag: the folder whose reports are wanted instead, of which `limit` are the last
    show: Show | None = None  # how far it is


def run_report(asked: Asked) -> list[Row]:
    """The first rows of a report, times in UTC, with its picture drawn. Raises EmberErrors."""
    if asked.picture is not None:
        check_picture(asked.picture)
    if asked.history is not None and not Path(asked.history).is_dir():
        raise SettingsError(f"{asked.history} is no folder; `ember report lag --keep {asked.history}` makes one")
    if asked.history is None:
        _check_source(asked)
    with (
        open_spark_session(asked.master) as spark,
        Progress("report", asked.show, first_after_s=FIRST_AFTER_S) as progress,
    ):
        found = call_apart(spark, lambda: _collect(_make(spark, asked), asked), stage_watch(spark, progress))
    rows = [{name: _in_utc(value) for name, value in row.asDict().items()} for row in found]
    if asked.picture is not None:
        _draw(asked, asked.picture, rows)
    return rows


def _collect(found: DataFrame, asked: Asked) -> list[SparkRow]:
    """As many rows as are asked for: the first, but of a history the last, which tell of now."""
    return found.tail(asked.limit) if asked.history is not None else found.limit(asked.limit).collect()


def _in_utc(value: object) -> object:
    """Spark gives times of this machine's zone, and does not say so."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _check_source(asked: Asked) -> None:
    """Raise what is wrong with the options of a read, before Spark is started."""
    if asked.name == "lag" and not asked.options.keys().isdisjoint(_TIMES):
        raise SettingsError("lag is as it is now; --since and --until are for what --keep has kept, with --history")
    read = {name: str(value) for name, value in asked.options.items() if name != "group"}
    parsed = ReadOptions.parse(read)
    brokers = find_brokers(parsed, make_wanted(parsed, ()))
    check_names(parsed, brokers, [broker.look() for broker in brokers])


def _make(spark: SparkSession, asked: Asked) -> DataFrame:
    if asked.history is not None:
        return lag_history(spark, asked.history, **asked.options)
    found = CATALOGUE[asked.name].make(spark, **asked.options)
    if asked.keep is not None:
        found = found.persist()
        keep_lag(found, asked.keep)
    return found


def _draw(asked: Asked, path: Path, rows: list[Row]) -> None:
    if asked.history is not None:
        plot_lines(path, "lag of groups in messages", rows, at="at", labels=("group", "topic"), value="lag")
        return
    report = CATALOGUE[asked.name]
    plot_bars(path, report.title, rows, report.labels, report.value)
