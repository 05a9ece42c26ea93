"""Staged batches: many workers write one batch, and consumers see all of it or nothing, once.

    each worker   StagedWriter.add … finish ─→ what it staged at which broker
    then one      Staging.publish(batch, …)  ─→ visible; or Staging.discard

A batch may go to several brokers. The first that is asked to publish keeps, durably, which tasks at which brokers make
up the batch. Whoever publishes the same batch again, with other tasks because its workers wrote it anew, is told and
publishes the first ones. So each message comes once, as long as that broker can be asked.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from embermq.client.answers import check_answer
from embermq.client.connections import Connections
from embermq.client.outgoing import Outgoing, choose_queue, packed_body, send_fields
from embermq.client.retry import Backoff, Deadline, is_passing
from embermq.client.routes import Route, Routes
from embermq.errors import CallTimeout, EmberError, NoRoute, NotSupported, PropertiesTooLarge
from embermq.format.command import Command
from embermq.format.record_layout import MAX_PROPERTIES_SIZE
from embermq.format.staged import StagedMessage, encode_staged
from embermq.format.staged_json import decode_plan, encode_plan
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode
from embermq.model.staged import Plan, StagedTask, check_name
from embermq.model.topic import TEMPLATE_TOPIC

CHUNK_SIZE: Final = 1024 * 1024  # bytes; a larger message goes alone
MOST_WAITING: Final = 32 * CHUNK_SIZE


class Staging:
    """The batches of one job, whose numbers rise."""

    def __init__(self, connections: Connections, routes: Routes, job: str, *, timeout_s: float) -> None:
        self._job = check_name(job, "job")
        self._connections = connections
        self._routes = routes
        self._timeout_s = timeout_s

    def writer(self, task: str) -> StagedWriter:
        """For one worker; `task` is a name that no other worker, and no other try, has."""
        return StagedWriter(self, check_name(task, "task"))

    async def can_stage(self, topic: str) -> bool:
        """Whether all brokers of a topic keep staged messages: RocketMQ's do not."""
        route = await self._routes.find_writable(topic)
        try:
            for broker in sorted({queue.broker for queue in route.write_queues}):
                await self._ask(broker, [topic], RequestCode.FIND_PUBLISHED, {"batch": "0", "topics": topic})
        except NotSupported:
            return False
        return True

    async def publish(self, batch: int, plan: Plan, topics: Iterable[str]) -> bool:
        """Make a batch visible; False if it was published before. Tried again while a broker is away and time is left.

        `plan` is what the writers staged, `topics` where it goes.
        """
        names = sorted(set(topics))
        decided, is_done = await self._find_decided(batch, plan, names)
        fields = {"batch": str(batch), "topics": ";".join(names)}
        is_new = False
        if not is_done:
            # The first keeps the plan for all; only when it has, others follow.
            first, *others = sorted(decided)
            answer = await self._ask(first, names, RequestCode.PUBLISH_STAGED, fields, encode_plan(decided))
            is_new = answer.fields.get("isNew") == "true"
            if not is_new and answer.data:
                decided = decode_plan(answer.data)
            body = encode_plan(decided)
            for broker in others:
                answer = await self._ask(broker, names, RequestCode.PUBLISH_STAGED, fields, body)
                is_new = is_new or answer.fields.get("isNew") == "true"
        if decided != plan:
            await self.discard(plan, names)
        return is_new

    async def find_newest(self, topics: Iterable[str]) -> int | None:
        """The number of the newest batch that some broker of these topics has promised; None if there is none."""
        names = sorted(set(topics))
        fields = {"batch": "0", "topics": ";".join(names)}
        found = []
        for broker in sorted(await self._brokers(names)):
            answer = await self._ask(broker, names, RequestCode.FIND_PUBLISHED, fields)
            if "newest" in answer.fields:
                found.append(int(answer.fields["newest"]))
        return max(found, default=None)

    async def abort(self, batch: int, plan: Plan, topics: Iterable[str]) -> bool:
        """Forget a batch, unless it is promised, which is False then: its answer may not have come through."""
        names = sorted(set(topics))
        # The first broker first: once it has nothing of the batch, it can promise nothing, and nobody asks the others.
        first, *others = sorted(plan)
        await self.discard({first: plan[first]}, names)
        fields = {"batch": str(batch), "topics": ";".join(names)}
        answer = await self._ask(first, names, RequestCode.FIND_PUBLISHED, fields)
        is_forgotten = answer.fields.get("state") == "none"
        if is_forgotten:
            await self.discard({broker: plan[broker] for broker in others}, names)
        return is_forgotten

    async def discard_all(self, topics: Iterable[str]) -> None:
        """Forget all that the job has staged for these topics. Nothing of it may be promised at some broker."""
        names = sorted(set(topics))
        for broker in sorted(await self._brokers(names)):
            await self._ask(broker, names, RequestCode.DISCARD_STAGED, {"topics": ";".join(names)})

    async def discard(self, plan: Plan, topics: Iterable[str]) -> None:
        """Have brokers forget what was staged and never asked to be published."""
        names = sorted(set(topics))
        for broker in sorted(plan):
            await self._ask(broker, names, RequestCode.DISCARD_STAGED, {"topics": ";".join(names)}, encode_plan(plan))

    async def _find_decided(self, batch: int, plan: Plan, topics: list[str]) -> tuple[Plan, bool]:
        """The plan that a batch is published by, and whether that is long done; without an earlier one, `plan`."""
        fields = {"batch": str(batch), "topics": ";".join(topics)}
        for broker in sorted(set(plan) | await self._brokers(topics)):
            answer = await self._ask(broker, topics, RequestCode.FIND_PUBLISHED, fields)
            if answer.fields.get("state", "none") != "none":
                return (decode_plan(answer.data), False) if answer.data else ({}, True)
        return plan, not plan

    async def _brokers(self, topics: list[str]) -> set[str]:
        routes = [await self._routes.find_writable(topic) for topic in topics]
        return {broker for route in routes for broker in route.masters}

    async def stage(self, target: BrokerQueue, task: str, sequence: int, body: bytes) -> None:
        """Send one chunk to the broker of `target`, whose topic all its messages have."""
        fields = send_fields(target, group="", properties="", sys_flag=0, flag=0, born_ms=now_ms(), is_batch=False)
        more = {"task": task, "sequence": str(sequence), "crc": str(zlib.crc32(body))}
        await self._ask(target.broker, [target.topic], RequestCode.STAGE_MESSAGES, fields | more, body)

    async def route(self, topic: str) -> Route:
        return await self._routes.find_writable(topic)

    def made(self, topic: str) -> None:
        """The topic exists now, if it did not."""
        self._routes.forget(topic)

    async def _ask(
        self, broker: str, topics: list[str], code: int, fields: Mapping[str, str], body: bytes = b""
    ) -> Command:
        """What a broker answers; asked again while it is away or busy. Every request here may be made twice."""
        deadline, backoff, is_first = Deadline(self._timeout_s), Backoff(longest_s=1.0), True
        while True:
            try:
                address = await self._address(broker, topics, deadline, refresh=not is_first)
                left_s = max(0.001, deadline.left_s)
                answer = await self._connections.call(
                    address, code, {**fields, "job": self._job}, body, timeout_s=left_s
                )
                return check_answer(answer, f"{RequestCode(code).name.lower()} of job {self._job!r} at {broker!r}")
            except EmberError as error:
                is_first, wait_s = False, backoff.next()
                if not _may_retry(error) or wait_s >= deadline.left_s:
                    raise
                await asyncio.sleep(wait_s)

    async def _address(self, broker: str, topics: list[str], deadline: Deadline, *, refresh: bool) -> str:
        """Where a broker is. Raises NoRoute."""
        try:
            async with asyncio.timeout(deadline.left_s):
                # A topic that is being made is not yet known at all brokers that will have it; their template is.
                for topic in (*topics, TEMPLATE_TOPIC):
                    route = await self._routes.find(topic, refresh=refresh)
                    if route is not None and broker in route.masters:
                        return route.masters[broker]
        except TimeoutError as error:
            raise CallTimeout(f"no route to broker {broker!r} within {deadline.seconds:g} s") from error
        raise NoRoute(f"broker {broker!r}, which has staged messages of job {self._job!r}, is not there now")


