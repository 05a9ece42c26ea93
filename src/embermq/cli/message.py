"""`ember message …`: one message whole, or all with a key."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from embermq.cli.connect import Nouns, add_verb, parse_moment, run_with_cluster

if TYPE_CHECKING:
    from embermq.model.message import StoredMessage

_SHOWN_BODY = 60  # bytes of a body in a line
_HEX_LINE = 32


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    noun = nouns.add_parser(
        "message", help="single messages", description="Single messages of a cluster.", allow_abbrev=False
    )
    verbs = noun.add_subparsers(title="verbs", metavar="VERB", required=True)
    parser = add_verb(
        verbs, "get", get, "one message whole", example="ember message get 7F00000100002A9F0000000000000400"
    )
    parser.add_argument("id", metavar="ID", help="the broker's id; with --topic also the producer's (unique key)")
    parser.add_argument("--topic", metavar="TOPIC", help="where to look for a unique key")

    parser = add_verb(
        verbs, "find", find, "messages with a key", example="ember message find orders --key o-1 --since 1d"
    )
    parser.add_argument("topic", metavar="TOPIC")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--key", metavar="KEY", help="one of the keys that the sender gave")
    which.add_argument("--unique-key", metavar="KEY", help="the id that the producer made")
    parser.add_argument(
        "--since", metavar="TIME", type=parse_moment, help="stored since then: 10m for ten minutes ago, or an ISO time"
    )
    parser.add_argument("-n", "--limit", metavar="N", type=int, default=64, help="at most so many (64)")


def get(arguments: argparse.Namespace) -> int:
    from embermq.admin.messages import find_message
    from embermq.cli.output import print_json

    message = run_with_cluster(arguments, lambda cluster: find_message(cluster, arguments.id, arguments.topic))
    if arguments.json:
        print_json(message_facts(message))
    else:
        _print_whole(message)
    return 0


def find(arguments: argparse.Namespace) -> int:
    from embermq.admin.messages import find_messages
    from embermq.cli.output import print_json, print_line
    from embermq.errors import MessageNotFound

    messages = run_with_cluster(
        arguments,
        lambda cluster: find_messages(
            cluster,
            arguments.topic,
            key=arguments.key,
            unique_key=arguments.unique_key,
            since=arguments.since,
            limit=arguments.limit,
        ),
    )
    if not messages:
        raise MessageNotFound(
            f"no message of topic {arguments.topic!r} with key {arguments.key or arguments.unique_key!r}"
        )
    for message in messages:
        if arguments.json:
            print_json(message_facts(message))
        else:
            print_line(message_line(message, with_id=True))
    return 0


def message_facts(message: StoredMessage) -> dict[str, object]:
    """A message for programs. A body that is no text is in `bodyHex`."""
    from embermq.cli.output import format_time
    from embermq.client.incoming import unique_key_of

    facts: dict[str, object] = {
        "topic": message.topic,
        "queue": message.queue,
        "offset": message.offset,
        "messageId": message.message_id,
        "uniqueKey": unique_key_of(message),
        "storeTime": format_time(message.store_time_ms),
        "bornTime": format_time(message.born_time_ms),
        "tags": message.tags,
        "keys": list(message.keys),
        "properties": dict(message.properties),
        "bornHost": str(message.born_host),
        "storeHost": str(message.store_host),
        "attempt": message.reconsume_times + 1,
    }
    try:
        facts["body"] = message.body.decode()
    except UnicodeDecodeError:
        facts["bodyHex"] = message.body.hex()
    return facts


def message_line(message: StoredMessage, *, with_id: bool = False) -> str:
    """A message on one line, for people; with its id, only the beginning of its body."""
    from embermq.cli.output import format_time

    marks = f" tags={message.tags}" if message.tags else ""
    marks += f" keys={','.join(message.keys)}" if message.keys else ""
    marks += f" id={message.message_id}" if with_id else ""
    place = f"{message.topic}/{message.queue}/{message.offset}"
    body = body_start(message.body) if with_id else message.body.decode(errors="backslashreplace")
    return f"{format_time(message.store_time_ms)}  {place}{marks}  {body}"


def body_start(body: bytes) -> str:
    """The beginning of a body, on one line with other things."""
    if len(body) <= _SHOWN_BODY:
        return body.decode(errors="backslashreplace")
    return f"{body[:_SHOWN_BODY].decode(errors='backslashreplace')}… {len(body)} bytes"


def _print_whole(message: StoredMessage) -> None:
    from embermq.cli.output import print_line

    facts = message_facts(message)
    for name, value in facts.items():
        if name in ("properties", "body", "bodyHex"):
            continue
        if value not in (None, []):
            print_line(f"{name:<11} {', '.join(value) if isinstance(value, list) else value}")
    print_line("properties")
    for name, value in sorted(message.properties.items()):
        print_line(f"  {name}={value}")
    print_line(f"body        {len(message.body)} bytes")
    for line in body_lines(message.body):
        print_line(f"  {line}")


def body_lines(body: bytes) -> list[str]:
    """A body as text, JSON or, if it is neither, hexadecimal."""
    import contextlib
    import json

    try:
        text = body.decode()
    except UnicodeDecodeError:
        return [body[at : at + _HEX_LINE].hex(" ") for at in range(0, len(body), _HEX_LINE)]
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):  # what only looks like JSON is shown as it is
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return text.splitlines()
