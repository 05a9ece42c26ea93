"""`ember group …`: consumer groups of a cluster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from embermq.cli.connect import Nouns, add_safety, add_verb, confirm, parse_moment, run_with_cluster

if TYPE_CHECKING:
    from embermq.admin.group_changes import Move, Target
    from embermq.admin.groups import GroupView, QueueLag


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    noun = nouns.add_parser(
        "group", help="consumer groups of a cluster", description="Consumer groups of a cluster.", allow_abbrev=False
    )
    verbs = noun.add_subparsers(title="verbs", metavar="VERB", required=True)

    parser = add_verb(verbs, "list", list_all, "every group with its members and lag", example="ember group list")
    parser.add_argument("--all", action="store_true", help="also those of the system")

    parser = add_verb(
        verbs, "show", show, "lag of each queue, members and subscriptions", example="ember group show billing --json"
    )
    parser.add_argument("group", metavar="GROUP")

    parser = add_verb(verbs, "create", create, "make a group", example="ember group create billing --max-retries 5")
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("--max-retries", metavar="N", type=int, default=16, help="before it is a dead letter (16)")

    parser = add_verb(
        verbs, "delete", delete, "delete a group with its offsets, retries and dead letters",
        example="ember group delete billing --dry-run",
    )  # fmt: skip
    parser.add_argument("group", metavar="GROUP")
    add_safety(parser)

    parser = add_verb(
        verbs, "reset", reset, "have a group go on elsewhere", example="ember group reset billing orders --to 1h"
    )
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--to",
        metavar="WHERE",
        required=True,
        type=_parse_target,
        help="earliest, latest, a time (ISO, or how long ago, such as 10m), or an offset",
    )
    parser.add_argument("--queue", metavar="N", type=int, help="only this queue")
    add_safety(parser)


def _parse_target(text: str) -> Target:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    return int(text) if text.isascii() and text.isdigit() else parse_moment(text)


def list_all(arguments: argparse.Namespace) -> int:
    from embermq.admin.groups import list_groups
    from embermq.cli.output import print_json, print_table
    from embermq.model.group import PREDEFINED_GROUPS, SYSTEM_GROUP_PREFIX

    lines = run_with_cluster(arguments, list_groups)
    shown = [
        line
        for line in lines
        if arguments.all or not (line.group in PREDEFINED_GROUPS or line.group.startswith(SYSTEM_GROUP_PREFIX))
    ]
    if arguments.json:
        for line in shown:
            print_json(line._asdict())
    else:
        print_table(("group", "members", "lag"), shown)
    return 0


def show(arguments: argparse.Namespace) -> int:
    from embermq.admin.groups import show_group
    from embermq.cli.output import print_json, print_line, print_note, print_table

    view = run_with_cluster(arguments, lambda cluster: show_group(cluster, arguments.group))
    if arguments.json:
        print_json(_facts(view))
        return 0
    print_line(f"group    {view.group}, {view.lag} messages behind{_age_text(view.lag_ms, before=', ')}")
    for topic, wanted in sorted(view.subscriptions.items()):
        print_line(f"reads    {topic} with {wanted.expression!r} ({wanted.expression_type})")
    for client in view.members:
        print_line(f"member   {client.client_id} at {client.address} ({client.language})")
    if not view.members:
        print_line("member   none")
    for line in view.conflicts:
        print_line(f"conflict {line}")
    if view.queues:
        print_line("")
        heads = ("topic", "broker", "queue", "offset", "end", "lag", "behind", "member")
        print_table(heads, [_row(lag) for lag in view.queues])
    if view.conflicts:
        print_note("members of this group read different things, so messages are lost; let all subscribe to the same")
    return 0


def _row(lag: QueueLag) -> tuple[object, ...]:
    topic, broker, queue = lag.queue.topic, lag.queue.broker, lag.queue.queue
    return topic, broker, queue, lag.offset, lag.end, lag.lag, _age_text(lag.lag_ms) or "-", lag.client_id or "-"


def _age_text(milliseconds: int | None, *, before: str = "") -> str:
    """`1.5s`, `3m20s`, `2h05m`; nothing for None."""
    if milliseconds is None:
        return ""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{before}{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{before}{minutes}m{rest:02}s" if minutes < 60 else f"{before}{minutes // 60}h{minutes % 60:02}m"


def _facts(view: GroupView) -> dict[str, object]:
    return {
        "group": view.group,
        "lag": view.lag,
        "lagMs": view.lag_ms,
        "rate": view.rate,
        "consumeType": view.consume_type,
        "messageModel": view.message_model,
        "subscriptions": {
            topic: {"expression": wanted.expression, "type": wanted.expression_type}
            for topic, wanted in sorted(view.subscriptions.items())
        },
        "members": [
            {
                "clientId": client.client_id,
                "address": client.address,
                "language": client.language,
                "version": client.version,
            }
            for client in view.members
        ],
        "conflicts": list(view.conflicts),
        "brokers": {
            broker: {"maxRetries": config.max_retries, "retryQueues": config.retry_queues}
            for broker, config in view.configs.items()
        },
        "queues": [
            {
                "topic": lag.queue.topic,
                "broker": lag.queue.broker,
                "queue": lag.queue.queue,
                "offset": lag.offset,
                "end": lag.end,
                "lag": lag.lag,
                "lagMs": lag.lag_ms,
                "clientId": lag.client_id,
            }
            for lag in view.queues
        ],
    }


def create(arguments: argparse.Namespace) -> int:
    from embermq.admin.group_changes import create_group
    from embermq.cli.output import print_json, print_line
    from embermq.model.group import GroupConfig

    config = GroupConfig(arguments.group, max_retries=arguments.max_retries)
    brokers = run_with_cluster(arguments, lambda cluster: create_group(cluster, config))
    if arguments.json:
        print_json({"group": config.name, "brokers": brokers})
    else:
        print_line(f"created {config.name} at {', '.join(brokers)}")
    return 0


def delete(arguments: argparse.Namespace) -> int:
    from embermq.admin.cluster import Cluster
    from embermq.admin.group_changes import delete_group
    from embermq.admin.groups import show_group
    from embermq.cli.output import print_json, print_line

    async def work(cluster: Cluster) -> None:
        view = await show_group(cluster, arguments.group)
        what = f"delete group {view.group}, {view.lag} messages behind, with its offsets, retries and dead letters"
        if not arguments.dry_run:
            confirm(arguments, what)
            await delete_group(cluster, arguments.group)
        if arguments.json:
            print_json({"group": view.group, "lag": view.lag, "done": not arguments.dry_run})
        else:
            print_line(f"would {what}" if arguments.dry_run else f"deleted {view.group}")

    run_with_cluster(arguments, work)
    return 0


def reset(arguments: argparse.Namespace) -> int:
    from embermq.admin.cluster import Cluster
    from embermq.admin.group_changes import plan_reset, reset_group

    async def work(cluster: Cluster) -> list[Move]:
        target = arguments.to
        moves = await plan_reset(cluster, arguments.group, arguments.topic, target, queue=arguments.queue)
        if arguments.dry_run:
            return moves
        confirm(arguments, f"reset group {arguments.group} in {len(moves)} queues of topic {arguments.topic}")
        return await reset_group(cluster, arguments.group, moves)

    moves = run_with_cluster(arguments, work)
    _print_moves(arguments, moves)
    return 0


def _print_moves(arguments: argparse.Namespace, moves: list[Move]) -> None:
    from embermq.cli.output import print_json, print_note, print_table

    if arguments.json:
        for queue, before, after in moves:
            facts = {"topic": queue.topic, "broker": queue.broker, "queue": queue.queue}
            print_json({**facts, "before": before, "after": after, "done": not arguments.dry_run})
        return
    rows = [(queue.broker, queue.queue, "-" if before is None else before, after) for queue, before, after in moves]
    print_table(("broker", "queue", "before", "after"), rows)
    if arguments.dry_run:
        print_note("nothing was done, because of --dry-run")
