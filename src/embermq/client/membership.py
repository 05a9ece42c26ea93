"""One member of a consumer group: tells brokers that it is there, and owns its share of the queues.

    heartbeat ─→ members of the group ─→ share of the queues ─→ a puller for each

Shares are worked out anew when a broker says that members came or went, and every 20 seconds. Offsets
are committed every 5 seconds, when a queue is lost, and at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final

from embermq.client.answers import check_answer
from embermq.client.assignment import assign_queues, name_of
from embermq.client.connections import Connections
from embermq.client.offsets import Offsets, Start
from embermq.client.progress import QueueProgress
from embermq.client.puller import Puller
from embermq.client.pulling import make_subscribed
from embermq.client.routes import Route, Routes
from embermq.client.tasks import end_tasks
from embermq.errors import EmberError, NoRoute
from embermq.format.connection_body import decode_consumer_ids
from embermq.format.heartbeat_body import Consumes, Heartbeat, encode_heartbeat, subscribed_members
from embermq.format.wire_json import BrokerQueue, encode_body
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import StoredMessage
from embermq.model.topic import RETRY_PREFIX

log = logging.getLogger(__name__)

HEARTBEAT_S: Final = 30.0
REBALANCE_S: Final = 20.0
REBALANCE_SOON_S: Final = 1.0  # while something is missing: the retry topic, ourselves in the list, an answer
COMMIT_S: Final = 5.0
LAST_COMMIT_S: Final = 3.0

_CONSUME_FROM: Final = {"earliest": "CONSUME_FROM_FIRST_OFFSET", "latest": "CONSUME_FROM_LAST_OFFSET"}


class Membership:
    """A member of `group` that reads `topic`."""

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        *,
        client_id: str,
        group: str,
        topic: str,
        expression: str | None,
        start: Start,
        timeout_s: float,
        deliver: Callable[[QueueProgress, Sequence[StoredMessage]], None],
        fail: Callable[[EmberError], None],
    ) -> None:
        version = time.time_ns() // 1_000_000
        self.client_id = client_id
        self.group = group
        self.began_ms = version
        self.subscriptions = {
            name: make_subscribed(name, wanted, version=version)
            for name, wanted in ((topic, expression), (f"{RETRY_PREFIX}{group}", None))
        }
        self.progress: dict[BrokerQueue, QueueProgress] = {}
        self._topic = topic
        self._start = start
        self._connections = connections
        self._routes = routes
        self._offsets = Offsets(connections, timeout_s=timeout_s)
        self._timeout_s = timeout_s
        self._deliver = deliver
        self._fail = fail
        self._pullers: dict[BrokerQueue, Puller] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._told: set[str] = set()  # addresses that know us
        self._must_rebalance = asyncio.Event()

    # Coming and going.

    async def start(self) -> None:
        """Join the group. Raises TopicNotFound, IllegalFilter and whatever a broker refuses us with."""
        route = await self._routes.read(self._topic)
        await self._check_filter(route)
        await self.heartbeat()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(work()) for work in (self._beat, self._balance, self._commit_often)]

    async def stop(self) -> None:
        """Leave the group; what is done is committed."""
        await end_tasks(self._tasks)  # first, because it is they who begin with queues
        await end_tasks(puller.task for puller in self._pullers.values())
        self._tasks, self._pullers = [], {}
        await self._try("last commit", asyncio.wait_for(self.commit(), LAST_COMMIT_S))
        for progress in self.progress.values():
            progress.is_dropped = True
        await self._leave()

    def rebalance(self) -> None:
        """Work the shares out anew, soon."""
        self._must_rebalance.set()

    async def heartbeat(self) -> None:
        """Tell every broker that has queues for us. Raises what one of them says if none takes it."""
        body = encode_heartbeat(self._heartbeat_values())
        failures: dict[str, EmberError] = {}
        addresses = await self._masters()
        for address in addresses:
            try:
                await self._tell(address, body)
            except EmberError as error:
                failures[address] = error
        if failures and len(failures) == len(addresses):
            raise failures[addresses[-1]]
        for address, failure in failures.items():
            log.warning("heartbeat failed broker=%s group=%s cause=%s", address, self.group, failure)

    async def _tell(self, address: str, body: bytes) -> None:
        answer = await self._connections.call(address, RequestCode.HEART_BEAT, body=body, timeout_s=self._timeout_s)
        check_answer(answer, f"heartbeat of group {self.group!r}", topic=self._topic, group=self.group)
        self._told.add(address)

    def _heartbeat_values(self) -> Heartbeat:
        consume_from = _CONSUME_FROM.get(str(self._start), "CONSUME_FROM_TIMESTAMP")
        consumes = Consumes(self.group, tuple(self.subscriptions.values()), consume_from=consume_from)
        return Heartbeat(self.client_id, consumers=(consumes,))

    async def _masters(self) -> list[str]:
        found: set[str] = set()
        for topic in self.subscriptions:
            route = await self._routes.find(topic)
            if route is not None:
                found.update(route.masters.values())
        return sorted(found)

    async def _check_filter(self, route: Route) -> None:
        wanted = self.subscriptions[self._topic]
        if wanted.is_tags:
            return
        members = {
            "clientId": self.client_id,
            "group": self.group,
            "namespace": "",
            "subscriptionData": subscribed_members(wanted),
        }
        if not route.masters:
            raise NoRoute(f"no broker of topic {self._topic!r} is there")
        answer = await self._connections.call(
            min(route.masters.values()),
            RequestCode.CHECK_CLIENT_CONFIG,
            body=encode_body(members),
            timeout_s=self._timeout_s,
        )
        check_answer(answer, f"filter {wanted.expression!r}", topic=self._topic)

    async def _leave(self) -> None:
        fields = {"clientID": self.client_id, "consumerGroup": self.group}
        for address in sorted(self._told):
            await self._try(
                "leave",
                self._connections.call(address, RequestCode.UNREGISTER_CLIENT, fields, timeout_s=self._timeout_s),
            )

    async def _try(self, what: str, work: Coroutine[Any, Any, object]) -> None:
        """Do it; when it fails, going on without it is right."""
        try:
            await work
        except (EmberError, TimeoutError) as error:
            log.warning(
                "request failed, going on without request=%s group=%s cause=%s",
                what,
                self.group,
                str(error) or type(error).__name__,
            )

    # What goes on all the time.

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self._try("heartbeat", self.heartbeat())

    async def _commit_often(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            await self._try("commit", self.commit(wait=False))

    async def _balance(self) -> None:
        while True:
            self._must_rebalance.clear()
            is_complete = False
            try:
                is_complete = await self._share_out()
            except EmberError as error:
                log.warning("rebalance failed group=%s cause=%s", self.group, error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REBALANCE_S if is_complete else REBALANCE_SOON_S):
                    await self._must_rebalance.wait()

    async def _share_out(self) -> bool:
        """Own the queues that are for us, and no others; whether nothing was missing for that."""
        is_complete = True
        for topic in self.subscriptions:
            route = await self._routes.find(topic)
            if route is None and topic != self._topic:
                route = await self._routes.find(topic, refresh=True)
            if route is None:
                is_complete = False  # the retry topic is made by our first heartbeat, and known a moment later
                continue
            members = await self._members(route)
            if self.client_id not in members:
                await self.heartbeat()
                return False
            mine = assign_queues(route.read_queues, members, self.client_id)
            if not await self._own(topic, mine):
                is_complete = False
        return is_complete

    async def _members(self, route: Route) -> Collection[str]:
        address = random.choice(sorted(route.readers.values()))
        answer = await self._connections.call(
            address,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            {"consumerGroup": self.group},
            timeout_s=self._timeout_s,
        )
        if answer.code == ResponseCode.SYSTEM_ERROR:
            return []  # that is how brokers say that they know of no member
        return decode_consumer_ids(check_answer(answer, f"members of group {self.group!r}", group=self.group).data)

    # Queues that come and go.

    async def _own(self, topic: str, mine: Collection[BrokerQueue]) -> bool:
        """Drop what is not ours any more and begin with what is new; whether all that worked."""
        lost = [queue for queue in self.progress if queue.topic == topic and queue not in mine]
        for queue in lost:
            await self._drop(queue)
        is_complete = True
        for queue in mine:
            puller = self._pullers.get(queue)
            if puller is not None and not puller.task.done():
                continue
            try:
                await self._begin(queue)
            except EmberError as error:
                is_complete = False
                log.warning("queue not begun queue=%s group=%s cause=%s", name_of(queue), self.group, error)
        return is_complete

    async def _begin(self, queue: BrokerQueue) -> None:
        address = await self._address(queue)
        offset = await self._offsets.begin(address, queue, group=self.group, start=self._start)
        progress = self.progress[queue] = QueueProgress(queue, offset)
        self._begin_pulling(progress)
        log.info("queue begun queue=%s group=%s offset=%d", name_of(queue), self.group, offset)

    def move(self, queue: BrokerQueue, offset: int) -> None:
        """Go on at `offset`, if the queue is ours."""
        progress = self.progress.get(queue)
        if progress is None:
            return
        log.info("queue moved queue=%s group=%s offset=%d", name_of(queue), self.group, offset)
        progress.restart(offset)
        self._pullers.pop(queue).end()  # it may wait at the broker for what comes at the old place
        self._begin_pulling(progress)

    def _begin_pulling(self, progress: QueueProgress) -> None:
        self._pullers[progress.queue] = Puller(
            self._connections,
            self._routes,
            progress,
            group=self.group,
            wanted=self.subscriptions[progress.queue.topic],
            deliver=self._deliver,
            subscribe_again=self.heartbeat,
            fail=self._fail,
        )

    async def _drop(self, queue: BrokerQueue) -> None:
        puller = self._pullers.pop(queue, None)
        if puller is not None:
            puller.end()
        progress = self.progress.pop(queue)
        await self._try("commit", self._commit_one(progress, wait=True))
        progress.is_dropped = True
        log.info("queue dropped queue=%s group=%s offset=%d", name_of(queue), self.group, progress.committable)

    async def commit(self, *, wait: bool = True) -> None:
        """Tell the brokers how far we are; with `wait`, return when they know. Raises what the last refusal says."""
        failure: EmberError | None = None
        for progress in list(self.progress.values()):
            try:
                await self._commit_one(progress, wait=wait)
            except EmberError as error:
                failure = error
        if failure is not None:
            raise failure

    async def _commit_one(self, progress: QueueProgress, *, wait: bool) -> None:
        offset = progress.committable
        if offset == progress.committed:
            return
        generation = progress.generation
        address = await self._address(progress.queue)
        commit = self._offsets.commit if wait else self._offsets.tell_commit
        await commit(address, progress.queue, group=self.group, offset=offset)
        if generation == progress.generation:
            progress.committed = offset

    async def _address(self, queue: BrokerQueue) -> str:
        route = await self._routes.read(queue.topic)
        return route.address_of(queue.broker, may_be_slave=True)
