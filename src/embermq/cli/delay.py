"""`ember delay …`: messages that wait for their time, and taking one back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from embermq.cli.connect import Nouns, add_safety, add_verb, confirm, run_with_cluster

if TYPE_CHECKING:
    from embermq.admin.cluster import Cluster
    from embermq.admin.delays import WaitingMessage

_DEFAULT_COUNT = 100


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    noun = nouns.add_parser(
        "delay", help="messages that wait for their time", description="Messages that wait for their time.",
        allow_abbrev=False,
    )  # fmt: skip
    verbs = noun.add_subparsers(title="verbs", metavar="VERB", required=True)
    parser = add_verb(
        verbs, "list", list_, "what waits, the next to come first", example="ember delay list --topic orders"
    )
    parser.add_argument("--topic", metavar="TOPIC", help="only what waits for this topic")
    parser.add_argument(
        "-n",
        "--limit",
        metavar="N",
        type=int,
        default=_DEFAULT_COUNT,
        help=f"at most so many ({_DEFAULT_COUNT}); 0 for all",
    )
    parser = add_verb(
        verbs,
        "cancel",
        cancel,
        "have a message never delivered",
        example="ember delay cancel orders 7F0000013D401C6A --yes",
    )
    parser.add_argument("topic", metavar="TOPIC", help="that it waits for")
    parser.add_argument("keys", metavar="KEY", nargs="+", help="its unique key, as `ember delay list` shows it")
    add_safety(parser)


def list_(arguments: argparse.Namespace) -> int:
    from embermq.admin.delays import list_waiting
    from embermq.cli.output import print_json, print_line

    found = run_with_cluster(arguments, lambda cluster: list_waiting(cluster, arguments.topic))
    shown = found[: arguments.limit] if arguments.limit > 0 else found
    for message in shown:
        if arguments.json:
            print_json(_facts(message))
        else:
            print_line(_line(message))
    if len(shown) < len(found) and not arguments.json:
        print_line(f"… and {len(found) - len(shown)} more; -n 0 shows all")
    return 0


def cancel(arguments: argparse.Namespace) -> int:
    from embermq.admin.delays import cancel_waiting, find_waiting
    from embermq.cli.output import print_json, print_line

    async def look(cluster: Cluster) -> list[WaitingMessage]:
        return [await find_waiting(cluster, arguments.topic, key) for key in arguments.keys]

    async def act(cluster: Cluster) -> None:
        for message in found:
            await cancel_waiting(cluster, message)

    found = run_with_cluster(arguments, look)
    if not arguments.dry_run:
        confirm(arguments, f"cancel {len(found)} message(s) for topic {arguments.topic}")
        run_with_cluster(arguments, act)
    for message in found:
        if arguments.json:
            print_json({**_facts(message), "done": not arguments.dry_run})
        else:
            print_line(f"{'would cancel' if arguments.dry_run else 'cancelled'} {message.unique_key}")
    return 0


def _facts(message: WaitingMessage) -> dict[str, object]:
    from embermq.cli.output import format_time

    facts: dict[str, object] = {
        "topic": message.topic,
        "queue": message.queue,
        "deliverAt": format_time(message.deliver_ms),
        "uniqueKey": message.unique_key,
        "broker": message.broker,
        "level": message.level,
        "tags": message.tags,
        "keys": list(message.keys),
        "recallHandle": message.recall_handle,
    }
    try:
        facts["body"] = message.body.decode()
    except UnicodeDecodeError:
        facts["bodyHex"] = message.body.hex()
    return facts


def _line(message: WaitingMessage) -> str:
    from embermq.cli.message import body_start
    from embermq.cli.output import format_time

    marks = f" tags={message.tags}" if message.tags else ""
    marks += f" keys={','.join(message.keys)}" if message.keys else ""
    marks += f" level={message.level}" if message.level is not None else ""
    place = f"{message.topic}/{message.queue}"
    return f"{format_time(message.deliver_ms)}  {place}{marks} id={message.unique_key}  {body_start(message.body)}"
