"""`ember report …`: the questions operators ask, answered by Spark from a store's files or a running cluster."""

from __future__ import annotations

import argparse
import os
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from embermq.cli.connect import DEFAULT_NAMESRV, Nouns, add_namesrv, parse_count, parse_moment
from embermq.interrupts import minding_interrupts

PURPOSES: Final = {
    "lag": "how far groups are behind, in messages and in time",
    "skew": "how evenly messages lie in queues",
    "keys": "the keys that most messages have",
    "duplicates": "messages that were sent more than once",
    "order": "messages of a sharding key that are not in order",
    "dlq": "retries and dead letters, with their originals",
    "trace": "how long messages take from producer to store to consumer, from message trace",
    "delay": "messages that were put off, and those that are overdue",
    "transactions": "transactions that nobody ended",
}


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    noun = nouns.add_parser(
        "report", help="questions operators ask, answered by Spark", description="Questions operators ask.",
        allow_abbrev=False,
    )  # fmt: skip
    verbs = noun.add_subparsers(title="reports", metavar="REPORT", required=True)
    for name, purpose in PURPOSES.items():
        parser = verbs.add_parser(
            name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.",
            epilog=f"example: ember report {name} ember-data --json", allow_abbrev=False,
        )  # fmt: skip
        _add_options(parser)
        if name == "lag":
            parser.add_argument("--group", metavar="GROUP", help="of this group alone")
            parser.add_argument("--keep", metavar="FOLDER", help="add what is found to the reports in this folder")
            parser.add_argument("--history", metavar="FOLDER", help="show how lag went, from the reports kept there")
        parser.set_defaults(run=run, report=name)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="DIR", nargs="?", help="a store's directory; without it, the cluster that runs")
    add_namesrv(parser, default=argparse.SUPPRESS)
    parser.add_argument("--topic", metavar="TOPIC", help="of this topic alone, or of several with commas between")
    parser.add_argument(
        "--since", metavar="TIME", type=parse_moment, help="stored at this time (ISO, or 10m ago) or later"
    )
    parser.add_argument("--until", metavar="TIME", type=parse_moment, help="stored before this time")
    parser.add_argument("-n", "--limit", metavar="N", type=parse_count, default=100, help="rows at most (100)")
    parser.add_argument("--spark", metavar="MASTER", default="local[*]", help="the Spark that works it out (local[*])")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw it, too: a .png or .html file")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")


@minding_interrupts()
def run(arguments: argparse.Namespace) -> int:
    from embermq.cli.output import print_json, print_note, print_table
    from embermq.jobs.progress import choose_show
    from embermq.jobs.spark_modules import import_spark_module

    command = import_spark_module("reports.command", what="reports need")
    rows: list[dict[str, Any]] = command.run_report(
        command.Asked(
            arguments.report, arguments.spark, _read_options(arguments), arguments.limit, arguments.plot,
            getattr(arguments, "keep", None), getattr(arguments, "history", None),
            choose_show(as_json=arguments.json),
        )
    )  # fmt: skip
    if arguments.json:
        for row in rows:
            print_json({name: _plain(value) for name, value in row.items()})
    elif rows:
        print_table(tuple(rows[0]), [tuple(_cell(value) for value in row.values()) for row in rows])
    else:
        print_note("there is nothing to report")
    return 0


def _read_options(arguments: argparse.Namespace) -> dict[str, object]:
    found: dict[str, object] = {}
    if arguments.path is not None:
        found["path"] = arguments.path
    else:
        found["namesrv"] = arguments.namesrv or os.environ.get("EMBERMQ_NAMESRV") or DEFAULT_NAMESRV
        for name, variable in (("accessKey", "EMBERMQ_ACCESS_KEY"), ("secretKey", "EMBERMQ_SECRET_KEY")):
            if variable in os.environ:
                found[name] = os.environ[variable]
    if arguments.topic:
        found["subscribe"] = arguments.topic
    for name, moment in (("startingTimestamp", arguments.since), ("endingTimestamp", arguments.until)):
        if moment is not None:
            found[name] = int(moment.timestamp() * 1000)
    if getattr(arguments, "group", None):
        found["group"] = arguments.group
    return found


def _plain(value: object) -> object:
    from embermq.cli.output import format_time
    from embermq.model.message import milliseconds_of

    return format_time(milliseconds_of(value)) if isinstance(value, datetime) else value


def _cell(value: object) -> object:
    return "-" if value is None else _plain(value)
