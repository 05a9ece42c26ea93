"""A consumer that pops, for tests of a broker."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from embermq.broker.broker import Broker
from embermq.format.command import Command, decode_command, encode_command
from embermq.format.record import Record, decode_record
from embermq.model.codes import RequestCode
from embermq.model.pop import retry_topic_of
from embermq.model.properties import POP_CK
from tests.unit.broker.both_ways import Caller
from tests.unit.broker.brokers import Client

TOPIC, GROUP = "orders", "billing"


class Popped(NamedTuple):
    """A message that was popped, and the handle that a client makes of the answer."""

    body: bytes
    topic: str  # the one that it was read from
    queue: int
    offset: int
    retries: int
    handle: str


class PopClient(Client):
    """A consumer of one group that pops one topic."""

    def __init__(self, broker: Broker, *, topic: str = TOPIC, group: str = GROUP) -> None:
        super().__init__(broker)
        self.topic = topic
        self.group = group

    def fields(self, **changes: object) -> dict[str, str]:
        return pop_fields(self.topic, self.group, **changes)

    async def pop(self, **changes: object) -> list[Popped]:
        return popped_of(await self.ask(RequestCode.POP_MESSAGE, self.fields(**changes)), self.topic, self.group)

    async def ack(self, message: Popped, **changes: object) -> Command:
        return await self.ask(RequestCode.ACK_MESSAGE, self.ack_fields(message, **changes))

    async def change(self, message: Popped, invisible_ms: int) -> Command:
        fields = self.ack_fields(message, invisibleTime=invisible_ms)
        return await self.ask(RequestCode.CHANGE_MESSAGE_INVISIBLE_TIME, fields)

    async def ack_batch(self, messages: Iterable[Popped]) -> Command:
        """One element a message, as few clients do it, and all may."""
        elements = []
        for message in messages:
            start, popped, invisible, revive_queue, kind, *_ = message.handle.split(" ")
            bits = 1 << message.offset - int(start)
            elements.append(
                {
                    "b": base64.b64encode(bits.to_bytes(bits.bit_length() // 8 + 1, "little")).decode(),
                    "c": self.group, "it": int(invisible), "pt": int(popped), "q": message.queue, "r": kind,
                    "rq": int(revive_queue), "so": int(start), "t": self.topic,
                }
            )  # fmt: skip
        body = json.dumps({"acks": elements, "brokerName": "broker-a"}).encode()
        return await self.ask(RequestCode.BATCH_ACK_MESSAGE, body=body)

    def ack_fields(self, message: Popped, **changes: object) -> dict[str, str]:
        return ack_fields(message, self.group, **changes)


class ConnectedPopClient(PopClient):
    """The same with a connection of its own, so that kernels see what it sends."""

    def __init__(self, broker: Broker, caller: Caller, *, group: str) -> None:
        super().__init__(broker, group=group)
        self._caller = caller

    async def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
        return await self._caller.ask(code, fields or {}, body)

    async def ack_together(self, messages: Sequence[Popped]) -> list[Command]:
        """Acks that are sent at once, and their answers."""
        acks = [
            Command(RequestCode.ACK_MESSAGE, self.ack_fields(message), b"", number)
            for number, message in enumerate(messages)
        ]
        self._caller.writer.write(b"".join(map(encode_command, acks)))
        answers = [decode_command(frame) for frame in await self._caller.answers(len(acks))]
        return sorted(answers, key=lambda answer: answer.opaque)


def pop_fields(topic: str, group: str, /, **changes: object) -> dict[str, str]:
    fields: dict[str, object] = {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32, "invisibleTime": 8_000,
        "pollTime": 0, "bornTime": 0, "initMode": 0, "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip
    return {name: str(value) for name, value in (fields | changes).items()}


def ack_fields(message: Popped, group: str, /, **changes: object) -> dict[str, str]:
    fields: dict[str, object] = {
        "consumerGroup": group, "topic": message.topic, "queueId": message.queue, "offset": message.offset,
        "extraInfo": message.handle,
    }  # fmt: skip
    return {name: str(value) for name, value in (fields | changes).items()}


def popped_of(answer: Command, topic: str, group: str) -> list[Popped]:
    """The messages of an answer; none if it has none."""
    if not answer.body:
        return []
    fields = answer.fields
    starts = {tuple(each.split(" ")[:2]): each.split(" ")[2] for each in fields["startOffsetInfo"].split(";")}
    rows = [each.split(" ") for each in fields["msgOffsetInfo"].split(";")]
    places = [(kind, int(queue), int(offset)) for kind, queue, offsets in rows for offset in offsets.split(",")]
    found = []
    for (kind, queue, offset), record in zip(places, _records(answer.data), strict=True):
        real = topic if kind == "0" else retry_topic_of(topic, group, version=int(kind))
        told = topic if POP_CK in record.property_map() else real
        assert (record.topic, record.queue, record.offset) == (told, queue, offset)
        made = f"{starts[kind, str(queue)]} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} {kind}"
        handle = record.property_map().get(POP_CK, f"{made} broker-a {queue} {offset}")
        assert handle.startswith(made)
        found.append(Popped(record.body, real, queue, offset, record.reconsume_times, handle))
    return found


def _records(data: bytes) -> list[Record]:
    found = []
    while data:
        found.append(decode_record(data, 0, check_position=False))
        data = data[found[-1].size :]
    return found
