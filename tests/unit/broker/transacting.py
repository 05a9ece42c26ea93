"""Transactional producers for the tests of a broker, and what is visible of their messages."""

from __future__ import annotations

from dataclasses import dataclass

from embermq.broker.broker import Broker
from embermq.format.command import Command, decode_command, encode_command, make_request
from embermq.format.heartbeat_body import Heartbeat, encode_heartbeat
from embermq.format.message_id import decode_message_id
from embermq.model.codes import RequestCode
from embermq.model.topic import GIVEN_UP_TOPIC
from tests.unit.broker.both_ways import Caller
from tests.unit.broker.brokers import Client, until

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
        answer = await self.ask(310, self.half_fields(body, topic=topic, queue=queue, **properties), body)
        return begun_by(body, answer)

    def half_fields(self, body: bytes, *, topic: str = "orders", queue: int = 0, **properties: str) -> dict[str, str]:
        own = {"TRAN_MSG": "true", "PGROUP": self.group, "UNIQ_KEY": f"ID{body.hex()}"}
        return self.fields(topic, queue, **own | properties)

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
        return questions_among(self.peer.take_sent())

    async def come(self) -> None:
        """Register, and be known when that is over."""
        self.register()

    async def go(self) -> None:
        self.leave()

    async def listen(self) -> list[Begun]:
        """All that it was asked until now."""
        return self.questions()


class ConnectedProducer(TransactionProducer):
    """The same with a connection of its own, so that kernels see what it sends."""

    def __init__(self, broker: Broker, caller: Caller, *, group: str = GROUP) -> None:
        super().__init__(broker, group=group)
        self._caller = caller
        self._told: list[Command] = []

    def tell(self, *requests: Command) -> None:
        self._caller.writer.write(b"".join(map(encode_command, requests)))

    async def answer_to(self, request: Command) -> Command:
        (answer,) = await self._answers_to([request])
        return answer

    async def ask_together(self, requests: list[Command]) -> list[Command]:
        """The answers to requests that are sent at once."""
        self.tell(*requests)
        return await self._answers_to(requests)

    async def _answers_to(self, requests: list[Command]) -> list[Command]:
        answers: dict[int, Command] = {}
        while len(answers) < len(requests):
            for command in map(decode_command, await self._caller.answers(1)):
                if command.is_answer:
                    answers[command.opaque] = command
                else:
                    self._told.append(command)
        return [answers[request.opaque] for request in requests]

    async def come(self) -> None:
        self.register()
        await self.listen()

    async def close(self) -> None:
        await self._caller.close()

    async def go(self) -> None:
        await self.close()
        await until(lambda: not self.broker.membership.askable(self.group))

    async def listen(self) -> list[Begun]:
        await self.ask(RequestCode.GET_BROKER_RUNTIME_INFO)  # answered after whatever was sent before
        told, self._told = self._told, []
        return questions_among(told)


def begun_by(body: bytes, answer: Command) -> Begun:
    """The transaction that a half message began, by the answer to it."""
    assert answer.code == 0, answer.remark
    _, position = decode_message_id(answer.fields["msgId"])
    return Begun(body, int(answer.fields["queueOffset"]), position, answer.fields["transactionId"])


def questions_among(commands: list[Command]) -> list[Begun]:
    return [question_of(command) for command in commands if command.code == RequestCode.CHECK_TRANSACTION_STATE]


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
