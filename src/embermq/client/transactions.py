"""Transactions of a producer: messages that consumers see when a block of code ends well, and otherwise never.

    send ─→ half message, which nobody sees          end of the block ─→ commit, or roll back, of each
                                                     no word of that ──→ the broker asks, and we tell what was decided

A broker decides for each message by itself: there is no moment at which all messages of a transaction appear. A
producer that is gone before the block ends leaves messages behind that nobody sees; brokers give them up after a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from embermq.client.answers import check_answer
from embermq.client.connections import Connections
from embermq.client.producer import Producer, SendReceipt
from embermq.client.routes import Routes
from embermq.errors import EmberError
from embermq.format.command import Command, make_request
from embermq.model.codes import RequestCode
from embermq.model.flags import SysFlag
from embermq.model.message import NO_PROPERTIES, Message
from embermq.net.connection import Connection

log = logging.getLogger(__name__)

OPEN: Final = 0
MOST_REMEMBERED: Final = 100_000  # decisions that no broker has confirmed


class Decisions:
    """What became of messages whose brokers may ask, by their unique keys."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._decided: dict[str, int] = {}

    def note(self, unique_key: str, decision: int) -> None:
        self._decided[unique_key] = decision
        if len(self._decided) > MOST_REMEMBERED:
            del self._decided[next(iter(self._decided))]

    def forget(self, unique_key: str) -> None:
        self._decided.pop(unique_key, None)

    def answer(self, connection: Connection, request: Command) -> None:
        """Tell a broker that asks; of what is still open, or of another producer, nothing is said."""
        if request.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        fields = request.fields
        unique_key = fields.get("transactionId") or fields.get("msgId") or ""
        decision = self._decided.get(unique_key, OPEN)
        if decision != OPEN:
            told = {
                name: fields[name] for name in ("tranStateTableOffset", "commitLogOffset", "bname") if name in fields
            }
            told |= _end_fields(self._group, unique_key, decision, is_asked=True)
            connection.send(make_request(RequestCode.END_TRANSACTION, told, oneway=True))


class Transaction:
    """Sends messages to one topic; see this module. Leave the block by an exception to take all of them back."""

    def __init__(
        self,
        topic: str,
        producer: Producer,
        connections: Connections,
        routes: Routes,
        decisions: Decisions,
        *,
        timeout_s: float,
    ) -> None:
        self._topic = topic
        self._producer = producer
        self._connections = connections
        self._routes = routes
        self._decisions = decisions
        self._timeout_s = timeout_s
        self._sent: list[SendReceipt] = []

    async def send(
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
        """Send one message, which nobody sees yet; its offset is that of the hidden one. Raises as `send` does."""
        message = Message(
            self._topic, body, tags, tuple(keys) if not isinstance(keys, str) else keys, properties, queue
        )
        limit = self._timeout_s if timeout is None else timeout
        receipt = await self._producer.send_half(message, sharding_key=sharding_key, timeout_s=limit)
        self._decisions.note(receipt.unique_key, OPEN)
        self._sent.append(receipt)
        return receipt

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._end(SysFlag.COMMITTED)
            return
        try:
            await self._end(SysFlag.ROLLED_BACK)
        except EmberError as failure:  # the first error counts; the broker will ask
            log.warning("not rolled back yet topic=%s reason=%s", self._topic, failure)

    async def _end(self, decision: int) -> None:
        """Tell brokers what was decided. Raises a TransportError if one did not say yes: it asks later."""
        for receipt in self._sent:
            self._decisions.note(receipt.unique_key, decision)
        outcomes = await asyncio.gather(
            *(self._end_one(receipt, decision) for receipt in self._sent), return_exceptions=True
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _end_one(self, receipt: SendReceipt, decision: int) -> None:
        route = await self._routes.read(self._topic)
        fields = {
            "tranStateTableOffset": str(receipt.offset),
            "commitLogOffset": str(receipt.position),
            "topic": self._topic,
            "bname": receipt.broker,
            **_end_fields(self._producer.group, receipt.unique_key, decision, is_asked=False),
        }
        address = route.address_of(receipt.broker)
        answer = await self._connections.call(address, RequestCode.END_TRANSACTION, fields, timeout_s=self._timeout_s)
        check_answer(answer, f"end of a transaction of topic {self._topic!r}", topic=self._topic)
        self._decisions.forget(receipt.unique_key)


def _end_fields(group: str, unique_key: str, decision: int, *, is_asked: bool) -> dict[str, str]:
    return {
        "producerGroup": group,
        "commitOrRollback": str(decision),
        "fromTransactionCheck": "true" if is_asked else "false",
        "msgId": unique_key,
        "transactionId": unique_key,
    }
