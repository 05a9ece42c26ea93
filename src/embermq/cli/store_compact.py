"""`ember store compact`: of compacted topics, the newest message of each key stays."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from embermq.cli.connect import add_safety, parse_directory
from embermq.cli.job_options import add_job_options, open_job, read_config
from embermq.interrupts import minding_interrupts

if TYPE_CHECKING:
    from embermq.compaction.compacted_queue import Sizes
    from embermq.jobs.compact import Compacted
    from embermq.jobs.compact_source import CompactSource
    from embermq.store.settings import StoreSettings


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--topic",
        metavar="TOPIC",
        action="append",
        help="this topic; once for each. Without it, all that are compacted",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=parse_directory,
        help="a new directory for the result; without it, it takes the place of what DIR has",
    )
    parser.add_argument(
        "--config",
        "-c",
        metavar="FILE",
        help="the broker's ember.toml or broker.conf: the size of compacted files, where there are none yet",
    )
    add_safety(parser)
    add_job_options(parser)


@minding_interrupts()
def compact(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from embermq.cli.connect import confirm
    from embermq.jobs.compact import compact as compact_into
    from embermq.jobs.compact_in_place import compact_in_place
    from embermq.jobs.compact_source import estimate_room, open_compact_source
    from embermq.jobs.in_place import check_unowned
    from embermq.jobs.targets import check_target

    root, (settings, sizes) = Path(arguments.dir), _settings(arguments)
    source = open_compact_source(root, arguments.topic, settings, sizes)
    needs = estimate_room(source)
    if arguments.out is not None:
        check_target(Path(arguments.out), needs=needs)
    else:
        check_unowned(root, needs=needs)
    if arguments.dry_run:
        _print_plan(arguments, source, needs)
        return 0
    if arguments.out is None:
        confirm(arguments, f"{_what(arguments, source)}; messages that newer ones have replaced are deleted from there")
    with open_job(arguments, "compact") as (runner, progress):
        if arguments.out is not None:
            made = compact_into(
                root,
                arguments.out,
                runner=runner,
                progress=progress,
                topics=arguments.topic,
                settings=settings,
                sizes=sizes,
            )
        else:
            made = compact_in_place(
                root, runner=runner, progress=progress, topics=arguments.topic, settings=settings, sizes=sizes
            )
    _print_result(arguments, made)
    return 0


def _settings(arguments: argparse.Namespace) -> tuple[StoreSettings, Sizes | None]:
    from embermq.compaction.compacted_queue import Sizes
    from embermq.store.settings import StoreSettings

    given, read = read_config(arguments)
    if read is None:
        return StoreSettings.make(given), None
    broker = read.broker()
    return StoreSettings.make(given), Sizes.of(broker.compaction_file_size, broker.compaction_queue_file_size)


def _what(arguments: argparse.Namespace, source: CompactSource) -> str:
    topics = ", ".join(source.topics)
    return f"compact {topics} of {arguments.dir} from {source.size} bytes, into {arguments.out or arguments.dir}"


def _print_plan(arguments: argparse.Namespace, source: CompactSource, needs: int) -> None:
    from embermq.cli.output import print_json, print_line

    if arguments.json:
        facts = {"path": arguments.dir, "out": arguments.out or arguments.dir, "topics": list(source.topics)}
        print_json({**facts, "needs": needs, "done": False})
    else:
        print_line(f"would {_what(arguments, source)}; it may take {needs} bytes")


def _print_result(arguments: argparse.Namespace, made: Compacted) -> None:
    from embermq.cli.output import count_of, print_json, print_line, print_note

    if arguments.json:
        facts = {
            "path": str(made.path),
            "topics": list(made.topics),
            "queues": made.queues,
            "kept": made.kept,
            "dropped": made.dropped,
            "bytes": made.bytes,
            "withoutKeys": made.without_keys,
            "damage": [
                {"file": path, "position": begin, "end": end, "detail": reason}
                for path, begin, end, reason in made.damage
            ],
            "done": True,
        }
        print_json(facts)
        return
    for path, begin, end, reason in made.damage:
        print_line(f"passed over  {path}  {begin} to {end}  {reason}")
    if made.without_keys:
        print_note(f"{count_of(made.without_keys, 'message')} without keys left out")
    kept, queues = count_of(made.kept, "message"), count_of(made.queues, "queue")
    read = count_of(made.kept + made.dropped, "record")  # one that an earlier compaction kept may be in the log, too
    print_line(f"kept {kept} in {queues} of {made.path}, {made.bytes} bytes; {read} read")
