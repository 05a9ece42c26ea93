"""Clients that keep a broker busy while it is killed, and remember what it promised them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from embermq.client.incoming import decode_messages
from embermq.errors import CallTimeout, ConnectionLost
from embermq.format.command import Command, make_request
from embermq.model.message import Host, StoredMessage
from embermq.model.properties import DELAY, UNIQ_KEY
from embermq.net.connection import Connection
from embermq.net.dialer import dial
from tests.unit.broker.brokers import pull_fields, send_fields

CALL_S = 15.0  # more than a broker may ever take
RETRY_S = 0.02
QUEUES = 4
TOPIC = "orders"
LATER = "later"
GROUP = "billing"


class Receipt(NamedTuple):
    """What the answer to a send promised."""

    unique_id: str
    queue: int
    offset: int
    asked_ms: int


class Committed(NamedTuple):
    """An offset that was committed, and when the broker had said so."""

    offset: int
    answered: float


class Load:
    """Some connections that send, some of them delayed messages, and one that commits offsets."""

    def __init__(self, port: int) -> None:
        self.receipts: list[Receipt] = []
        self.delayed: list[Receipt] = []
        self.commits: list[Committed] = []
        self.last_commit = 0  # asked for, answered or not
        self.counts: Counter[str] = Counter()
        self._host = Host("127.0.0.1", port)
        self._numbers = itertools.count(1)
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *, senders: int, at_once: int, with_others: bool = True) -> None:
        work = [self._connected(self._send, lanes=at_once) for _ in range(senders)]
        if with_others:
            work += [self._connected(self._send_later, lanes=1), self._connected(self._commit, lanes=1)]
        self._tasks = [asyncio.create_task(each) for each in work]

    async def wait_receipt(self) -> None:
        """Wait until one more message is acknowledged."""
        before = len(self.receipts)
        while len(self.receipts) == before:
            await asyncio.sleep(RETRY_S)

    async def stop(self) -> None:
        """Wait for the answers that are due, and end."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _connected(self, work: Callable[[Connection], object], *, lanes: int) -> None:
        """Do `work` again and again, connecting anew whenever the broker is gone."""
        while not self._is_over:
            try:
                connection = await dial(self._host)
            except ConnectionLost:
                await asyncio.sleep(RETRY_S)
                continue
            self.counts["connections"] += 1
            await asyncio.gather(*(self._lane(connection, work) for _ in range(lanes)))
            connection.close()

    async def _lane(self, connection: Connection, work: Callable[[Connection], object]) -> None:
        with suppress(ConnectionLost):
            while not self._is_over and not connection.is_closed:
                await work(connection)  # type: ignore[misc]

    async def _ask(self, connection: Connection, request: Command) -> Command:
        """An answer, or ConnectionLost; a broker that leaves a request without either fails the test."""
        self.counts["requests"] += 1
        try:
            return await connection.call(request, timeout_s=CALL_S)
        except ConnectionLost:
            self.counts["unanswered"] += 1
            raise
        except CallTimeout:
            self.counts["forgotten"] += 1
            raise

    async def _send(self, connection: Connection) -> None:
        await self._send_one(connection, TOPIC, self.receipts)

    async def _send_later(self, connection: Connection) -> None:
        await self._send_one(connection, LATER, self.delayed, **{DELAY: "1"})
        await asyncio.sleep(0.02)

    async def _send_one(self, connection: Connection, topic: str, receipts: list[Receipt], **properties: str) -> None:
        number = next(self._numbers)
        unique_id, queue, asked_ms = f"{number:032d}", number % QUEUES, int(time.time() * 1000)
        fields = send_fields(topic, queue=queue, **{UNIQ_KEY: unique_id}, **properties)
        answer = await self._ask(connection, make_request(310, fields, b"body of %d" % number))
        if answer.code != 0:
            self.counts[f"refused {answer.code}"] += 1
            await asyncio.sleep(RETRY_S)
            return
        assert answer.fields["transactionId"] == unique_id
        receipts.append(Receipt(unique_id, int(answer.fields["queueId"]), int(answer.fields["queueOffset"]), asked_ms))

    async def _commit(self, connection: Connection) -> None:
        self.last_commit += 1
        fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "commitOffset": str(self.last_commit)}
        answer = await self._ask(connection, make_request(15, fields))
        if answer.code == 0:
            self.commits.append(Committed(self.last_commit, time.monotonic()))
        await asyncio.sleep(0.005)


async def ask(port: int, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
    """One request on a connection of its own."""
    connection = await dial(Host("127.0.0.1", port))
    try:
        return await connection.call(make_request(code, fields, body), timeout_s=CALL_S)
    finally:
        connection.close()


async def make_topic(port: int, topic: str) -> None:
    fields = {"topic": topic, "readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "perm": "6"}
    answer = await ask(port, 17, {**fields, "topicFilterType": "SINGLE_TAG", "defaultTopic": "TBW102"})
    assert answer.code == 0, answer


async def make_group(port: int) -> None:
    assert (await ask(port, 200, {}, b'{"groupName":"%s","retryQueueNums":1}' % GROUP.encode())).code == 0


async def read_topic(port: int, topic: str) -> dict[tuple[int, int], StoredMessage]:
    """Everything that a topic holds, by queue and offset."""
    connection = await dial(Host("127.0.0.1", port))
    found: dict[tuple[int, int], StoredMessage] = {}
    try:
        for queue in range(QUEUES):
            offset = 0
            while True:
                fields = pull_fields(topic, offset, queue=queue, consumerGroup="readers")
                answer = await connection.call(make_request(11, fields), timeout_s=CALL_S)
                if answer.code != 0:
                    assert answer.code in (19, 21), answer  # the end, or nothing at all
                    break
                for message in decode_messages(answer.data):
                    found[queue, message.offset] = message
                offset = int(answer.fields["nextBeginOffset"])
    finally:
        connection.close()
    return found


async def find_committed(port: int) -> int:
    """The offset that the broker has of the group; 0 for none."""
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    answer = await ask(port, 14, fields)
    return int(answer.fields["offset"]) if answer.code == 0 else 0


def check_kept(receipts: list[Receipt], found: dict[tuple[int, int], StoredMessage]) -> None:
    """Every acknowledged message is where its answer said; no message is there twice; no offset is missing."""
    lost = [each for each in receipts if _unique_id(found.get((each.queue, each.offset))) != each.unique_id]
    assert lost == [], f"{len(lost)} of {len(receipts)} lost, first {lost[0]}"
    counts = Counter(_unique_id(message) for message in found.values())
    assert [item for item in counts.most_common(3) if item[1] > 1] == []
    for queue in range(QUEUES):
        offsets = sorted(offset for each, offset in found if each == queue)
        assert offsets == list(range(len(offsets)))


def check_delivered(
    delayed: list[Receipt], found: dict[tuple[int, int], StoredMessage], *, delay_ms: int
) -> Counter[str]:
    """Every delayed message came, once at least, and none before its time."""
    arrivals = Counter(_unique_id(message) for message in found.values())
    missing = [each for each in delayed if not arrivals[each.unique_id]]
    assert missing == [], f"{len(missing)} of {len(delayed)} never came, first {missing[0]}"
    asked = {each.unique_id: each.asked_ms for each in delayed}
    for message in found.values():
        unique_id = _unique_id(message)
        if unique_id in asked:
            waited = int(message.store_time.timestamp() * 1000) - asked[unique_id]
            assert waited >= delay_ms, f"{unique_id} came after {waited} ms"
    return arrivals


def _unique_id(message: StoredMessage | None) -> str:
    return message.properties.get(UNIQ_KEY, "") if message is not None else ""
