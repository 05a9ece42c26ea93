"""`ember archive run`: topics to Parquet, Delta or Iceberg."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from embermq.cli import archive_replay
from embermq.cli.archive_source import check_library, find_place, parse_pattern
from embermq.cli.job_options import add_job_options, open_job
from embermq.interrupts import minding_interrupts

if TYPE_CHECKING:
    from embermq.archive.job import Archived

Nouns = argparse._SubParsersAction  # the type has no public name

_UNITS = {"": 1, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    noun = nouns.add_parser(
        "archive",
        help="keep topics as Parquet, Delta or Iceberg, and send them again",
        description="Keep topics for longer than their log, as tables that others read, and send them again.",
        allow_abbrev=False,
    )
    verbs = noun.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_run(verbs)
    archive_replay.add_command(verbs)


def _add_run(verbs: Nouns[argparse.ArgumentParser]) -> None:
    purpose = "bring an archive up to its store; each message once, also after a kill"
    parser = verbs.add_parser(
        "run",
        help=purpose,
        description=f"{purpose[0].upper()}{purpose[1:]}. What is in the archive already is not read again.",
        epilog="example: ember archive run ./ember-data ./archive --format delta --follow",
        allow_abbrev=False,
    )
    parser.add_argument(
        "dir", metavar="DIR", help="the store's directory, or embermq://HOST:PORT of its broker; it may work meanwhile"
    )
    parser.add_argument("target", metavar="TARGET", help="the archive: a folder of this machine, or s3://…")
    parser.add_argument("--format", choices=("parquet", "delta", "iceberg"), help="as it is, else parquet")
    topics = parser.add_mutually_exclusive_group()
    topics.add_argument("--topic", metavar="TOPIC", action="append", help="only this one; can be given several times")
    topics.add_argument("--pattern", metavar="REGEX", type=parse_pattern, help="only topics whose whole name matches")
    parser.add_argument("--system-topics", action="store_true", help="those that belong to the system, too")
    parser.add_argument("--follow", action="store_true", help="go on with what comes, until Ctrl-C")
    parser.add_argument(
        "--every", metavar="SECONDS", type=float, default=60.0, help="with --follow: from one look to the next (60)"
    )
    parser.add_argument(
        "--batch-bytes", metavar="SIZE", type=_size, help="log bytes in one transaction, such as 256Mi; 512Mi a worker"
    )
    parser.add_argument(
        "--allow-loss", action="store_true", help="leave out damaged records, and what the store has deleted"
    )
    parser.add_argument("--broker-name", metavar="NAME", help="for the column brokerName; as the store tells")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a line")
    add_job_options(parser)
    parser.set_defaults(run=run)


@minding_interrupts()
def run(arguments: argparse.Namespace) -> int:
    import threading

    check_library()
    from embermq.archive.job import ArchiveOptions, Archiver
    from embermq.archive.tables import PARQUET, find_format, open_table
    from embermq.archive.target import Target
    from embermq.cli.output import print_note

    table = open_table(arguments.target, arguments.format or find_format(Target(arguments.target)) or PARQUET)
    options = ArchiveOptions(
        topics=tuple(arguments.topic) if arguments.topic else None,
        pattern=arguments.pattern,
        system_topics=arguments.system_topics,
        batch_bytes=arguments.batch_bytes,
        allow_loss=arguments.allow_loss,
        broker=arguments.broker_name,
    )
    with open_job(arguments, "archive") as (runner, progress):
        archiver = Archiver(find_place(arguments.dir), table, options, runner, progress)
        over = threading.Event()
        try:
            with archiver.open():
                for topic in archiver.find_absent():
                    print_note(f"the store has no topic {topic!r} yet")
                archiver.follow(lambda: not arguments.follow or over.wait(arguments.every))
        except KeyboardInterrupt:
            if not arguments.follow:
                raise
    _print(archiver.done, as_json=arguments.json)
    return 0


def _print(done: Archived, *, as_json: bool) -> None:
    from embermq.cli.output import count_of, print_json, print_line, print_note

    if as_json:
        print_json(
            {
                "batches": done.batches,
                "messages": done.messages,
                "files": done.files,
                "bytes": done.bytes,
                "damaged": done.damaged,
                "end": done.end,
            }
        )
        return
    what = f"{count_of(done.messages, 'message')} in {count_of(done.files, 'file')}"
    print_line(f"archived {what}, up to log position {done.end}")
    if done.damaged:
        print_note(f"left out: {count_of(done.damaged, 'damaged record')}")


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)(|ki|mi|gi)b?", text.strip().lower())
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r}: a number of bytes is wanted, such as 256Mi")
    return int(found[1]) * _UNITS[found[2]]
