"""`ember send`: a message from the command line, or many from stdin."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from embermq.cli.connect import Nouns, add_verb, parse_duration, parse_time, run_with_client

if TYPE_CHECKING:
    from embermq.client.client import AsyncClient
    from embermq.client.producer import SendReceipt
    from embermq.model.message import Message

_CHUNK: Final = 1000  # messages of stdin that are sent together
_REPORT_EVERY_S: Final = 0.2
_FIELDS: Final = (
    "topic",
    "body",
    "bodyHex",
    "tags",
    "keys",
    "properties",
    "delay",
    "deliverAt",
    "shardingKey",
    "queue",
)
# What `ember tail --json` prints besides, so that its output can be sent again.
_IGNORED: Final = (*("offset", "messageId", "uniqueKey", "storeTime", "bornTime", "bornHost", "storeHost", "attempt"),)


def add_commands(nouns: Nouns[argparse.ArgumentParser]) -> None:
    parser = add_verb(
        nouns,
        "send",
        send,
        "send a message, or every line of stdin",
        example="ember send orders 'hello' --tags eu --key o-1",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("body", metavar="BODY", nargs="?", help="without it, each line of stdin is a message")
    parser.add_argument(
        "--jsonl", action="store_true", help=f"lines of stdin are JSON objects with {', '.join(_FIELDS)}"
    )
    parser.add_argument("--tags", metavar="TAG", help="what consumers filter by")
    parser.add_argument(
        "--key", metavar="KEY", action="append", default=[], help="what it is found by; may be repeated"
    )
    parser.add_argument(
        "--property", metavar="NAME=VALUE", action="append", default=[], type=_pair, help="may be repeated"
    )
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--delay", metavar="TIME", type=parse_duration, help="deliver so much later, such as 90s or 2d")
    when.add_argument(
        "--deliver-at", metavar="TIME", type=parse_time, help="deliver at this time, such as 2026-11-01T12:00Z"
    )
    parser.add_argument("--sharding-key", metavar="KEY", help="messages with one key stay in order")
    parser.add_argument("--queue", metavar="N", type=int, help="to this queue")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: NAME=VALUE expected")
    return name, value


def send(arguments: argparse.Namespace) -> int:
    if arguments.body is None:
        return run_with_client(arguments, lambda client: _send_stdin(client, arguments))

    async def work(client: AsyncClient) -> SendReceipt:
        return await client.send(
            arguments.topic,
            arguments.body.encode(),
            tags=arguments.tags,
            keys=arguments.key,
            properties=dict(arguments.property),
            delay=arguments.delay,
            deliver_at=arguments.deliver_at,
            sharding_key=arguments.sharding_key,
            queue=arguments.queue,
        )

    _print_receipt(arguments, run_with_client(arguments, work))
    return 0


def _print_receipt(arguments: argparse.Namespace, receipt: SendReceipt) -> None:
    from embermq.cli.output import print_json, print_line

    if arguments.json:
        print_json(
            {
                "topic": receipt.topic,
                "broker": receipt.broker,
                "queue": receipt.queue,
                "offset": receipt.offset,
                "messageId": receipt.message_id,
                "uniqueKey": receipt.unique_key,
                "status": receipt.status.name,
            }
        )
    else:
        place = f"{receipt.topic}/{receipt.broker}/{receipt.queue}/{receipt.offset}"
        print_line(f"{place}  {receipt.message_id}{_status_text(receipt)}")


def _status_text(receipt: SendReceipt) -> str:
    from embermq.client.producer import SendStatus

    return "" if receipt.status is SendStatus.STORED else f"  {receipt.status.name}"


async def _send_stdin(client: AsyncClient, arguments: argparse.Namespace) -> int:
    from embermq.cli.output import count_of, print_note
    from embermq.errors import EmberError

    messages = _read_jsonl(arguments) if arguments.jsonl else _read_lines(arguments)
    sent = failed = 0
    began = time.monotonic()
    progress = _RateLine()
    try:
        while chunk := list(islice(messages, _CHUNK)):
            for outcome in await client.send_many(chunk, timeout=arguments.timeout):
                if isinstance(outcome, EmberError):
                    failed += 1
                    print_note(f"message {sent + failed}: {' '.join(str(outcome).split())}")
                else:
                    sent += 1
                    if arguments.json:
                        _print_receipt(arguments, outcome)
            progress(sent, time.monotonic() - began)
    finally:
        progress.end()
    rate = sent / max(0.001, time.monotonic() - began)
    print_note(f"sent {count_of(sent, 'message')}, {failed} failed, {rate:.0f} a second")
    return 1 if failed else 0


def _read_lines(arguments: argparse.Namespace) -> Iterator[Message]:
    for line in sys.stdin.buffer:
        yield _message(arguments, line.rstrip(b"\r\n"), {})


def _read_jsonl(arguments: argparse.Namespace) -> Iterator[Message]:
    from embermq.errors import IllegalMessage

    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            if not isinstance(fields, dict):
                raise ValueError(f"an object expected, found {type(fields).__name__}")
            yield _message(arguments, _body(fields), fields)
        except (ValueError, TypeError, AttributeError, argparse.ArgumentTypeError) as error:
            raise IllegalMessage(f"line {number} of stdin: {error}; what came before it is sent") from error


def _body(fields: Mapping[str, object]) -> bytes:
    unknown = [name for name in fields if name not in (*_FIELDS, *_IGNORED)]
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; known are {', '.join(_FIELDS)}")
    if "bodyHex" in fields:
        return bytes.fromhex(str(fields["bodyHex"]))
    body = fields.get("body", "")
    return body.encode() if isinstance(body, str) else json.dumps(body, separators=(",", ":")).encode()


def _message(arguments: argparse.Namespace, body: bytes, fields: Mapping[str, object]) -> Message:
    """A message from what a line says, and from the options for all that it does not say."""
    from embermq.client.outgoing import delay_properties
    from embermq.model.message import Message
    from embermq.model.properties import RESERVED, SHARDING_KEY

    given = fields.get("properties") or {}
    if not isinstance(given, dict):
        raise ValueError("properties: an object expected")
    properties = dict(arguments.property)
    # The system's own come from `ember tail --json`; the new message gets new ones.
    properties.update({str(name): str(value) for name, value in given.items() if name not in RESERVED})
    deliver_at = _deliver_at(fields.get("deliverAt"), arguments.deliver_at)
    delay = _delay(fields.get("delay"), arguments.delay if deliver_at is None else None)
    properties.update(delay_properties(delay, deliver_at))
    sharding_key = fields.get("shardingKey", arguments.sharding_key)
    if sharding_key is not None:
        properties[SHARDING_KEY] = str(sharding_key)
    tags = fields.get("tags", arguments.tags)
    queue = fields.get("queue", arguments.queue) if "messageId" not in fields else arguments.queue
    if queue is not None and not isinstance(queue, int):
        raise ValueError(f"queue: a number expected, found {queue!r}")
    return Message(
        str(fields.get("topic", arguments.topic)) if "messageId" not in fields else arguments.topic,
        body,
        None if tags is None else str(tags),
        _keys(fields.get("keys"), arguments.key),
        properties,
        queue,
    )


def _keys(value: object, default: Sequence[str]) -> tuple[str, ...]:
    if value is None:
        return tuple(default)
    if isinstance(value, str):
        return tuple(value.split())
    if not isinstance(value, list):
        raise ValueError(f"keys: an array of texts expected, found {value!r}")
    return tuple(map(str, value))


def _deliver_at(value: object, default: datetime | None) -> datetime | None:
    if value is None:
        return default
    if not isinstance(value, str):
        raise ValueError(f"deliverAt: a time such as '2026-11-01T12:00:00Z' expected, found {value!r}")
    return parse_time(value)


def _delay(value: object, default: timedelta | None) -> timedelta | None:
    match value:
        case None:
            return default
        case int() | float():
            return timedelta(seconds=value)
        case str():
            return parse_duration(value)
    raise ValueError(f"delay: seconds, or a text such as '10s', expected, found {value!r}")


class _RateLine:
    """How many are sent, on one line of stderr that is written over; nothing where that is no terminal."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._shown_at = 0.0

    def __call__(self, sent: int, seconds: float) -> None:
        now = time.monotonic()
        if self._is_shown and now - self._shown_at >= _REPORT_EVERY_S:
            self._shown_at = now
            rate = sent / max(0.001, seconds)
            print(f"\rsent {sent} messages, {rate:.0f} a second", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self._shown_at:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
