"""The timer against a model, with a clock that the test moves and crashes as steps.

Whatever happens: nothing comes early, what was recalled in time never comes, what is due has come once the broker had
time, and each crash repeats a message once at most.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from embermq.broker.settings import BrokerSettings
from embermq.kernels import loading
from tests.crash.broker_machine import BrokerMachine
from tests.unit.broker.brokers import Client, until

TOPIC, QUEUES = "orders", 2
DELAYS_MS = st.one_of(st.integers(1, 4_000), st.integers(1, 40_000))


class TimerMachine(BrokerMachine):
    """A broker, and what must come of what it was told."""

    broker_settings = BrokerSettings(timer_file_size=1_040, timer_roll_slots=6, timer_flush_ms=3_600_000)

    def __init__(self) -> None:
        super().__init__()
        self.due: dict[str, int] = {}
        self.handles: dict[str, str] = {}
        self.recalled: set[str] = set()

    def opened(self) -> None:
        self.client = Client(self.broker)

    @rule(delays=st.lists(DELAYS_MS, min_size=1, max_size=12))
    def send(self, delays: list[int]) -> None:
        for delay in delays:
            key = f"M{len(self.due)}"
            self.due[key] = self.clock.now_ms() + delay
            asked = {"TIMER_DELIVER_MS": str(self.due[key]), "UNIQ_KEY": key}
            answer = self.run(self.client.send(TOPIC, key.encode(), queue=len(self.due) % QUEUES, **asked))
            assert answer.code == 0, answer.remark
            self.handles[key] = answer.fields["recallHandle"]

    @precondition(lambda self: self.due)
    @rule(data=st.data())
    def recall(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.due)))
        answer = self.run(self.client.ask(370, {"topic": TOPIC, "recallHandle": self.handles[key]}))
        if answer.code == 0:
            self.recalled.add(key)
        else:  # only because it is, or is about to be, due
            assert answer.code == 604 and self.due[key] - self.clock.now_ms() <= 1_000

    @rule(ms=st.integers(1, 5_000))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms=ms)
        assert self.broker.timers is not None
        self.broker.timers.wake()

    @rule(steps=st.integers(1, 30))
    def work_a_little(self, steps: int) -> None:
        self.work_for(steps)

    @rule()
    def flush(self) -> None:
        assert self.broker.timers is not None
        self.run(self.broker.timers.flush())

    @rule()
    def crash(self) -> None:
        self.go_on_with_copy()

    @rule()
    def restart(self) -> None:
        self.close()
        self.open()

    @rule()
    def settle(self) -> None:
        """Once the broker has had time, exactly what is due has come."""
        now = self.clock.now_ms()
        self.run(until(self.is_timer_idle))
        self.clock.advance(ms=1_000)  # what was late already is put into the slot of this second
        self.run(until(self.is_timer_idle))
        missing = {key for key, due in self.due.items() if due <= now} - self.recalled - set(self.delivered())
        assert not missing

    def delivered(self) -> Counter[str]:
        return Counter(key for key, _ in self.copies())

    def copies(self) -> list[tuple[str, int]]:
        return [
            (message.body.decode(), message.store_time_ms)
            for queue in range(QUEUES)
            for message in self.store.get(TOPIC, queue=queue, offset=0, limit=10_000, max_bytes=1 << 30)
        ]

    @invariant()
    def nothing_is_early_or_too_often(self) -> None:
        if not self.due:
            return
        copies = self.copies()
        assert all(time >= self.due[key] for key, time in copies)
        assert not {key for key, _ in copies} & self.recalled
        assert all(count <= 1 + self.lives for count in self.delivered().values())

    def finish(self) -> None:
        self.clock.advance(ms=60_000)
        self.settle()
        self.nothing_is_early_or_too_often()


class CompiledTimerMachine(TimerMachine):
    """The same where kernels enqueue and deliver."""

    def opened(self) -> None:
        loading.load()
        super().opened()
        self.store.use_kernels()
        assert self.broker.timers is not None
        self.broker.timers.use_kernels()


SETTINGS = settings(max_examples=10, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
TestTimerModel = TimerMachine.TestCase
TestTimerModel.settings = SETTINGS
TestCompiledTimerModel = CompiledTimerMachine.TestCase
TestCompiledTimerModel.settings = SETTINGS
