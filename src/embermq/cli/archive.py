"""`ember archive …`: topics to Parquet, Delta or Iceberg, and back into a topic."""

from __future__ import annotations

import argparse
import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from embermq.cli.connect import add_verb, make_client, parse_moment
from embermq.cli.job_options import add_job_options, open_job

if TYPE_CHECKING:
    from embermq.archive.job import Archived
    from embermq.archive.replay import ReplayOptions, Sink
    from embermq.archive.tables import Table
    from embermq.scan.splits import StorePlace
    from embermq.scan.wanted import Wanted

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
    _add_replay(verbs)


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
    topics.add_argument("--pattern", metavar="REGEX", type=_pattern, help="only topics whose whole name matches")
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


def _add_replay(verbs: Nouns[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "replay",
        replay,
        "send messages of an archive, or of a store's log, once more",
        example="ember archive replay ./archive --topic orders --map orders=orders-again --since 2026-11-01 --rate 500",
    )
    parser.add_argument("source", metavar="SOURCE", help="an archive, or the directory of a store")
    parser.add_argument("--log", metavar="DIR", help="go on with the log of this store, where the archive ends")
    parser.add_argument("--out", metavar="DIR", help="into a new store in this directory, instead of a cluster")
    topics = parser.add_mutually_exclusive_group()
    topics.add_argument(
        "--topic", metavar="TOPIC", action="append", help="only of this one; can be given several times"
    )
    topics.add_argument("--pattern", metavar="REGEX", type=_pattern, help="only of topics whose whole name matches")
    parser.add_argument("--filter", metavar="EXPR", help="only these: tags such as 'eu || us', or SQL92")
    parser.add_argument("--key", metavar="KEY", action="append", help="only with this key; can be given several times")
    parser.add_argument("--since", metavar="TIME", type=parse_moment, help="stored then or later: 10m ago, or ISO")
    parser.add_argument("--until", metavar="TIME", type=parse_moment, help="stored before then")
    parser.add_argument("--map", metavar="OLD=NEW", action="append", default=[], help="messages of topic OLD go to NEW")
    parser.add_argument("--to", metavar="TOPIC", help="where all go that no --map is for; the topic that they were in")
    parser.add_argument(
        "--times", choices=("original", "new"), default="original", help="when they were born (original)"
    )
    parser.add_argument("--rate", metavar="N", type=float, help="messages a second; as fast as they are taken")
    parser.add_argument(
        "--job", metavar="NAME", help="after a kill, the same name goes on where it was: each message once"
    )
    parser.add_argument("--dry-run", action="store_true", help="only count them")


def run(arguments: argparse.Namespace) -> int:
    import threading

    _check_library()
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
        archiver = Archiver(_place(arguments.dir), table, options, runner, progress)
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


def _check_library() -> None:
    """Raise SettingsError without what every archive needs."""
    from importlib.util import find_spec

    from embermq.errors import SettingsError

    if find_spec("pyarrow") is None or find_spec("numpy") is None:
        raise SettingsError("archives need pyarrow and numpy; pip install 'embermq[archive]'")


def _place(text: str) -> StorePlace:
    """The store that a command names. Who may read a broker's files is told by the environment."""
    import os

    from embermq.scan.broker_files import broker_place
    from embermq.scan.splits import BROKER_SCHEME, StorePlace

    if not text.startswith(BROKER_SCHEME):
        return StorePlace(text if "://" in text else os.path.abspath(text))  # executors work in other folders
    access_key, secret_key = os.environ.get("EMBERMQ_ACCESS_KEY"), os.environ.get("EMBERMQ_SECRET_KEY")
    return broker_place(text.removeprefix(BROKER_SCHEME), access_key=access_key, secret_key=secret_key)


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


def replay(arguments: argparse.Namespace) -> int:
    _check_library()
    from embermq.archive.history import read_history
    from embermq.archive.replay import replay as replay_to
    from embermq.archive.tables import find_format, open_table
    from embermq.archive.target import Target

    options, wanted = _replay_options(arguments), _wanted(arguments)
    is_archive = find_format(Target(arguments.source)) is not None
    table = open_table(arguments.source) if is_archive else None
    store = arguments.log if is_archive else arguments.source
    place = _place(store) if store is not None else None
    if arguments.dry_run:
        rows = sum(batch.num_rows for batch in read_history(table, place, wanted))
        _print_replayed(rows, 0, as_json=arguments.json)
        return 0
    with _open_sink(arguments, table, place, wanted, options) as sink:
        history = read_history(table, place, wanted, after=sink.find_position())
        done = replay_to(history, sink, options)
    _print_replayed(done.messages, done.batches, as_json=arguments.json)
    return 0


def _open_sink(
    arguments: argparse.Namespace,
    table: Table | None,
    place: StorePlace | None,
    wanted: Wanted,
    options: ReplayOptions,
) -> AbstractContextManager[Sink]:
    """Where messages go. Raises what makes a replay impossible, before anything is sent."""
    import uuid
    from pathlib import Path

    from embermq.archive.cluster_sink import ClusterSink
    from embermq.archive.directory_sink import open_directory_sink
    from embermq.archive.history import find_topics

    found = find_topics(table, place, wanted)
    if arguments.out is not None:
        return open_directory_sink(Path(arguments.out))
    job = arguments.job or f"replay-{uuid.uuid4().hex}"
    return ClusterSink(make_client(arguments), job, [options.topic_of(topic) for topic in found])


def _replay_options(arguments: argparse.Namespace) -> ReplayOptions:
    from embermq.archive.replay import ReplayOptions
    from embermq.errors import SettingsError

    topics = {}
    for text in arguments.map:
        old, separator, new = text.partition("=")
        if not separator or not old or not new:
            raise SettingsError(f"--map {text!r}: OLD=NEW is wanted, such as orders=orders-again")
        topics[old] = new
    return ReplayOptions(topics, to=arguments.to, keep_times=arguments.times == "original", rate=arguments.rate)


def _wanted(arguments: argparse.Namespace) -> Wanted:
    from embermq.model.message import milliseconds_of
    from embermq.scan.wanted import Wanted

    return Wanted(
        topics=frozenset(arguments.topic) if arguments.topic else None,
        pattern=arguments.pattern,
        filter_text=arguments.filter,
        keys=frozenset(arguments.key) if arguments.key else None,
        begin_time_ms=milliseconds_of(arguments.since) if arguments.since else None,
        end_time_ms=milliseconds_of(arguments.until) if arguments.until else None,
    )


def _print_replayed(messages: int, batches: int, *, as_json: bool) -> None:
    from embermq.cli.output import count_of, print_json, print_line

    if as_json:
        print_json({"messages": messages, "batches": batches})
    else:
        print_line(f"replayed {count_of(messages, 'message')}")


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error
    return text


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)(|ki|mi|gi)b?", text.strip().lower())
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r}: a number of bytes is wanted, such as 256Mi")
    return int(found[1]) * _UNITS[found[2]]
