"""Sending: one message, or many in batches; tried again while the broker is away or busy and time is left.

A send that timed out may have been stored all the same, so a message can arrive twice; its unique
key is then the same.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import secrets
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final, NamedTuple

from embermq.client.answers import refusal_of
from embermq.client.assignment import name_of
from embermq.client.connections import Connections
from embermq.client.outgoing import Outgoing, choose_queue, packed_body, prepare, send_fields
from embermq.client.retry import Backoff, Deadline, is_passing
from embermq.client.routes import Route, Routes
from embermq.errors import CallTimeout, EmberError, IllegalMessage, NoRoute, Refused, TopicNotFound
from embermq.format.batch import BatchElement, encode_batch
from embermq.format.command import Command
from embermq.format.host import encode_address
from embermq.format.message_id import UniqueIds
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import Message

BATCH_SIZE: Final = 1024 * 1024  # bytes; a larger message goes alone
BATCH_COUNT: Final = 4000  # its answer has all ids in a header
SENDS_AT_ONCE: Final = 32
_BATCH_PROPERTIES: Final = "WAIT\x01true\x02"


class SendStatus(IntEnum):
    """How safe a message is that was stored; the numbers are RocketMQ's."""

    STORED = ResponseCode.SUCCESS  # as safe as the broker's durability mode promises
    FLUSH_TIMED_OUT = ResponseCode.FLUSH_DISK_TIMEOUT  # written, but not known to be on disk in time
    NO_REPLICA = ResponseCode.SLAVE_NOT_AVAILABLE
    REPLICA_TIMED_OUT = ResponseCode.FLUSH_SLAVE_TIMEOUT


class SendReceipt(NamedTuple):
    """Where a message went."""

    topic: str
    broker: str
    queue: int
    offset: int
    message_id: str  # the broker's: its address and the position in its log
    unique_key: str  # the producer's
    status: SendStatus = SendStatus.STORED

    @property
    def position(self) -> int:
        """The byte in the broker's log."""
        return int(self.message_id[-16:], 16)


class _Run(NamedTuple):
    """Messages that travel together, and their numbers in what was given to send_many."""

    target: BrokerQueue
    messages: list[Outgoing]
    numbers: list[int]


