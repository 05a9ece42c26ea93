"""The client for asyncio: `AsyncClient`. Nothing is connected before it is needed."""

from __future__ import annotations

import asyncio
import logging
import ssl
import weakref
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final, Self

from embermq.client.connections import Asked, Connections, Credentials, parse_addresses
from embermq.client.consumer import Consumer, make_client_id
from embermq.client.offsets import Offsets, Start
from embermq.client.producer import Producer, SendReceipt
from embermq.client.reader import Reader
from embermq.client.routes import Routes
from embermq.client.staging import Staging
from embermq.client.tasks import end_tasks
from embermq.client.transactions import Decisions, Transaction
from embermq.errors import EmberError, SettingsError
from embermq.format.heartbeat_body import Heartbeat, encode_heartbeat
from embermq.model.codes import RequestCode
from embermq.model.message import NO_PROPERTIES, Message, StoredMessage

log = logging.getLogger(__name__)

HEARTBEAT_S: Final = 30.0
BEAT_AGAIN_S: Final = 1.0
PRODUCER_GROUP: Final = "embermq-client"


def make_tls_context(tls: bool | ssl.SSLContext) -> ssl.SSLContext | None:
    """The context for connections: none, one that checks certificates, or the one that is given."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    return ssl.create_default_context() if tls else None


def make_credentials(access_key: str | None, secret_key: str | None) -> Credentials | None:
    if (access_key is None) != (secret_key is None):
        raise SettingsError("access_key and secret_key go together; give both or none")
    return None if access_key is None or secret_key is None else Credentials(access_key, secret_key)


class AsyncClient:
    """Sends, consumes and reads through name servers, given as `host:port;host:port`.

    `timeout` is what one call may take, in seconds, unless the call says otherwise. With `tls=True`
    certificates are checked; bring an SSLContext to decide that yourself. One event loop uses a client.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        tls: bool | ssl.SSLContext = False,
        timeout: float = 3.0,
        producer_group: str = PRODUCER_GROUP,
    ) -> None:
        self._name_servers = parse_addresses(namesrv)
        self._credentials = make_credentials(access_key, secret_key)
        self._tls = make_tls_context(tls)
        self._timeout_s = timeout
        self._decisions = Decisions(producer_group)
        self._connections = self._connect(self._decisions.answer)
        self._routes = Routes(self._connections, self._name_servers, timeout_s=timeout)
        self._offsets = Offsets(self._connections, timeout_s=timeout)
        self._producer = Producer(self._connections, self._routes, group=producer_group)
        self._reader = Reader(self._connections, self._routes, self._offsets)
        self._consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave all groups and close all connections."""
        for consumer in list(self._consumers):
            await consumer.close()
        if self._beating is not None:
            await end_tasks([self._beating])
            self._beating = None
        await self._connections.close()

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] = NO_PROPERTIES,
        delay: timedelta | None = None,
        deliver_at: datetime | None = None,
        sharding_key: str | None = None,
        queue: int | None = None,
        timeout: float | None = None,
    ) -> SendReceipt:
        """Send one message; returns when the broker has stored it.

        With `delay` it is delivered so much later, with `deliver_at` at that time, never before. Messages with one
        `sharding_key` go to one queue and stay in order. Raises TopicNotFound,
        NotPermitted, IllegalMessage, Refused, and, when time ran out, CallTimeout or ConnectionLost.
        """
        message = Message(topic, body, tags, tuple(keys) if not isinstance(keys, str) else keys, properties, queue)
        self._beat()
        return await self._producer.send(
            message,
            delay=delay,
            deliver_at=deliver_at,
            sharding_key=sharding_key,
            timeout_s=self._limit(timeout),
        )

    async def send_many(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[SendReceipt | EmberError]:
        """Send messages in batches; for each, in their order, a receipt or the error that it met."""
        self._beat()
        return await self._producer.send_many(messages, timeout_s=self._limit(timeout))

    def consume(
        self,
        topic: str,
        *,
        group: str,
        filter: str | None = None,
        start: Start = "earliest",
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> Consumer:
        """Messages of `topic` for a member of `group`: iterate over it, or over its `batches()`.

        `filter` is tags such as `eu || us`, or SQL92. `start` is where a group begins that never read
        the topic. The loop ends when no message came for `timeout` seconds; without it, never. A message
        that was given back `max_retries` times (16) goes to the dead letters.
        """
        consumer = Consumer(
            self._connect,
            self._name_servers,
            topic=topic,
            group=group,
            filter=filter,
            start=start,
            timeout=timeout,
            max_retries=max_retries,
            call_timeout_s=self._timeout_s,
        )
        self._consumers.add(consumer)
        return consumer

    def read(
        self,
        topic: str,
        *,
        since: timedelta | datetime | None = None,
        filter: str | None = None,
        queues: Collection[int] | None = None,
        last: int | None = None,
        follow: bool = False,
    ) -> AsyncGenerator[StoredMessage, None]:
        """The messages of `topic` that are there now, by their times; with `follow` also all that come later.

        `since` is a moment or how long ago; without it all are read. `last` leaves only the newest so many of
        those that are there. No group is joined and no offset moves.
        """
        return self._reader.read(topic, start=_start_of(since), filter=filter, queues=queues, last=last, follow=follow)

    def transaction(self, topic: str, *, timeout: float | None = None) -> Transaction:
        """`async with mq.transaction("orders") as tx: await tx.send(...)`: seen when the block ends, if it ends well.

        What was sent is taken back when the block ends by an exception. See `Transaction`.
        """
        self._beat()
        return Transaction(
            topic,
            self._producer,
            self._connections,
            self._routes,
            self._decisions,
            timeout_s=self._limit(timeout),
        )

    def staging(self, job: str, *, timeout: float | None = None) -> Staging:
        """Batches that consumers see whole or not at all, each once; for brokers of EmberMQ. See `Staging`."""
        return Staging(self._connections, self._routes, job, timeout_s=self._limit(timeout))

    def _limit(self, timeout: float | None) -> float:
        return self._timeout_s if timeout is None else timeout

    def _connect(self, asked: Asked = lambda connection, request: None) -> Connections:
        return Connections(credentials=self._credentials, tls=self._tls, asked=asked)

    def _beat(self) -> None:
        """Begin with heartbeats, which keep the connections and make this producer known."""
        if self._beating is None:
            self._beating = asyncio.get_running_loop().create_task(self._beat_often())

    async def _beat_often(self) -> None:
        await asyncio.sleep(1.0)
        client_id = make_client_id(self._connections.local_address)
        body = encode_heartbeat(Heartbeat(client_id, producers=(self._producer.group,)))
        while True:
            wait_s = HEARTBEAT_S
            for address in sorted(self._producer.used_brokers):
                try:
                    await self._connections.call(address, RequestCode.HEART_BEAT, body=body, timeout_s=self._timeout_s)
                except EmberError as error:
                    log.warning("heartbeat failed broker=%s cause=%s", address, error)
                    wait_s = BEAT_AGAIN_S  # a broker that comes back does not know us
            await asyncio.sleep(wait_s)


def _start_of(since: timedelta | datetime | None) -> Start:
    match since:
        case None:
            return "earliest"
        case timedelta():
            return datetime.now(UTC) - since
        case datetime():
            return since
