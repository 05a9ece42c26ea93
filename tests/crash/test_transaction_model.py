"""Transactions and a plain dictionary of them do the same things in any order, with kills and torn logs among them.

A kill is a copy of the directory of the open store: what a killed process leaves. A torn log lacks its last record,
too: in the middle of what a broker writes in one piece. Whatever happens, a message that was committed is seen once,
one that was not is not, and in the end no transaction is open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import invariant, precondition, rule

from embermq.broker.settings import BrokerSettings
from embermq.broker.stages import ENGINE
from embermq.format.command import Command, make_request
from embermq.model.codes import RequestCode
from tests.builders import SMALL_SIZES
from tests.crash.broker_machine import BrokerMachine
from tests.crash.served_machine import ServedMachine
from tests.unit.broker.transacting import (
    COMMIT,
    ROLL_BACK,
    Begun,
    ConnectedProducer,
    TransactionProducer,
    begun_by,
    given_up,
    look,
    visible,
)

CHECKS = 3
TIMEOUT_MS, INTERVAL_MS = 6_000, 10_000
SOON_MS = 8 * INTERVAL_MS  # every pause is over after it


class State(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    GIVEN_UP = "given up"


@dataclass
class Known:
    """A transaction: its state, and all that its producer may end it with."""

    state: State = State.OPEN
    handles: list[Begun] = field(default_factory=list)
    checks: int = 0
    is_unmarked: bool = False  # committed, but the mark was torn: a second commit is taken until that is noticed


class TransactionMachine(BrokerMachine):
    broker_settings = BrokerSettings(
        transaction_check_max=CHECKS,
        transaction_timeout_ms=TIMEOUT_MS,
        transaction_check_interval_ms=INTERVAL_MS,
    )

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[bytes, Known] = {}
        self.last: tuple[str, bytes] | None = None  # what the log's last record is about, if a tear can be told from it
        self.torn: tuple[int, int] | None = None  # position and size of the record that the next crash tears

    def opened(self) -> None:
        self.producer = self.make_producer()
        self.producer_comes()

    def make_producer(self) -> TransactionProducer:
        return TransactionProducer(self.broker)

    @rule(queue=st.integers(0, 3), size=st.integers(1, 3_000))
    def begin(self, queue: int, size: int) -> None:
        body = (b"%d-" % len(self.known)).ljust(size, b".")
        begun = self.run(self.producer.begin(body, queue=queue))
        self.is_there = True  # who sends can be asked
        self.known[body] = Known(handles=[begun])
        self.last = ("half", body)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), how=st.sampled_from([COMMIT, ROLL_BACK]))
    def end(self, data: st.DataObject, how: int) -> None:
        body = data.draw(st.sampled_from(list(self.known)))
        known = self.known[body]
        handle = data.draw(st.sampled_from(known.handles))
        answer = self.run(self.producer.end(handle, how))
        if known.is_unmarked and how == COMMIT:
            self.last = None
            return
        assert (answer.code == 0) is (known.state is State.OPEN), (known, answer.remark)
        if answer.code == 0:
            known.state = State.COMMITTED if how == COMMIT else State.ROLLED_BACK
            self.last = ("end", body)

    @rule(ms=st.sampled_from([1, 1_000, TIMEOUT_MS, INTERVAL_MS, SOON_MS]))
    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms=ms)
        self.look()

    def look(self) -> None:
        self.run(look(self.broker))
        asked = self.run(self.producer.listen())
        for question in asked:
            known = next(each for each in self.known.values() if each.handles[0].unique_id == question.unique_id)
            assert known.state is State.OPEN, "who ended it is not asked"
            assert self.is_there
            known.handles.append(question)
            known.checks += 1
            assert known.checks <= CHECKS
            self.last = None
        for body in given_up(self.broker):
            known = self.known[body]
            if known.state is State.OPEN:
                assert known.checks == CHECKS
                known.state = State.GIVEN_UP
                self.last = None
        if len(asked) == 1:
            self.last = ("question", next(b for b, k in self.known.items() if k.handles[-1] is asked[0]))

    @precondition(lambda self: self.is_there)
    @rule()
    def producer_leaves(self) -> None:
        self.run(self.producer.go())
        self.producer = self.make_producer()
        self.is_there = False

    @precondition(lambda self: not self.is_there)
    @rule()
    def producer_comes(self) -> None:
        self.run(self.producer.come())
        self.is_there = True

    @rule()
    def save_offsets(self) -> None:
        self.broker.transactions.halves.save_progress()
        self.broker.offsets.save()

    @rule()
    def restart(self) -> None:
        self.close()
        self.open()
        self.last = None

    @rule()
    def kill(self) -> None:
        self.go_on_with_copy()
        self.last = None

    @precondition(lambda self: self.last is not None)
    @rule()
    def kill_and_tear(self) -> None:
        """The record that was written last is not whole."""
        assert self.last is not None
        what, body = self.last
        self.torn = self._last_record()
        self.go_on_with_copy()
        known = self.known[body]
        if what == "half":
            del self.known[body]
        elif known.state is State.ROLLED_BACK:
            known.state = State.OPEN  # nobody knows of it any more, and its producer is asked again
        elif known.state is State.COMMITTED:
            known.is_unmarked = True
        self.last = None

    def _last_record(self) -> tuple[int, int]:
        """Position and size of what was written last."""
        store = self.store
        return max(
            (entry.position, entry.size)
            for topic in store.topics()
            for queue in store.queues(topic)
            for entry in store.entries(topic, queue=queue, offset=store.offsets(topic, queue=queue)[1] - 1, limit=1)
        )

    def change_copy(self) -> None:
        if self.torn is None:
            return
        position, size = self.torn
        self.torn = None
        start = position - position % SMALL_SIZES["log_file_size"]
        with (self.path / "commitlog" / f"{start:020}").open("r+b") as file:
            file.seek(position - start)
            file.write(bytes(size))

    @invariant()
    def committed_ones_are_seen_once_and_no_others(self) -> None:
        if hasattr(self, "broker"):
            committed = sorted(body for body, known in self.known.items() if known.state is State.COMMITTED)
            assert sorted(visible(self.broker)) == committed

    def finish(self) -> None:
        """Every transaction that is still open is ended by asking."""
        if not self.is_there:
            self.producer_comes()
        for _ in range(2):
            self.clock.advance(ms=SOON_MS)
            self.look()
            for body, known in self.known.items():
                if known.state is State.OPEN:
                    answer = self.run(self.producer.end(known.handles[-1], COMMIT, is_asked=True))
                    assert answer.code == 0, (body, answer.remark)
                    known.state = State.COMMITTED
        self.committed_ones_are_seen_once_and_no_others()
        assert len(self.broker.transactions.halves) == 0
        assert self.broker.transactions.counts.items() == []


class EngineTransactionMachine(ServedMachine, TransactionMachine):
    """The same where kernels take half messages, and find ends of transactions among them."""

    def opened(self) -> None:
        self.sent_before = len(self.known)
        super().opened()

    def make_producer(self) -> TransactionProducer:
        return ConnectedProducer(self.broker, self.connect())

    @precondition(lambda self: len(self.known) > self.sent_before)
    @rule(count=st.integers(2, 12), data=st.data())
    def end_and_begin_many(self, count: int, data: st.DataObject) -> None:
        """Half messages and ends that come in one read."""
        half = [b"%d-" % (len(self.known) + number) for number in range(count)]
        open_ones = [body for body, known in self.known.items() if known.state is State.OPEN and not known.is_unmarked]
        ended = data.draw(st.lists(st.sampled_from(open_ones), unique=True, max_size=4)) if open_ones else []
        hows = [data.draw(st.sampled_from([COMMIT, ROLL_BACK])) for _ in ended]
        begun, answers = self.run(self._send_together(half, ended, hows))
        for body, each in zip(half, begun, strict=True):
            self.known[body] = Known(handles=[each])
        for body, how, answer in zip(ended, hows, answers, strict=True):
            assert answer.code == 0, (body, answer.remark)
            self.known[body].state = State.COMMITTED if how == COMMIT else State.ROLLED_BACK
        self.is_there = True
        self.last = None

    async def _send_together(
        self, half: list[bytes], ended: list[bytes], hows: list[int]
    ) -> tuple[list[Begun], list[Command]]:
        producer = self.producer
        assert isinstance(producer, ConnectedProducer)
        ends = [
            make_request(RequestCode.END_TRANSACTION, producer.end_fields(self.known[body].handles[-1], how))
            for body, how in zip(ended, hows, strict=True)
        ]
        halves = [make_request(310, producer.half_fields(body), body) for body in half]
        answers = await producer.ask_together([*halves[:1], *ends, *halves[1:]])
        begun = [answers[0], *answers[1 + len(ends) :]]
        return list(map(begun_by, half, begun)), answers[1 : 1 + len(ends)]

    def close(self) -> None:
        if len(self.known) > self.sent_before + 3:
            assert self.broker.stages[ENGINE].store.messages > 0, "kernels took none of the half messages"
        super().close()


SETTINGS = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = SETTINGS
TestEngineTransactions = EngineTransactionMachine.TestCase
TestEngineTransactions.settings = SETTINGS