class Producer:
    """Sends for one client."""

    def __init__(self, connections: Connections, routes: Routes, *, group: str) -> None:
        self.group = group
        self.used_brokers: set[str] = set()  # addresses; they get heartbeats
        self._connections = connections
        self._routes = routes
        self._turns = itertools.count(random.randrange(1 << 16))
        self._ids: UniqueIds | None = None
        self._ids_of = 0  # the process that made them: a fork must not give the same ids

    async def send(
        self,
        message: Message,
        *,
        timeout_s: float,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
        sharding_key: str | None = None,
    ) -> SendReceipt:
        """Send one message and wait until the broker has stored it."""
        deadline = Deadline(timeout_s)
        route = await self._route(message.topic, deadline)
        outgoing = prepare(message, self._next_id(), delay=delay, deliver_at=deliver_at, sharding_key=sharding_key)
        target = choose_queue(outgoing, route.write_queues, next(self._turns))
        return await self._send_alone(outgoing, target, deadline)

    async def send_half(self, message: Message, *, timeout_s: float, sharding_key: str | None = None) -> SendReceipt:
        """Send a message that nobody sees before its transaction is committed."""
        deadline = Deadline(timeout_s)
        route = await self._route(message.topic, deadline)
        outgoing = prepare(message, self._next_id(), sharding_key=sharding_key, half_of=self.group)
        target = choose_queue(outgoing, route.write_queues, next(self._turns))
        return await self._send_alone(outgoing, target, deadline)

    async def send_many(self, messages: Iterable[Message], *, timeout_s: float) -> list[SendReceipt | EmberError]:
        """Send messages in batches; the result has, for each in its order, a receipt or what went wrong."""
        given = list(messages)
        deadline = Deadline(timeout_s)
        outcomes: list[SendReceipt | EmberError | None] = [None] * len(given)
        runs = await self._plan(given, outcomes, deadline)
        limit = asyncio.Semaphore(SENDS_AT_ONCE)

        async def run_one(run: _Run) -> None:
            async with limit:
                for number, outcome in zip(run.numbers, await self._send_run(run, deadline), strict=True):
                    outcomes[number] = outcome

        await asyncio.gather(*map(run_one, runs))
        complete = [outcome for outcome in outcomes if outcome is not None]
        assert len(complete) == len(given)
        return complete

    async def _plan(
        self, given: Sequence[Message], outcomes: list[SendReceipt | EmberError | None], deadline: Deadline
    ) -> list[_Run]:
        """Which messages travel together; what cannot be sent at all goes to `outcomes`."""
        open_runs: dict[BrokerQueue, _Run] = {}
        sizes: dict[BrokerQueue, int] = {}
        runs: list[_Run] = []
        routes: dict[str, Route | EmberError] = {}
        for number, message in enumerate(given):
            try:
                route = routes.get(message.topic)
                if route is None:
                    route = routes[message.topic] = await self._route_or_error(message.topic, deadline)
                if isinstance(route, EmberError):
                    raise route
                outgoing = prepare(message, self._next_id())
                target = choose_queue(outgoing, route.write_queues, next(self._turns))
            except EmberError as error:
                outcomes[number] = error
                continue
            if outgoing.must_be_alone or outgoing.size > BATCH_SIZE:
                runs.append(_Run(target, [outgoing], [number]))
                continue
            run = open_runs.get(target)
            size = sizes.get(target, 0) + outgoing.size
            if run is None or size > BATCH_SIZE or len(run.messages) >= BATCH_COUNT:
                run = open_runs[target] = _Run(target, [], [])
                runs.append(run)
                size = outgoing.size
            run.messages.append(outgoing)
            run.numbers.append(number)
            sizes[target] = size
        return runs

    async def _send_run(self, run: _Run, deadline: Deadline) -> Sequence[SendReceipt | EmberError]:
        try:
            if len(run.messages) == 1:
                return [await self._send_alone(run.messages[0], run.target, deadline)]
            return await self._send_batch(run.messages, run.target, deadline)
        except EmberError as error:
            return [error] * len(run.messages)

    async def _send_alone(self, message: Outgoing, target: BrokerQueue, deadline: Deadline) -> SendReceipt:
        body, sys_flag = packed_body(message)
        fields = self._fields(target, message.properties.decode(), sys_flag=sys_flag, flag=message.flag)
        may_move = message.queue is None and message.sharding_key is None
        target, answer = await self._deliver(
            RequestCode.SEND_MESSAGE_V2, fields, body, target, deadline, may_move=may_move
        )
        return _receipt(answer, target, answer.fields.get("msgId", ""), message.unique_key, 0)

    async def _send_batch(
        self, messages: Sequence[Outgoing], target: BrokerQueue, deadline: Deadline
    ) -> list[SendReceipt]:
        body = encode_batch(BatchElement(each.flag, each.body, each.properties) for each in messages)
        fields = self._fields(target, _BATCH_PROPERTIES, is_batch=True)
        may_move = all(each.queue is None and each.sharding_key is None for each in messages)
        target, answer = await self._deliver(
            RequestCode.SEND_BATCH_MESSAGE, fields, body, target, deadline, may_move=may_move
        )
        ids = answer.fields.get("msgId", "").split(",")
        if len(ids) != len(messages):
            raise Refused(
                answer.code, f"{len(ids)} ids for {len(messages)} messages", asked=f"send to {name_of(target)}"
            )
        return [
            _receipt(answer, target, message_id, message.unique_key, number)
            for number, (message_id, message) in enumerate(zip(ids, messages, strict=True))
        ]

    async def _deliver(
        self, code: int, fields: dict[str, str], body: bytes, target: BrokerQueue, deadline: Deadline, *, may_move: bool
    ) -> tuple[BrokerQueue, Command]:
        """Send until a broker has stored it, at another queue if this one fails and the sender does not mind."""
        backoff = Backoff(longest_s=1.0)
        while True:
            try:
                return target, await self._deliver_once(code, fields, body, target, deadline)
            except EmberError as error:
                if not _may_retry(error) or deadline.has_passed:
                    raise
                wait_s = backoff.next()
                if wait_s >= deadline.left_s:
                    raise
                await asyncio.sleep(wait_s)
            route = await self._route(target.topic, deadline, refresh=True)
            if may_move:
                target = route.write_queues[next(self._turns) % len(route.write_queues)]
                fields = {**fields, "e": str(target.queue), "n": target.broker}

    async def _deliver_once(
        self, code: int, fields: dict[str, str], body: bytes, target: BrokerQueue, deadline: Deadline
    ) -> Command:
        route = await self._route(target.topic, deadline)
        address = route.address_of(target.broker)
        answer = await self._connections.call(address, code, fields, body, timeout_s=deadline.left_s)
        if answer.code not in SendStatus.__members__.values():
            raise refusal_of(answer, f"send to {name_of(target)}", topic=target.topic)
        self.used_brokers.add(address)
        if route.is_template:
            self._routes.forget(target.topic)  # it exists now
        return answer

    def _fields(
        self, target: BrokerQueue, properties: str, *, sys_flag: int = 0, flag: int = 0, is_batch: bool = False
    ) -> dict[str, str]:
        return send_fields(
            target,
            group=self.group,
            properties=properties,
            sys_flag=sys_flag,
            flag=flag,
            born_ms=time.time_ns() // 1_000_000,
            is_batch=is_batch,
        )

    async def _route(self, topic: str, deadline: Deadline, *, refresh: bool = False) -> Route:
        """Where to send. Name servers that were there before are waited for; an address that never answered is not."""
        backoff = Backoff(longest_s=1.0)
        try:
            async with asyncio.timeout(deadline.left_s):
                while True:
                    try:
                        return await self._routes.find_writable(topic, refresh=refresh)
                    except EmberError as error:
                        wait_s = backoff.next()
                        if not is_passing(error) or not self._routes.has_answered or wait_s >= deadline.left_s:
                            raise
                        await asyncio.sleep(wait_s)
        except TimeoutError as error:
            raise CallTimeout(f"no route of topic {topic!r} within {deadline.seconds:g} s") from error

    async def _route_or_error(self, topic: str, deadline: Deadline) -> Route | EmberError:
        try:
            return await self._route(topic, deadline)
        except EmberError as error:
            return error

    def _next_id(self) -> str:
        if self._ids is None or self._ids_of != os.getpid():
            self._ids_of = os.getpid()
            address = encode_address(self._connections.local_address)
            self._ids = UniqueIds(address, process=self._ids_of, instance=secrets.randbits(32))
        return self._ids.next()


def _may_retry(error: EmberError) -> bool:
    # A topic that is being made, or moved, is missing at some brokers for a moment.
    return is_passing(error) or isinstance(error, TopicNotFound | NoRoute)


def _receipt(answer: Command, target: BrokerQueue, message_id: str, unique_key: str, number: int) -> SendReceipt:
    try:
        queue, offset = int(answer.fields["queueId"]), int(answer.fields["queueOffset"])
        int(message_id[-16:], 16)
    except (KeyError, ValueError) as error:
        raise IllegalMessage(f"the broker's answer to a send to {name_of(target)} makes no sense: {error!r}") from error
    status = SendStatus(answer.code)
    return SendReceipt(target.topic, target.broker, queue, offset + number, message_id, unique_key, status)
