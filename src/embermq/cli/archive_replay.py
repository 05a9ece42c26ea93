"""`ember archive replay`: messages of an archive, or of a store's log, once more."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from embermq.cli.archive_source import check_library, find_place, parse_pattern
from embermq.cli.connect import Nouns, add_verb, make_client, parse_directory, parse_moment

if TYPE_CHECKING:
    from embermq.archive.replay import ReplayOptions, Sink
    from embermq.scan.wanted import Wanted


def add_command(verbs: Nouns[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        verbs,
        "replay",
        replay,
        "send messages of an archive, or of a store's log, once more",
        example="ember archive replay ./archive --topic orders --map orders=orders-again --since 2026-11-01 --rate 500",
    )
    parser.add_argument("source", metavar="SOURCE", help="an archive, or the directory of a store")
    parser.add_argument("--log", metavar="DIR", help="go on with the log of this store, where the archive ends")
    parser.add_argument(
        "--out", metavar="DIR", type=parse_directory, help="into a new store in this directory, instead of a cluster"
    )
    topics = parser.add_mutually_exclusive_group()
    topics.add_argument(
        "--topic", metavar="TOPIC", action="append", help="only of this one; can be given several times"
    )
    topics.add_argument(
        "--pattern", metavar="REGEX", type=parse_pattern, help="only of topics whose whole name matches"
    )
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


def replay(arguments: argparse.Namespace) -> int:
    check_library()
    from pathlib import Path

    from embermq.archive.history import check_known, estimate_size, find_topics, read_history
    from embermq.archive.replay import replay as replay_to
    from embermq.archive.tables import find_format, open_table
    from embermq.archive.target import Target
    from embermq.errors import SettingsError
    from embermq.jobs.progress import Progress, choose_show
    from embermq.jobs.targets import check_target

    options, wanted = _replay_options(arguments), _wanted(arguments)
    is_archive = find_format(Target(arguments.source)) is not None
    table = open_table(arguments.source) if is_archive else None
    if arguments.log is not None and not is_archive:
        raise SettingsError(f"--log goes on where an archive ends, and {arguments.source} is none; leave it out")
    store = arguments.log if is_archive else arguments.source
    place = find_place(store) if store is not None else None
    found = find_topics(table, place, wanted)
    check_known(options.topics, found)  # else messages of the topic that was meant would go where they came from
    needs = estimate_size(table, place, wanted) if arguments.out is not None else 0
    with Progress("replay", choose_show(as_json=arguments.json)) as progress:
        if arguments.dry_run:
            if arguments.out is not None:
                check_target(Path(arguments.out), needs=needs)
            rows = sum(batch.num_rows for batch in read_history(table, place, wanted, progress=progress))
        else:
            with _open_sink(arguments, [options.topic_of(topic) for topic in found], needs) as sink:
                history = read_history(table, place, wanted, after=sink.find_position(), progress=progress)
                done = replay_to(history, sink, options)
    if arguments.dry_run:
        _print_result(arguments, rows, 0)
    else:
        _print_result(arguments, done.messages, done.batches)
    return 0


def _open_sink(arguments: argparse.Namespace, topics: list[str], needs: int) -> AbstractContextManager[Sink]:
    """Where messages go. Raises what makes a replay impossible, before anything is sent."""
    import uuid
    from pathlib import Path

    from embermq.archive.cluster_sink import ClusterSink
    from embermq.archive.directory_sink import open_directory_sink

    if arguments.out is not None:
        return open_directory_sink(Path(arguments.out), needs=needs)
    job = arguments.job or f"replay-{uuid.uuid4().hex}"
    return ClusterSink(make_client(arguments), job, topics)


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
    from embermq.errors import SettingsError
    from embermq.model.message import milliseconds_of
    from embermq.scan.wanted import Wanted

    if arguments.since and arguments.until and arguments.since >= arguments.until:
        since, until = arguments.since.isoformat(), arguments.until.isoformat()
        raise SettingsError(f"--since {since} is not before --until {until}: nothing lies between")
    return Wanted(
        topics=frozenset(arguments.topic) if arguments.topic else None,
        pattern=arguments.pattern,
        filter_text=arguments.filter,
        keys=frozenset(arguments.key) if arguments.key else None,
        begin_time_ms=milliseconds_of(arguments.since) if arguments.since else None,
        end_time_ms=milliseconds_of(arguments.until) if arguments.until else None,
    )


def _print_result(arguments: argparse.Namespace, messages: int, batches: int) -> None:
    from embermq.cli.output import count_of, print_json, print_line

    if arguments.json:
        print_json({"messages": messages, "batches": batches})
    else:
        print_line(f"{'would replay' if arguments.dry_run else 'replayed'} {count_of(messages, 'message')}")
