"""`ember store rebuild`: queues and index from the log."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from embermq.cli.connect import add_safety, parse_directory
from embermq.cli.job_options import add_job_options, open_job, read_config
from embermq.interrupts import minding_interrupts

if TYPE_CHECKING:
    from pathlib import Path

    from embermq.jobs.rebuild import Rebuilt
    from embermq.store.settings import StoreSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=parse_directory,
        help="a new directory for them; without it they take the place of those in DIR",
    )
    parser.add_argument("--no-index", action="store_true", help="queues only")
    parser.add_argument(
        "--config",
        "-c",
        metavar="FILE",
        help="the broker's ember.toml or broker.conf: file sizes and delay levels, where no file tells these",
    )
    parser.add_argument(
        "--delay-levels",
        metavar="TEXT",
        help="the delay levels the broker was set up with, such as '1s 5s 10s', if not the usual ones",
    )
    add_safety(parser)
    add_job_options(parser)


@minding_interrupts()
def rebuild(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from embermq.cli.connect import confirm
    from embermq.jobs.in_place import check_in_place, rebuild_in_place
    from embermq.jobs.rebuild import rebuild as rebuild_into
    from embermq.jobs.rebuild_source import estimate_room, open_source
    from embermq.jobs.targets import check_target

    root, settings = Path(arguments.dir), _settings(arguments)
    source = open_source(root, settings)
    needs = estimate_room(source)
    if arguments.out is not None:
        check_target(Path(arguments.out), needs=needs)
    else:
        check_in_place(source, needs=needs)
    what = f"rebuild queues and index of {root} from {source.size} bytes of its log, into {arguments.out or root}"
    if arguments.dry_run:
        _print_plan(arguments, what, needs)
        return 0
    if arguments.out is None:
        confirm(arguments, f"{what}; the old ones are kept aside")
    aside, with_index = None, not arguments.no_index
    with open_job(arguments, "rebuild") as (runner, progress):
        if arguments.out is not None:
            made = rebuild_into(
                root, arguments.out, runner=runner, progress=progress, settings=settings, with_index=with_index
            )
        else:
            made, aside = rebuild_in_place(
                root, runner=runner, progress=progress, settings=settings, with_index=with_index
            )
    _print_result(arguments, made, aside)
    return 0


def _settings(arguments: argparse.Namespace) -> StoreSettings:
    from embermq.store.settings import StoreSettings

    given, _ = read_config(arguments)
    if arguments.delay_levels is not None:
        given["delay_levels"] = arguments.delay_levels
    return StoreSettings.make(given)


def _print_plan(arguments: argparse.Namespace, what: str, needs: int) -> None:
    from embermq.cli.output import print_json, print_line

    if arguments.json:
        print_json({"path": arguments.dir, "out": arguments.out or arguments.dir, "needs": needs, "done": False})
    else:
        print_line(f"would {what}; it may take {needs} bytes")


def _print_result(arguments: argparse.Namespace, made: Rebuilt, aside: Path | None) -> None:
    from embermq.cli.output import count_of, print_json, print_line, print_note

    if arguments.json:
        facts = {
            "path": str(made.path),
            "records": made.records,
            "bytes": made.bytes,
            "queues": made.queues,
            "entries": made.entries,
            "indexFiles": made.index_files,
            "indexEntries": made.index_entries,
            "replaced": str(aside) if aside is not None else None,
            "damage": [{"position": begin, "end": end, "detail": reason} for begin, end, reason in made.damage],
            "leftOut": made.left_out,
            "done": True,
        }
        print_json(facts)
        return
    for begin, end, reason in made.damage:
        print_line(f"passed over  {begin} to {end}  {reason}")
    for topic, count in made.left_out.items():
        print_line(f"left out     {topic}  {count_of(count, 'record')} of a topic that there is no more")
    queues = f"{count_of(made.queues, 'queue')} and {count_of(made.index_files, 'index file')}"
    print_line(f"rebuilt {queues} of {made.path} from {count_of(made.records, 'record')}")
    if aside is not None:
        print_note(f"what was there before is in {aside}; delete it when it is not needed any more")
