"""Staged batches for tests: requests as a client makes them, and what consumers see of them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence

from embermq.format.command import Command
from embermq.format.staged import StagedMessage, encode_staged
from embermq.store.store import Store
from tests.builders import read_all
from tests.unit.broker.brokers import Client, send_fields

STAGE, PUBLISH, DISCARD, FIND = 30_001, 30_002, 30_003, 30_004
BROKER = "broker-a"
JOB = "job-1"

WithBroker = Callable[..., None]  # see brokers.with_broker
Tasks = Sequence[tuple[str, int, int]]  # name, chunks, messages


def a_staged(body: bytes, *, queue: int = 0, properties: bytes = b"WAIT\x01true\x02") -> StagedMessage:
    return StagedMessage(queue, 0, 0, 1_700_000_000_000, body, properties)


async def stage(
    client: Client, task: str, sequence: int, /, *bodies: bytes | StagedMessage, topic: str = "orders", **fields: str
) -> Command:
    messages = [body if isinstance(body, StagedMessage) else a_staged(body) for body in bodies]
    data = encode_staged(messages)
    own = {"job": JOB, "task": task, "sequence": str(sequence), "crc": str(zlib.crc32(data))}
    return await client.ask(STAGE, {**send_fields(topic), **own, **fields}, data)


def plan_of(tasks: Tasks, *, broker: str = BROKER) -> bytes:
    names = ("name", "chunks", "messages")
    return json.dumps({broker: [dict(zip(names, task, strict=True)) for task in tasks]}).encode()


async def publish(client: Client, batch: int, tasks: Tasks, *, topics: str = "orders", job: str = JOB) -> Command:
    return await client.ask(PUBLISH, {"job": job, "batch": str(batch), "topics": topics}, plan_of(tasks))


async def discard(client: Client, *tasks: str, topics: str = "orders") -> Command:
    return await client.ask(DISCARD, {"job": JOB, "topics": topics}, plan_of([(task, 0, 0) for task in tasks]))


async def find(client: Client, batch: int) -> Mapping[str, str]:
    answer = await client.ask(FIND, {"job": JOB, "batch": str(batch), "topics": "orders"})
    assert answer.code == 0, answer
    return answer.fields


def seen(store: Store, topic: str = "orders") -> list[bytes]:
    """The bodies that consumers of a topic see, queue after queue."""
    return [body for (name, _), bodies in sorted(read_all(store).items()) if name == topic for body in bodies]
