"""A transactional producer for the tests of a broker, and what is visible of its messages."""

from __future__ import annotations

from dataclasses import dataclass

from embermq.broker.broker import Broker
from embermq.format.command import Command, make_request
from embermq.format.heartbeat_body import Heartbeat, encode_heartbeat
from embermq.format.message_id import decode_message_id
from embermq.model.codes import RequestCode
from embermq.model.topic import GIVEN_UP_TOPIC
from tests.unit.broker.brokers import Client

COMMIT, ROLL_BACK, UNKNOWN = 8, 12, 0
GROUP = "PID_tx"


@dataclass
class Begun:
    """A transaction, as its producer knows it."""

    body: bytes
    offset: int
    position: int
    unique_id: str


class TransactionProducer(Client):
    """Sends half messages and ends transactions, as RocketMQ's clients do."""

    def __init__(self, broker: Broker, *, group: str = GROUP) -> None:
        super().__init__(broker)
        self.group = group

    def register(self) -> None:
        """Say that it is there, so that it can be asked."""
        heartbeat = Heartbeat(f"client-{id(self)}", producers=(self.group,))
        self.tell(make_request(RequestCode.HEART_BEAT, body=encode_heartbeat(heartbeat)))

    def leave(self) -> None:
        self.peer.close()
        self.broker.connection_closed(self.peer)

    async def begin(self, body: bytes = b"hello", *, topic: str = "orders", queue: int = 0, **properties: str) -> Begun:
        """Send a half message."""
        unique_id = properties.pop("UNIQ_KEY", f"ID{body.hex()}")
        own = {"TRAN_MSG": "true", "PGROUP": self.group, "UNIQ_KEY": unique_id}
        fields = self.fields(topic, queue, **own, **properties)
        answer = await self.ask(310, fields, body)
        assert answer.code == 0, answer.remark
        _, position = decode_message_id(answer.fields["msgId"])
        return Begun(body, int(answer.fields["queueOffset"]), position, unique_id)

    def fields(self, topic: str, queue: int, **properties: str) -> dict[str, str]:
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        return {
            "a": self.group, "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "4",
            "g": str(self.broker.clock.now_ms()), "h": "7", "i": text, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip

    async def end(self, begun: Begun, how: int, *, is_asked: bool = False, **fields: str) -> Command:
        return await self.ask(RequestCode.END_TRANSACTION, self.end_fields(begun, how, is_asked=is_asked) | fields)

    def end_fields(self, begun: Begun, how: int, *, is_asked: bool = False) -> dict[str, str]:
        return {
            "producerGroup": self.group, "tranStateTableOffset": str(begun.offset),
            "commitLogOffset": str(begun.position), "commitOrRollback": str(how),
            "fromTransactionCheck": "true" if is_asked else "false", "msgId": begun.unique_id,
        }  # fmt: skip

    def questions(self) -> list[Begun]:
        """What it was asked since the last time, as what it would answer with."""
        asked = [command for command in self.peer.take_sent() if command.code == RequestCode.CHECK_TRANSACTION_STATE]
        return [question_of(command) for command in asked]


def question_of(command: Command) -> Begun:
    fields = command.fields
    return Begun(command.data, int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"]), fields["msgId"])


def visible(broker: Broker, topic: str = "orders", queues: int = 4) -> list[bytes]:
    """The bodies that consumers can see."""
    return [
        message.body
        for queue in range(queues)
        for message in broker.store.get(topic, queue=queue, offset=0, limit=10_000)
    ]


def given_up(broker: Broker) -> list[bytes]:
    return [message.body for message in broker.store.get(GIVEN_UP_TOPIC, queue=0, offset=0, limit=10_000)]


async def look(broker: Broker) -> None:
    """Have everything done that is due."""
    while await broker.transactions.checker.look():
        pass