class StagedWriter:
    """What one worker stages. `add` messages, then `finish`."""

    def __init__(self, staging: Staging, task: str) -> None:
        self._staging = staging
        self._task = task
        self._turn = zlib.crc32(task.encode())  # so that workers do not all begin with the same queue
        self._waiting: dict[tuple[str, str], _Chunk] = {}  # by broker and topic
        self._waiting_size = 0
        self._routes: dict[str, Route] = {}  # looked at again after every chunk
        self._staged: dict[str, StagedTask] = {}
        self.topics: set[str] = set()

    async def add(self, message: Outgoing) -> None:
        """Stage one message; its unique key is given by the broker. Raises IllegalMessage for one that is too large."""
        if len(message.properties) > MAX_PROPERTIES_SIZE:
            raise PropertiesTooLarge(message.topic, size=len(message.properties), limit=MAX_PROPERTIES_SIZE)
        target = choose_queue(message, await self.find_queues(message.topic), self.take_turns(1))
        body, sys_flag = packed_body(message)
        await self.add_staged(target, StagedMessage(0, message.flag, sys_flag, now_ms(), body, message.properties))

    async def add_staged(self, target: BrokerQueue, message: StagedMessage) -> None:
        """Stage one message as it is, for this queue."""
        await self.add_encoded(target, encode_staged([message._replace(queue=target.queue)]), 1)

    async def find_queues(self, topic: str) -> Sequence[BrokerQueue]:
        """Where messages of a topic may go now."""
        route = self._routes.get(topic)
        if route is None:
            route = self._routes[topic] = await self._staging.route(topic)
        return route.write_queues

    def take_turns(self, count: int) -> int:
        """The first of the next `count` turns: each message that does not say its queue takes one, and so do all."""
        turn, self._turn = self._turn, self._turn + count
        return turn

    async def add_encoded(self, target: BrokerQueue, data: bytes, count: int) -> None:
        """Stage messages of one topic for one broker, which are in `data` as they travel, CHUNK_SIZE bytes at most."""
        self.topics.add(target.topic)
        chunk = self._waiting.get((target.broker, target.topic))
        if chunk is not None and chunk.size + len(data) > CHUNK_SIZE:
            await self._send(chunk)
            chunk = None
        if chunk is None:
            chunk = self._waiting[target.broker, target.topic] = _Chunk(target)
        chunk.parts.append(data)
        chunk.size += len(data)
        chunk.messages += count
        self._waiting_size += len(data)
        if self._waiting_size > MOST_WAITING:  # of many topics
            await self._send_all()

    async def finish(self) -> Plan:
        """Stage what is left; what this worker staged, for `Staging.publish`."""
        await self._send_all()
        return {broker: (task,) for broker, task in self._staged.items()}

    async def discard(self) -> None:
        """Forget what was staged."""
        plan = {broker: (task,) for broker, task in self._staged.items()}
        await self._staging.discard(plan, self.topics)

    async def _send_all(self) -> None:
        for chunk in list(self._waiting.values()):
            await self._send(chunk)

    async def _send(self, chunk: _Chunk) -> None:
        broker, topic = chunk.target.broker, chunk.target.topic
        _, chunks, messages = self._staged.get(broker, StagedTask(self._task, 0, 0))
        await self._staging.stage(chunk.target, self._task, chunks, b"".join(chunk.parts))
        if not chunks:
            self._staging.made(topic)
        self._routes.pop(topic, None)
        self._staged[broker] = StagedTask(self._task, chunks + 1, messages + chunk.messages)
        del self._waiting[broker, topic]
        self._waiting_size -= chunk.size


class _Chunk:
    """Messages that wait to be staged."""

    def __init__(self, target: BrokerQueue) -> None:
        self.target = target
        self.parts: list[bytes] = []
        self.messages = 0
        self.size = 0


def merge_plans(plans: Iterable[Plan]) -> Plan:
    """What several writers staged, as one plan."""
    merged: dict[str, tuple[StagedTask, ...]] = {}
    for plan in plans:
        for broker, tasks in plan.items():
            merged[broker] = merged.get(broker, ()) + tasks
    return merged


def now_ms() -> int:
    """When a message is made."""
    return time.time_ns() // 1_000_000


def _may_retry(error: BaseException) -> bool:
    # What a broker stores or publishes it knows again, so that a request without an answer is simply made again.
    return is_passing(error) or isinstance(error, NoRoute)
