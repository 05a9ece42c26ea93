"""`ember topic …`: topics of a cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from embermq.cli.connect import Nouns, add_safety, add_verb, confirm, run_with_cluster

if TYPE_CHECKING:
    from embermq.admin.topics import TopicView
    from embermq.model.topic import TopicConfig

_PERMISSIONS = {"rw": 6, "r": 4, "w": 2, "none": 0}


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    noun = nouns.add_parser("topic", help="topics of a cluster", description="Topics of a cluster.", allow_abbrev=False)
    verbs = noun.add_subparsers(title="verbs", metavar="VERB", required=True)

    parser = add_verb(verbs, "list", list_all, "every topic", example="ember topic list")
    parser.add_argument("--all", action="store_true", help="also retries, dead letters and the system's own")

    parser = add_verb(
        verbs, "show", show, "settings, queues and groups of a topic", example="ember topic show orders --json"
    )
    parser.add_argument("topic", metavar="TOPIC")

    parser = add_verb(verbs, "create", create, "make a topic", example="ember topic create orders --queues 8")
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--queues", metavar="N", type=int, default=4, help="queues at each broker (4)")
    parser.add_argument("--permission", choices=sorted(_PERMISSIONS), default="rw", help="what may be done (rw)")
    parser.add_argument("--order", action="store_true", help="keep the queues when a broker is away")
    parser.add_argument(
        "--attribute", metavar="NAME=VALUE", action="append", default=[], type=_pair, help="such as message.type=FIFO"
    )

    parser = add_verb(
        verbs, "update", update, "change a topic", example="ember topic update orders --queues 16 --dry-run"
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--queues", metavar="N", type=int, help="queues at each broker")
    parser.add_argument("--read-queues", metavar="N", type=int, help="queues that are read, where they differ")
    parser.add_argument("--write-queues", metavar="N", type=int, help="queues that are written, where they differ")
    parser.add_argument("--permission", choices=sorted(_PERMISSIONS), help="what may be done")
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be done")

    parser = add_verb(
        verbs, "delete", delete, "delete a topic and its messages", example="ember topic delete orders --dry-run"
    )
    parser.add_argument("topic", metavar="TOPIC")
    add_safety(parser)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r}: NAME=VALUE expected")
    return name, value


def list_all(arguments: argparse.Namespace) -> int:
    from embermq.admin.topics import list_topics
    from embermq.cli.output import print_json, print_table

    lines = run_with_cluster(arguments, list_topics)
    shown = [line for line in lines if arguments.all or line.kind == "normal"]
    if arguments.json:
        for line in shown:
            print_json({"topic": line.topic, "kind": line.kind})
    elif arguments.all:
        print_table(("topic", "kind"), shown)
    else:
        print_table(("topic",), [(line.topic,) for line in shown])
    return 0


def show(arguments: argparse.Namespace) -> int:
    from embermq.admin.topics import show_topic
    from embermq.cli.output import print_json, print_line, print_table

    view = run_with_cluster(arguments, lambda cluster: show_topic(cluster, arguments.topic))
    if arguments.json:
        print_json(_facts(view))
        return 0
    print_line(f"topic   {view.topic}, {view.messages} messages")
    for broker, config in view.configs.items():
        print_line(f"broker  {broker}: {_config_text(config)}")
    print_line(f"groups  {', '.join(view.groups) or 'none'}")
    print_line("")
    print_table(
        ("broker", "queue", "min", "max", "last message"),
        [
            (queue.broker, queue.queue, stats.first_offset, stats.next_offset, _time_text(stats.last_time))
            for queue, stats in view.queues.items()
        ],
    )
    return 0


def _time_text(milliseconds: int) -> str:
    from embermq.cli.output import format_time

    return format_time(milliseconds) if milliseconds > 0 else "-"


def _config_text(config: TopicConfig) -> str:
    permission = next((name for name, bits in _PERMISSIONS.items() if bits == config.permission & 6), "none")
    attributes = "".join(f" {name}={value}" for name, value in config.attributes.items())
    order = " order" if config.order else ""
    return f"read {config.read_queues} write {config.write_queues} queues, {permission}{order}{attributes}"


def _facts(view: TopicView) -> dict[str, object]:
    return {
        "topic": view.topic,
        "messages": view.messages,
        "groups": list(view.groups),
        "brokers": {broker: _config_facts(config) for broker, config in view.configs.items()},
        "queues": [
            {
                "broker": queue.broker,
                "queue": queue.queue,
                "min": stats.first_offset,
                "max": stats.next_offset,
                "lastTime": stats.last_time or None,
            }
            for queue, stats in view.queues.items()
        ],
    }


def _config_facts(config: TopicConfig) -> dict[str, object]:
    return {
        "readQueues": config.read_queues,
        "writeQueues": config.write_queues,
        "permission": int(config.permission),
        "order": config.order,
        "attributes": dict(config.attributes),
    }


def create(arguments: argparse.Namespace) -> int:
    from embermq.admin.topics import create_topic
    from embermq.cli.output import print_json, print_line
    from embermq.model.topic import TopicConfig

    config = TopicConfig(
        arguments.topic,
        read_queues=arguments.queues,
        write_queues=arguments.queues,
        permission=_PERMISSIONS[arguments.permission],
        order=arguments.order,
        attributes=dict(arguments.attribute),
    )
    brokers = run_with_cluster(arguments, lambda cluster: create_topic(cluster, config))
    if arguments.json:
        print_json({"topic": config.name, "brokers": [broker.name for broker in brokers]})
    else:
        print_line(f"created {config.name} at {', '.join(broker.name for broker in brokers)}")
    return 0


def update(arguments: argparse.Namespace) -> int:
    from embermq.admin.topics import update_topic
    from embermq.cli.output import print_json, print_line

    changes = run_with_cluster(
        arguments,
        lambda cluster: update_topic(
            cluster,
            arguments.topic,
            read_queues=arguments.read_queues or arguments.queues,
            write_queues=arguments.write_queues or arguments.queues,
            permission=None if arguments.permission is None else _PERMISSIONS[arguments.permission],
            dry_run=arguments.dry_run,
        ),
    )
    for broker, old, new in changes:
        if arguments.json:
            facts = {"broker": broker.name, "before": _config_facts(old), "after": _config_facts(new)}
            print_json({"topic": arguments.topic, **facts, "done": not arguments.dry_run})
        else:
            word = "would change" if arguments.dry_run else "changed"
            print_line(f"{word} {arguments.topic} at {broker.name}: {_config_text(old)} -> {_config_text(new)}")
    return 0


def delete(arguments: argparse.Namespace) -> int:
    from embermq.admin.cluster import Cluster
    from embermq.admin.topics import delete_topic, show_topic
    from embermq.cli.output import print_json, print_line

    async def work(cluster: Cluster) -> None:
        view = await show_topic(cluster, arguments.topic)
        groups = f", read by {', '.join(view.groups)}" if view.groups else ""
        what = f"delete topic {view.topic} with {view.messages} messages at {', '.join(view.configs)}{groups}"
        if not arguments.dry_run:
            confirm(arguments, what)
            await delete_topic(cluster, arguments.topic)
        if arguments.json:
            print_json({**_facts(view), "done": not arguments.dry_run})
        else:
            print_line(f"would {what}" if arguments.dry_run else f"deleted {view.topic}")

    run_with_cluster(arguments, work)
    return 0
