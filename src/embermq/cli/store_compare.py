"""`ember store compare`: what differs between two stores, by queue and offset."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from embermq.cli.connect import parse_directory
from embermq.cli.job_options import add_job_options, open_job
from embermq.interrupts import minding_interrupts

if TYPE_CHECKING:
    from embermq.jobs.compare import Comparison


def add_command(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "compare",
        help="compare the messages of two stores; exit code 1 if they differ",
        description="Compare the messages of two stores, by queue and offset; exit code 1 if they differ.",
        epilog="example: ember store compare ./ember-data /backup/ember-data --json",
        allow_abbrev=False,
    )
    parser.add_argument("dir", metavar="A", type=parse_directory, help="a store's directory")
    parser.add_argument("other", metavar="B", type=parse_directory, help="the directory of the other")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    add_job_options(parser)
    parser.set_defaults(run=compare)


@minding_interrupts()
def compare(arguments: argparse.Namespace) -> int:
    from embermq.jobs.compare import compare as compare_stores

    with open_job(arguments, "compare") as (runner, progress):
        found = compare_stores(arguments.dir, arguments.other, runner=runner, progress=progress)
    if arguments.json:
        _print_facts(found)
    else:
        _print_table(found)
    return 0 if found.is_same else 1


def _print_facts(found: Comparison) -> None:
    from embermq.cli.output import print_json

    differences = [
        {
            "topic": each.topic,
            "queue": each.queue,
            "begin": each.begin,
            "end": each.end,
            "kind": each.kind,
            "detail": each.detail,
        }
        for each in found.differences
    ]
    counts = {"different": found.different, "onlyInFirst": found.only_left, "onlyInSecond": found.only_right}
    print_json({"same": found.is_same, "messages": found.same, **counts, "differences": differences})


def _print_table(found: Comparison) -> None:
    from embermq.cli.output import count_of, print_table, print_verdict

    if found.differences:
        rows = [(e.topic, e.queue, e.begin, e.end - 1, e.kind, e.detail or "-") for e in found.differences]
        print_table(("topic", "queue", "first", "last", "kind", "what differs"), rows)
    if found.is_same:
        print_verdict(f"the same: {count_of(found.same, 'message')}", is_good=True)
    else:
        counts = f"{found.different} differ, {found.only_left} only in the first, {found.only_right} only in the second"
        print_verdict(f"not the same: {count_of(found.same, 'message')} are, {counts}", is_good=False)
