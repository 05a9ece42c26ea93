"""Pops against a model, with a clock that the test moves and crashes as steps.

Whatever happens: a message is with at most one consumer of a group during its invisible time, one that was acknowledged
in time never returns, and none is lost. One group pops in any order, another in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from embermq.broker.settings import BrokerSettings
from embermq.format.command import Command
from embermq.model.codes import RequestCode
from tests.crash.broker_machine import BrokerMachine
from tests.crash.served_machine import ServedMachine
from tests.unit.broker.brokers import until
from tests.unit.broker.popping import TOPIC, ConnectedPopClient, PopClient, Popped, popped_of

QUEUES = 2
IN_ANY_ORDER, IN_ORDER = "any", "ordered"
GROUPS = st.sampled_from([IN_ANY_ORDER, IN_ORDER])
NUMBERS = st.integers(0, 1_000)
TIMES_MS = st.one_of(st.integers(0, 3_000), st.integers(1_000, 20_000))


@dataclass
class Held:
    """A message that a consumer has, until a moment."""

    group: str
    message: Popped
    until_ms: int


class PopMachine(BrokerMachine):
    """A broker, and who has what by its answers."""

    broker_settings = BrokerSettings(timer_file_size=1_040, revive_queues=2, offset_save_ms=3_600_000)
    durability = "sync"

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.held: dict[tuple[str, bytes], Held] = {}
        self.acked: set[tuple[str, bytes]] = set()
        self.acked_late: set[tuple[str, bytes]] = set()  # these may come again, or not

    def opened(self) -> None:
        self.sender = PopClient(self.broker)
        self.clients = {group: self.make_client(group) for group in (IN_ANY_ORDER, IN_ORDER)}

    def make_client(self, group: str) -> PopClient:
        return PopClient(self.broker, group=group)

    @rule(count=st.integers(1, 8))
    def send(self, count: int) -> None:
        for _ in range(count):
            body = b"M%d" % len(self.sent)
            answer = self.run(self.sender.send(TOPIC, body, queue=len(self.sent) % QUEUES))
            assert answer.code == 0, answer.remark
            self.sent.append(body)

    @rule(group=GROUPS, most=st.integers(1, 6), invisible_ms=TIMES_MS)
    def pop(self, group: str, most: int, invisible_ms: int) -> None:
        self._pop(group, most, invisible_ms)

    def _pop(self, group: str, most: int, invisible_ms: int) -> int:
        if not self.sent:  # there is no topic yet
            return 0
        client = self.clients[group]
        fields = client.fields(maxMsgNums=most, invisibleTime=invisible_ms, order=str(group == IN_ORDER).lower())
        answer = self.run(client.ask(RequestCode.POP_MESSAGE, fields))
        assert answer.code in (0, 210), answer
        messages = popped_of(answer, TOPIC, group)
        for message in messages:
            key = group, message.body
            assert key not in self.acked, f"{key} was acknowledged and came again"
            holder = self.held.get(key)
            assert holder is None or holder.until_ms <= self.clock.now_ms(), f"{key} is with another"
            self.held[key] = Held(group, message, int(answer.fields["popTime"]) + invisible_ms)
        return len(messages)

    @rule(number=NUMBERS)
    def ack(self, number: int) -> None:
        for key in self._chosen([number]):
            self._note_ack(key, self.run(self.clients[key[0]].ack(self.held[key].message)))

    @rule(numbers=st.lists(NUMBERS, min_size=1, max_size=5))
    def ack_batch(self, numbers: list[int]) -> None:
        keys = self._chosen(numbers)
        own = [key for key in keys if key[0] == keys[0][0]]
        if own:
            answer = self.run(self.clients[own[0][0]].ack_batch([self.held[key].message for key in own]))
            for key in own:
                self._note_ack(key, answer)

    def _note_ack(self, key: tuple[str, bytes], answer: Command) -> None:
        assert answer.code == 0, answer
        in_time = self.clock.now_ms() < self.held[key].until_ms
        (self.acked if in_time else self.acked_late).add(key)
        del self.held[key]

    @rule(number=NUMBERS, invisible_ms=TIMES_MS)
    def change(self, number: int, invisible_ms: int) -> None:
        for key in self._chosen([number]):
            held = self.held[key]
            answer = self.run(self.clients[held.group].change(held.message, invisible_ms))
            if self.clock.now_ms() >= held.until_ms and held.group == IN_ANY_ORDER:
                assert answer.code == 208, answer
            else:
                assert answer.code == 0, answer
                self._note_change(held, answer)

    def _note_change(self, held: Held, answer: Command) -> None:
        start, _, _, revive_queue, *rest = held.message.handle.split(" ")
        told = answer.fields
        popped, invisible = int(told["popTime"]), int(told["invisibleTime"])
        if held.group == IN_ANY_ORDER:
            start = str(held.message.offset)
        elif self.clock.now_ms() >= held.until_ms:
            return  # it may be with another by now
        handle = " ".join([start, str(popped), str(invisible), revive_queue, *rest])
        held.message = held.message._replace(handle=handle)
        held.until_ms = popped + invisible

    def _chosen(self, numbers: list[int]) -> list[tuple[str, bytes]]:
        """Some of the messages that consumers have; which, is up to the moment, and what is drawn is not."""
        keys = sorted(self.held)
        return list(dict.fromkeys(keys[number % len(keys)] for number in numbers)) if keys else []

    @rule(ms=st.integers(1, 5_000))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms=ms)

    @rule(steps=st.integers(1, 30))
    def work_a_little(self, steps: int) -> None:
        self.work_for(steps)

    @rule()
    def save_offsets(self) -> None:
        self.broker.pops.progress.settle()
        self.broker.offsets.save()

    @rule()
    def revive(self) -> None:
        self.run(self._revive())

    async def _revive(self) -> None:
        await until(self.is_timer_idle)
        await self.broker.pops.revival.round()

    @rule()
    def crash(self) -> None:
        self.go_on_with_copy()

    @rule()
    def restart(self) -> None:
        self.close()
        self.open()

    def finish(self) -> None:
        """Nothing is lost: whatever was not acknowledged comes again."""
        self.clock.advance(ms=60_000)
        for _ in range(3):  # what waits for its time, for its slot, and for the slot of its acks
            self.clock.advance(ms=3_000)
            self.run(self._revive())
        self.held.clear()
        for group in (IN_ANY_ORDER, IN_ORDER) if self.sent else ():
            while self._pop(group, 32, 100_000_000):
                for key in [key for key in self.held if key[0] == IN_ORDER]:
                    self._note_ack(key, self.run(self.clients[IN_ORDER].ack(self.held[key].message)))
            came = {key for key in (*self.held, *self.acked) if key[0] == group}
            missing = {(group, body) for body in self.sent} - came - self.acked_late
            assert not missing, f"lost: {missing}"


class EnginePopMachine(ServedMachine, PopMachine):
    """The same where kernels take acks."""

    def make_client(self, group: str) -> PopClient:
        return ConnectedPopClient(self.broker, self.connect(), group=group)

    @rule(most=st.integers(1, 32))
    def pop_and_ack_together(self, most: int) -> None:
        """Acks that come in one read, of a consumer that has just come."""
        self.clients[IN_ANY_ORDER] = client = ConnectedPopClient(self.broker, self.connect(), group=IN_ANY_ORDER)
        self._pop(IN_ANY_ORDER, most, 20_000)
        keys = sorted(key for key in self.held if key[0] == IN_ANY_ORDER)
        assert self.broker._fast is not None
        before = self.broker._fast.acks.taken
        answers = self.run(client.ack_together([self.held[key].message for key in keys]))
        for key, answer in zip(keys, answers, strict=True):
            self._note_ack(key, answer)
        assert not keys or self.broker._fast.acks.taken > before, "kernels took none of the acks"


def test_a_crash_after_the_first_pop_in_any_order_that_follows_one_in_order() -> None:
    """The ordered one saves the offsets, when nothing was popped yet that they need not know."""
    machine = PopMachine()
    machine.open()
    machine.send(count=1)
    machine.pop(group=IN_ORDER, invisible_ms=0, most=1)
    machine.pop(group=IN_ANY_ORDER, invisible_ms=1_000, most=1)
    machine.crash()
    machine.pop(group=IN_ANY_ORDER, invisible_ms=0, most=1)
    machine.teardown()


SETTINGS = settings(max_examples=10, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
TestPopModel = PopMachine.TestCase
TestPopModel.settings = SETTINGS
TestEnginePopModel = EnginePopMachine.TestCase
TestEnginePopModel.settings = SETTINGS
