"""The client for programs without asyncio: the same names, each call waits.

One thread runs the event loop of an AsyncClient; it starts with the first call and ends with `close`. After
a fork, the child gets a loop and connections of its own with its first call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import threading
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from embermq.client.client import PRODUCER_GROUP, AsyncClient
from embermq.client.consumer import CHUNK, Consumer
from embermq.client.delivery import Delivery, DeliveryBatch
from embermq.client.offsets import Start
from embermq.client.producer import SendReceipt
from embermq.client.tasks import end_tasks
from embermq.client.transactions import Transaction
from embermq.errors import EmberError
from embermq.model.message import NO_PROPERTIES, Message, StoredMessage

T = TypeVar("T")
_READ_CHUNK: Final = 500


class _LoopThread:
    """An event loop in a thread of its own, for one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="embermq-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work`; an interrupt of the waiting thread cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        self.run(self._finish())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _finish(self) -> None:
        me = asyncio.current_task()
        await end_tasks(task for task in asyncio.all_tasks() if task is not me)
        await self.loop.shutdown_asyncgens()


class SyncTransaction:
    """Sends messages that are seen when the block ends well."""

    def __init__(self, thread: _LoopThread, transaction: Transaction) -> None:
        self._thread = thread
        self._transaction = transaction

    def send(
        self,
        body: bytes,
        *,
        tags: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] = NO_PROPERTIES,
        sharding_key: str | None = None,
        queue: int | None = None,
        timeout: float | None = None,
    ) -> SendReceipt:
        """Send one message, which nobody sees yet. See Transaction.send."""
        return self._thread.run(
            self._transaction.send(
                body,
                tags=tags,
                keys=keys,
                properties=properties,
                sharding_key=sharding_key,
                queue=queue,
                timeout=timeout,
            )
        )


class Client:
    """AsyncClient for programs without asyncio. Any number of threads may use one."""

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
        self._namesrv = namesrv
        self._settings: dict[str, Any] = {
            "access_key": access_key,
            "secret_key": secret_key,
            "tls": tls,
            "timeout": timeout,
            "producer_group": producer_group,
        }
        self._lock = threading.Lock()
        self._thread: _LoopThread | None = None
        self._client = AsyncClient(namesrv, **self._settings)  # also checks the settings, now rather than later

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave all groups, close all connections, end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None or thread.pid != os.getpid():
                return
            client, self._client = self._client, AsyncClient(self._namesrv, **self._settings)
            thread.run(client.close())
            thread.stop()

    def send(
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
        """Send one message; returns when the broker has stored it. See AsyncClient.send."""
        thread = self._running()
        return thread.run(
            self._client.send(
                topic,
                body,
                tags=tags,
                keys=keys,
                properties=properties,
                delay=delay,
                deliver_at=deliver_at,
                sharding_key=sharding_key,
                queue=queue,
                timeout=timeout,
            )
        )

    def send_many(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[SendReceipt | EmberError]:
        """Send messages in batches; for each, in their order, a receipt or the error that it met."""
        given = list(messages)  # an iterator of the caller's runs in the caller's thread
        thread = self._running()
        return thread.run(self._client.send_many(given, timeout=timeout))

    @contextlib.contextmanager
    def transaction(self, topic: str, *, timeout: float | None = None) -> Iterator[SyncTransaction]:
        """`with mq.transaction("orders") as tx: tx.send(...)`: seen when the block ends, if it ends well."""
        thread = self._running()
        opened = thread.run(self._open_transaction(topic, timeout))
        try:
            yield SyncTransaction(thread, opened)
        except BaseException as error:
            thread.run(opened.__aexit__(type(error), error, None))
            raise
        thread.run(opened.__aexit__(None, None, None))

    async def _open_transaction(self, topic: str, timeout: float | None) -> Transaction:
        return self._client.transaction(topic, timeout=timeout)

    def consume(
        self,
        topic: str,
        *,
        group: str,
        filter: str | None = None,
        start: Start = "earliest",
        timeout: float | None = None,
        max_retries: int | None = None,
    ) -> SyncConsumer:
        """Messages of `topic` for a member of `group`. See AsyncClient.consume."""
        thread = self._running()

        async def make() -> Consumer:
            return self._client.consume(
                topic, group=group, filter=filter, start=start, timeout=timeout, max_retries=max_retries
            )

        return SyncConsumer(thread, thread.run(make()), timeout)

    def read(
        self,
        topic: str,
        *,
        since: timedelta | datetime | None = None,
        filter: str | None = None,
        queues: Collection[int] | None = None,
        last: int | None = None,
        follow: bool = False,
    ) -> Iterator[StoredMessage]:
        """The messages of `topic`, without a group. See AsyncClient.read."""
        thread = self._running()
        messages = self._client.read(topic, since=since, filter=filter, queues=queues, last=last, follow=follow)

        async def take() -> list[StoredMessage]:
            """One message, and more if they need no waiting for; not so with `follow`, where each is shown at once."""
            taken: list[StoredMessage] = []
            async for message in messages:
                taken.append(message)
                if follow or len(taken) == _READ_CHUNK:
                    break
            return taken

        try:
            while chunk := thread.run(take()):
                yield from chunk
        finally:
            if thread is self._thread:
                thread.run(messages.aclose())

    def _running(self) -> _LoopThread:
        with self._lock:
            if self._thread is None or self._thread.pid != os.getpid():
                if self._thread is not None:
                    self._client = AsyncClient(
                        self._namesrv, **self._settings
                    )  # what the parent opened is the parent's
                self._thread = _LoopThread()
            return self._thread


class SyncConsumer:
    """Messages of one topic for one group. Made by `consume` of a client."""

    def __init__(self, thread: _LoopThread, consumer: Consumer, timeout: float | None) -> None:
        self._thread = thread
        self._consumer = consumer
        self._timeout_s = timeout

    def __iter__(self) -> Iterator[Delivery]:
        try:
            while chunk := self._thread.run(self._consumer.take(CHUNK, self._timeout_s)):
                yield from (delivery for delivery in chunk if delivery.is_ours)
        finally:
            self.close()

    def batches(self, max_items: int = 1000, max_wait: float = 1.0) -> Iterator[SyncDeliveryBatch]:
        """Messages in batches: as many as came within `max_wait` seconds of the first, `max_items` at most."""
        try:
            while batch := self._thread.run(self._consumer.take_batch(max_items, max_wait)):
                yield SyncDeliveryBatch(self._thread, batch)
        finally:
            self.close()

    def open(self) -> None:
        """Join the group now rather than with the first message."""
        self._thread.run(self._consumer.open())

    def commit(self) -> None:
        """Have the brokers know what is acked; happens by itself every 5 seconds and at the end."""
        self._thread.run(self._consumer.commit())

    def close(self) -> None:
        """Leave the group."""
        if not self._thread.loop.is_closed():
            self._thread.run(self._consumer.close())

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncDeliveryBatch(Sequence[Delivery]):
    """Deliveries that get their verdict together."""

    def __init__(self, thread: _LoopThread, batch: DeliveryBatch) -> None:
        self._thread = thread
        self._batch = batch

    def __len__(self) -> int:
        return len(self._batch)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # the overloads of Sequence say it
        return self._batch[index]

    def ack(self) -> None:
        """All are done, and the broker knows it when this returns."""
        self._thread.run(self._batch.ack())

    def give_back(self, delay: timedelta | None = None) -> None:
        """Bring all of them again later."""
        self._batch.give_back(delay)
