"""`ember bench send`, `ember bench consume`: load with percentiles, on any RocketMQ-compatible broker."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING, Final

from embermq.cli.connect import Nouns, add_verb, make_client, parse_count, run_with_cluster

if TYPE_CHECKING:
    from embermq.admin.cluster import Cluster
    from embermq.cli.load.client_log import ClientLog
    from embermq.cli.load.course import Course
    from embermq.cli.load.figures import Figures, FiguresSource
    from embermq.cli.load.tally import Tally

_SECONDS: Final = 10.0  # of a run that says neither messages nor seconds
_FAILED, _INTERRUPTED = 1, 130


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    noun = nouns.add_parser("bench", help="load with percentiles", allow_abbrev=False)
    verbs = noun.add_subparsers(title="commands", metavar="VERB", required=True)
    parser = add_verb(
        verbs,
        "send",
        bench_send,
        "send as fast as answers come, or at a rate, and tell how long each message took",
        example="ember bench send orders --seconds 10 --size 1024 --in-flight 128 --connections 4",
    )
    parser.add_argument("topic", metavar="TOPIC", help="made by the broker, if it makes topics on the fly")
    _add_limits(parser)
    parser.add_argument(
        "--size", metavar="BYTES", type=parse_count, default=1024, help="of a body, random bytes (1024)"
    )
    parser.add_argument(
        "--in-flight",
        metavar="N",
        type=parse_count,
        default=64,
        help="sends of one connection on their way at once (64)",
    )
    parser.add_argument("--connections", metavar="N", type=parse_count, default=1, help="to each broker (1)")
    parser.add_argument("--batch", metavar="N", type=parse_count, default=1, help="messages of one send (1)")
    parser.add_argument("--tags", metavar="TAG", help="what consumers filter by")
    parser.add_argument("--rate", metavar="N", type=parse_count, help="messages a second, of all connections together")
    parser = add_verb(
        verbs,
        "consume",
        bench_consume,
        "read as fast as messages come, and tell how old they are then",
        example="ember bench consume orders --from latest --seconds 10",
    )
    parser.add_argument("topic", metavar="TOPIC")
    _add_limits(parser)
    parser.add_argument(
        "--group", metavar="GROUP", help="join it and ack; without it no group is joined and no offset moves"
    )
    parser.add_argument(
        "--from",
        dest="start",
        choices=("earliest", "latest"),
        default="earliest",
        help="where to begin; a group goes on where it was (earliest)",
    )
    parser.add_argument("--batch", metavar="N", type=parse_count, default=32, help="messages of one pull at most (32)")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_mutually_exclusive_group()
    limits.add_argument("--messages", metavar="N", type=parse_count, help="end after so many")
    limits.add_argument("--seconds", metavar="S", type=_seconds, help=f"end after so long ({_SECONDS:g})")
    parser.add_argument(
        "--metrics",
        metavar="URL",
        help="where the server tells its figures; http://HOST:5557/metrics if the broker is on this machine",
    )


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < 1e9:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r}: seconds above 0 expected, such as 10 or 0.5")


def bench_send(arguments: argparse.Namespace) -> int:
    from embermq.cli.load.client_log import counting_events

    with counting_events() as log:
        return run_with_cluster(arguments, lambda cluster: _send(cluster, arguments, log))


def bench_consume(arguments: argparse.Namespace) -> int:
    from embermq.cli.load.client_log import counting_events

    with counting_events() as log:
        return run_with_cluster(arguments, lambda cluster: _consume(cluster, arguments, log))


async def _send(cluster: Cluster, arguments: argparse.Namespace, log: ClientLog) -> int:
    from embermq.cli.load.figures import find_figures
    from embermq.cli.load.report import notes_of, print_facts, print_report
    from embermq.cli.load.sending import LATENCY, Load, Sender, make_tally

    topic = arguments.topic
    load = Load(topic, arguments.size, arguments.in_flight, arguments.batch, arguments.tags, arguments.rate)
    route = await cluster.routes.find_writable(topic)
    tally, notes = make_tally(), list[str]()
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(make_client(arguments)) for _ in range(arguments.connections)]
        sender = Sender(clients, load, route)
        warmed_up = await sender.warm_up(tally, messages=arguments.messages and arguments.messages // 10)
        source = await find_figures(arguments.metrics, route, kind="send", topic=topic)
        course = _course(arguments)
        await sender.measure(course, tally)
        figures = await _finish(source, tally.messages, notes)
    facts = {
        "topic": topic,
        **{name: getattr(load, name) for name in ("size", "batch")},
        "inFlight": load.in_flight,
        "connections": arguments.connections,
        "warmUpMessages": warmed_up,
    }
    if arguments.json:
        print_facts(facts, tally, figures)
    else:
        batches = f", in batches of {load.batch}" if load.batch > 1 else ""
        places = f"{arguments.connections} × {load.in_flight} in flight{batches}"
        how = f"{load.size} bytes each, {places}; {warmed_up} to warm up"
        print_report(tally, figures, how=how, kinds={LATENCY: ""})
    rate = None if course.interrupted.is_set() else load.rate
    return _end(course, tally, [*notes, *notes_of(tally, log, rate=rate)])


async def _consume(cluster: Cluster, arguments: argparse.Namespace, log: ClientLog) -> int:
    from embermq.cli.load import consuming
    from embermq.cli.load.figures import find_figures
    from embermq.cli.load.report import notes_of, print_facts, print_report
    from embermq.cli.output import count_of

    reading = consuming.Reading(arguments.topic, arguments.start, arguments.batch, arguments.group)
    route = await cluster.routes.read(reading.topic)
    source = await find_figures(arguments.metrics, route, kind="pull", topic=reading.topic)
    tally, course, notes = consuming.make_tally(), _course(arguments), list[str]()
    async with make_client(arguments) as client:
        await consuming.consume(cluster, client, reading, course, tally)
    figures = await _finish(source, tally.messages, notes)
    if arguments.json:
        print_facts({"topic": reading.topic, "group": reading.group, "batch": reading.batch}, tally, figures)
    else:
        who = f"group {reading.group}" if reading.group else "without a group"
        titles = {consuming.SINCE_STORED: "since stored", consuming.SINCE_BORN: "since born"}
        print_report(tally, figures, how=f"{who}, {count_of(len(route.read_queues), 'queue')}", kinds=titles)
    return _end(course, tally, [*notes, *notes_of(tally, log)])


def _course(arguments: argparse.Namespace) -> Course:
    from embermq.cli.load.course import Course

    seconds = arguments.seconds if arguments.seconds or arguments.messages else _SECONDS
    return Course(messages=arguments.messages, seconds=seconds)


async def _finish(source: FiguresSource | None, messages: int, notes: list[str]) -> Figures | None:
    """What the server says of the run; that it says nothing is no reason to lose what was measured."""
    from embermq.errors import EmberError

    try:
        return None if source is None else await source.finish(messages)
    except EmberError as error:
        notes.append(str(error))
        return None


def _end(course: Course, tally: Tally, notes: list[str]) -> int:
    from embermq.cli.output import print_note

    sys.stdout.flush()  # so that the notes stand behind it wherever both go
    for note in notes:
        print_note(note)
    if course.interrupted.is_set():
        return _INTERRUPTED
    return _FAILED if tally.errors else 0
