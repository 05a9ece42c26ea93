"""ACK, BATCH_ACK and CHANGE_MESSAGE_INVISIBLETIME: what consumers say of messages they popped.

Acks of one read that are of the same pop become one record. All are answered when the disk has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from embermq.broker.handlers.paging import read_body
from embermq.broker.pop.answering import Answering
from embermq.broker.pop.giving import Finish, Giving
from embermq.broker.pop.in_flight import InFlight
from embermq.broker.pop.order_acks import Acked, OrderAcks
from embermq.broker.pop.revive_log import ReviveLog
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.clock import Clock
from embermq.errors import EmberError, IllegalField, IllegalMessage, NotPopped
from embermq.format.command import Command, make_answer
from embermq.format.pop_fields import BatchAck, decode_batch_acks, parse_handle
from embermq.format.record import DraftFields
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.pop import LONGEST_INVISIBLE_MS, NORMAL, Ack, Checkpoint, Handle, retry_topic_of
from embermq.rpc.fields import I32, read_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Answer, Handler, check_body

BATCHED: Final = (RequestCode.ACK_MESSAGE,)


class AckKey(NamedTuple):
    """What acks are of: one pop and queue."""

    topic: str
    group: str
    queue: int
    handle: Handle


class _Alike(NamedTuple):
    """Acks of one read that differ in their offsets alone: these, and which ones their queue has."""

    low: int
    high: int
    offsets: list[int]


class AckHandlers:
    """Takes acks."""

    def __init__(
        self,
        tables: Tables,
        giving: Giving,
        order_acks: OrderAcks,
        revive_log: ReviveLog,
        in_flight: InFlight,
        answering: Answering,
        statistics: BrokerStatistics,
        *,
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._giving = giving
        self._order_acks = order_acks
        self._log = revive_log
        self._answering = answering
        self._in_flight = in_flight
        self._statistics = statistics
        self._clock = clock

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.ack_batch,
            RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME: self.change,
        }

    def receive(self, peer: Peer, requests: Sequence[Command]) -> None:
        """Take the acks of one read: those of one pop and queue differ in their offsets alone."""
        taken: list[Command] = []
        acks: dict[AckKey, list[int]] = {}
        alike: dict[tuple[str | None, ...], _Alike] = {}
        for request in requests:
            fields = request.fields
            get = fields.get
            shape = get("topic"), get("consumerGroup"), get("queueId"), get("extraInfo", "").rpartition(" ")[0]
            known, offset = alike.get(shape), get("offset", "")
            if known is not None and not request.body and offset.isascii() and offset.isdigit() and len(offset) < 19:
                number = int(offset)
                if known.low <= number <= known.high:
                    known.offsets.append(number)
                    taken.append(request)
                    continue
            try:
                check_body(request)
                acked, low, high = self._parse(request)
                if acked.handle.is_fifo:
                    self._order_acks.ack(acked)
                    self._answering.tell_after(self._order_acks.secure(), peer, request, make_answer(request))
                    continue
            except Exception as error:
                self._answering.tell_all(peer, [request], error)
                continue
            key = AckKey(acked.topic, acked.group, acked.queue, acked.handle)
            alike.setdefault(shape, _Alike(low, high, acks.setdefault(key, []))).offsets.append(acked.offset)
            taken.append(request)
        if taken:
            self.store(acks, peer, len(taken), partial(self._answering.tell_all, peer, taken))

    def store(self, acks: Mapping[AckKey, Sequence[int]], peer: Peer, count: int, tell: Finish) -> None:
        """Have `count` requests of `peer` answered, by `tell`, when the disk has these acks of messages that it had."""
        self._store([self._take_back(*key, offsets) for key, offsets in acks.items()], peer, count, tell)

    def ack(self, peer: Peer, request: Command) -> Answer:
        self.receive(peer, [request])
        return None

    def ack_batch(self, peer: Peer, request: Command) -> Answer:
        """Take many acks at once; offsets that a queue does not have count for nothing."""
        elements = read_body(request.data, decode_batch_acks)
        if not elements:
            return make_answer(request, ResponseCode.NO_MESSAGE, remark="a batch without acks; name some messages")
        drafts, ordered = self._drafts_of(elements)
        for acked in ordered:
            self._order_acks.ack(acked)
        if ordered:
            self._answering.tell_after(self._secure(drafts), peer, request, make_answer(request))
        elif drafts:
            self._store(drafts, peer, 1, partial(self._answering.tell_all, peer, [request]))
        else:
            return make_answer(request)
        return None

    def change(self, peer: Peer, request: Command) -> Answer:
        """Have a message come again at another time: a checkpoint of its own, and an ack for the old one."""
        invisible_ms = read_integer(request.fields, "invisibleTime")
        if not 0 <= invisible_ms <= LONGEST_INVISIBLE_MS:
            raise IllegalField("invisibleTime", f"{invisible_ms} ms, allowed are 0 to {LONGEST_INVISIBLE_MS}")
        acked, _, _ = self._parse(request, is_end_allowed=False)
        topic, group, queue, offset, handle = acked
        if handle.is_fifo:
            answer = _changed(request, self._order_acks.change(acked, invisible_ms))
            self._answering.tell_after(self._order_acks.secure(), peer, request, answer)
            return None
        now = self._clock.now_ms()
        if now >= handle.revive_time:
            raise NotPopped(
                f"the time of message {offset} of {topic}/{queue} was up {now - handle.revive_time} ms ago; it is "
                "delivered again, so pop it again, or ask for more time while some is left"
            )
        pop_time = max(now, handle.pop_time + 1)  # never the same delivery again
        renewed = handle._replace(start=offset, pop_time=pop_time, invisible_ms=invisible_ms)
        checkpoint = Checkpoint(renewed.delivery(topic, group, queue), (offset,), invisible_ms)
        drafts = [
            self._log.checkpoint(checkpoint, handle.revive_queue),
            self._draft(topic, group, queue, handle, [offset]),
        ]
        answer = _changed(request, renewed)
        self._giving.store(drafts, lambda error: self._answering.tell(peer, request, answer, error))
        return None

    def _store(self, drafts: Sequence[DraftFields], peer: Peer, count: int, tell: Finish) -> None:
        def finish(error: Exception | None) -> None:
            peer.settle(count)
            tell(error)

        peer.owe(count)
        try:
            self._giving.store(drafts, finish)
        except EmberError as error:
            finish(error)

    async def _secure(self, drafts: Sequence[DraftFields]) -> None:
        if drafts:
            await self._giving.put(drafts)
        await self._order_acks.secure()

    def _parse(self, request: Command, *, is_end_allowed: bool = True) -> tuple[Acked, int, int]:
        """What is acknowledged, and the first and the next offset of its queue. Raises a RequestError.

        An ack for the offset behind the last one passes, as in RocketMQ.
        """
        fields = request.fields
        handle = parse_handle(read_text(fields, "extraInfo"))
        topic, group = read_text(fields, "topic"), read_text(fields, "consumerGroup")
        queue, offset = read_integer(fields, "queueId", limit=I32), read_integer(fields, "offset")
        low, high = self.check(topic, group, queue, handle)
        if not low <= offset < high + is_end_allowed:
            raise NotPopped(
                f"{topic}/{queue} has no message {offset}; it holds [{low}, {high}). Send topic, queue and offset as "
                "they were popped; a message that has expired needs no ack"
            )
        return Acked(topic, group, queue, offset, handle), low, high

    def check(self, topic: str, group: str, queue: int, handle: Handle) -> tuple[int, int]:
        """The offsets of the queue, if such messages can have been popped from it. Raises a RequestError."""
        config = self._tables.topics.read(topic)
        if not 0 <= queue < config.read_queues:
            raise IllegalMessage(f"topic {topic!r} has {config.read_queues} queues to read, no queue {queue}")
        self._tables.groups.read(group)
        if not handle.is_fifo and not 0 <= handle.revive_queue < self._log.queues:
            raise IllegalMessage(f"no handle of this broker: revive queue {handle.revive_queue} of {self._log.queues}")
        latest = self._clock.now_ms() + LONGEST_INVISIBLE_MS
        if not (0 <= handle.invisible_ms <= latest and 0 <= handle.pop_time <= latest and handle.revive_time <= latest):
            raise IllegalMessage("no handle of this broker: it is of a time that no pop can be of")
        return self._tables.store.offsets(topic, queue=queue)

    def _take_back(self, topic: str, group: str, queue: int, handle: Handle, offsets: Sequence[int]) -> DraftFields:
        """The record of an ack, whose messages are with nobody any more."""
        self._in_flight.took_back((topic, group, queue), len(offsets))
        return self._draft(topic, group, queue, handle, offsets)

    def _draft(self, topic: str, group: str, queue: int, handle: Handle, offsets: Sequence[int]) -> DraftFields:
        self._statistics.count_acks(topic, group, len(offsets))
        ack = Ack(handle.delivery(topic, group, queue), tuple(dict.fromkeys(offsets)))
        return self._log.ack(ack, handle.revive_queue, deliver_ms=handle.revive_time)

    def _drafts_of(self, elements: Sequence[BatchAck]) -> tuple[list[DraftFields], list[Acked]]:
        """The records of a batch, and what of it was popped in order. Raises a RequestError."""
        drafts: list[DraftFields] = []
        ordered: list[Acked] = []
        for group, origin, kind, queue, handle, offsets in elements:
            topic = origin if kind == NORMAL else retry_topic_of(origin, group, version=kind)
            low, high = self.check(topic, group, queue, handle)
            known = [offset for offset in offsets if low <= offset <= high]
            if handle.is_fifo:
                ordered += [Acked(topic, group, queue, offset, handle) for offset in known]
            elif known:
                drafts.append(self._take_back(topic, group, queue, handle, known))
        return drafts, ordered


def _changed(request: Command, handle: Handle) -> Command:
    fields = {
        "popTime": str(handle.pop_time),
        "invisibleTime": str(handle.invisible_ms),
        "reviveQid": str(handle.revive_queue),
    }
    return make_answer(request, fields=fields)
