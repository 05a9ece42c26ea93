"""BrokerStatistics: what goes through a broker, counted by topic, queue and group.

Counting is a few additions for each batch of messages; rates are worked out when somebody asks.
`sample`, which is to be called every second, is what makes time pass.
Names are those of RocketMQ's statistics (`TOPIC_PUT_NUMS` and so on), as its tools ask for them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from embermq.broker.counting import Counter, Figures, Window
from embermq.broker.put_times import PutTimes
from embermq.clock import Clock
from embermq.format.stats_body import FIGURES, StatsKind
from embermq.model.topic import LIGHT_PREFIX, is_system_topic

SAMPLES: Final = 601  # one a second: the last ten minutes
ALL_WINDOWS: Final = 0b111
_MINUTE_S: Final = 60


class Sample(NamedTuple):
    """The totals of one second."""

    time_ms: int
    puts: int
    found: int
    missed: int
    transferred: int


@dataclass(slots=True)
class Totals:
    """What was counted since the broker was started."""

    puts: int = 0  # messages
    put_size: int = 0
    found: int = 0  # gets with messages
    missed: int = 0  # gets without
    transferred: int = 0  # messages of the gets
    puts_of_users: int = 0  # without the system's own topics
    gets_of_users: int = 0


class DayMarks(NamedTuple):
    """The totals of users' messages at the last midnight, and at the one before."""

    puts_yesterday: int = 0
    puts_today: int = 0
    gets_yesterday: int = 0
    gets_today: int = 0


class _Path(NamedTuple):
    """The counters of one kind of traffic: that of the queue and that of the topic or group; and, of gets, the ms."""

    narrow: Counter
    wide: Counter
    is_of_users: bool
    spent: Counter | None = None


class BrokerStatistics:
    """Counts for one broker. Used in its event loop alone."""

    def __init__(self, clock: Clock, *, cluster: str = "DefaultCluster") -> None:
        self.more_puts: Callable[[], Iterable[tuple[bytes, int, int, int]]] = tuple  # topic, queue, messages, bytes
        self._totals = Totals()
        self.day_marks = DayMarks()
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)
        self.put_times = PutTimes()
        self.longest_get_ms = 0
        self._last_put_ms = 0
        self._clock = clock
        self._cluster = cluster
        self._counters: dict[StatsKind, dict[str, Counter]] = {kind: {} for kind in StatsKind}
        self._puts: dict[tuple[str, int], _Path] = {}
        self._gets: dict[tuple[str, int, str], _Path] = {}
        self._minute = Window(0b001, period_s=10, keep=7)
        self._hour = Window(0b010, period_s=600, keep=7)
        self._day = Window(0b100, period_s=3600, keep=25)
        self._windows = (self._minute, self._hour, self._day)
        self._seconds = 0
        self._today = self._local_day()
        self._sample_totals()

    @property
    def totals(self) -> Totals:
        """What was counted since the start."""
        self._gather()
        return self._totals

    def _gather(self) -> None:
        """Count what others have counted meanwhile."""
        for name, queue, messages, size in self.more_puts():
            topic = name.decode()
            self.count_put(topic, queue, messages, size)
            self._add(StatsKind.PUT_TIME, f"{queue}@{topic}", self._last_put_ms)

    def count_put(self, topic: str, queue: int, messages: int, size: int) -> None:
        """So many messages, of so many bytes in the log, were stored by one request."""
        topic = _counted_as(topic)
        path = self._puts.get((topic, queue)) or self._open_put(topic, queue)
        self._count(path, messages, size)
        totals = self._totals
        totals.puts += messages
        totals.put_size += size
        if path.is_of_users:
            totals.puts_of_users += messages

    def count_get(self, topic: str, queue: int, group: str, messages: int, size: int, *, ms: int = 0) -> None:
        """A queue was read for a group, in that time, and so many messages were found, which may be none."""
        if messages:
            self.count_gets(topic, queue, group, 1, messages, size, ms=ms)
        else:
            self._totals.missed += 1

    def count_gets(
        self, topic: str, queue: int, group: str, pulls: int, messages: int, size: int, *, ms: int = 0
    ) -> None:
        """So many pulls were answered with so many messages together, each with one at least, in that time."""
        totals, topic, group = self._totals, _counted_as(topic), _counted_as(group)
        path = self._gets.get((topic, queue, group)) or self._open_get(topic, queue, group)
        self._count(path, messages, size, pulls)
        spent = path.spent
        assert spent is not None
        spent.messages += ms
        spent.times += pulls
        if spent.watched != ALL_WINDOWS:
            self._watch(spent)
        self.longest_get_ms = max(self.longest_get_ms, ms // pulls)
        totals.found += pulls
        totals.transferred += messages
        if path.is_of_users:
            totals.gets_of_users += messages

    def count_send_back(self, topic: str, group: str) -> None:
        """A consumer gave a message of its retry topic back."""
        self._add(StatsKind.SEND_BACK, f"{topic}@{group}", 1)

    def count_dead_letter(self, topic: str, group: str, *, owner: str | None = None) -> None:
        """A message went to the group's dead letters, because it was given back too often."""
        self._add(StatsKind.DEAD_LETTER, f"{owner or 'null'}@{topic}@{group}@SEND_BACK_TO_DLQ", 1)

    def count_acks(self, topic: str, group: str, messages: int) -> None:
        """A group acknowledged messages that it popped."""
        topic, group = _counted_as(topic), _counted_as(group)
        self._add(StatsKind.GROUP_ACK, f"{topic}@{group}", messages)
        self._add(StatsKind.BROKER_ACK, self._cluster, messages)

    def count_checkpoint(self, topic: str, group: str) -> None:
        """A group popped messages of one queue."""
        topic, group = _counted_as(topic), _counted_as(group)
        self._add(StatsKind.GROUP_CHECKPOINT, f"{topic}@{group}", 1)
        self._add(StatsKind.BROKER_CHECKPOINT, self._cluster, 1)

    def note_put_time(self, ms: int) -> None:
        """How long the puts took that `more_puts` will tell of."""
        self.put_times.add(ms)
        self._last_put_ms = ms

    def count_put_time(self, topic: str, queue: int, ms: int) -> None:
        """How long one send took."""
        self.put_times.add(ms)
        self._add(StatsKind.PUT_TIME, f"{queue}@{_counted_as(topic)}", ms)

    def sample(self) -> None:
        """A second has passed."""
        self._gather()
        self._seconds += 1
        self._sample_totals()
        for window in self._windows:
            if self._seconds % window.period_s == 0:
                window.sample(self._clock.now_ms())
        if self._seconds % _MINUTE_S == 0:
            self.put_times.next_minute()
        day = self._local_day()
        if day != self._today:
            self._today = day
            self._mark_day()

    def minute(self, name: str, key: str) -> Figures | None:
        """What `name` counted for `key` in the last minute; None if it never counted anything."""
        return self._figures(self._minute, name, key)

    def hour(self, name: str, key: str) -> Figures | None:
        return self._figures(self._hour, name, key)

    def day(self, name: str, key: str) -> Figures | None:
        return self._figures(self._day, name, key)

    def counters(self, kind: StatsKind) -> Mapping[str, Counter]:
        """Everything that was counted of one kind since the start, by key."""
        self._gather()
        return self._counters[kind]

    def forget_topic(self, topic: str) -> None:
        """Forget what was counted for a topic that is deleted."""
        self._puts = {key: path for key, path in self._puts.items() if key[0] != topic}
        self._gets = {key: path for key, path in self._gets.items() if key[0] != topic}
        for kind, place in _TOPIC_PLACES.items():
            self._forget(kind, place, topic)

    def forget_group(self, group: str) -> None:
        """Forget what was counted for a group that is deleted."""
        self._gets = {key: path for key, path in self._gets.items() if key[2] != group}
        for kind, place in _GROUP_PLACES.items():
            self._forget(kind, place, group)

    def _count(self, path: _Path, messages: int, size: int, times: int = 1) -> None:
        for counter in (path.narrow, path.wide):
            counter.messages += messages
            counter.size += size
            counter.times += times
            if counter.watched != ALL_WINDOWS:
                self._watch(counter)

    def _add(self, kind: StatsKind, key: str, amount: int) -> None:
        counter = self._counter(kind, key)
        counter.add(amount)
        if counter.watched != ALL_WINDOWS:
            self._watch(counter)

    def _watch(self, counter: Counter) -> None:
        for window in self._windows:
            if not counter.watched & window.bit:
                window.watch(counter)

    def _open_put(self, topic: str, queue: int) -> _Path:
        narrow = self._counter(StatsKind.QUEUE_PUT, f"{topic}@{queue}")
        wide = self._counter(StatsKind.TOPIC_PUT, topic)
        path = self._puts[topic, queue] = _Path(narrow, wide, not is_system_topic(topic))
        return path

    def _open_get(self, topic: str, queue: int, group: str) -> _Path:
        narrow = self._counter(StatsKind.QUEUE_GET, f"{topic}@{queue}@{group}")
        wide = self._counter(StatsKind.GROUP_GET, f"{topic}@{group}")
        spent = self._counter(StatsKind.GET_TIME, f"{queue}@{topic}@{group}")
        path = self._gets[topic, queue, group] = _Path(narrow, wide, not is_system_topic(topic), spent)
        return path

    def _counter(self, kind: StatsKind, key: str) -> Counter:
        counters = self._counters[kind]
        found = counters.get(key)
        if found is None:
            found = counters[key] = Counter()
        return found

    def _figures(self, window: Window, name: str, key: str) -> Figures | None:
        figure = FIGURES.get(name)
        counter = self._counters[figure.kind].get(key) if figure else None
        return window.figures(counter, of_size=figure.is_size) if figure and counter else None

    def _forget(self, kind: StatsKind, place: int, name: str) -> None:
        counters = self._counters[kind]
        for key in [key for key in counters if key.split("@")[place] == name]:
            counter = counters.pop(key)
            for window in self._windows:
                window.forget(counter)

    def _sample_totals(self) -> None:
        """The second's totals; the broker's own counters follow them, so that no put has to."""
        now, totals = self._clock.now_ms(), self.totals
        self.samples.append(Sample(now, totals.puts, totals.found, totals.missed, totals.transferred))
        for kind, total in (
            (StatsKind.BROKER_PUT, totals.puts),
            (StatsKind.BROKER_GET, totals.transferred),
            (StatsKind.BROKER_PUT_OF_USERS, totals.puts_of_users),
            (StatsKind.BROKER_GET_OF_USERS, totals.gets_of_users),
        ):
            moved = total - self._counter(kind, self._cluster).messages
            if moved:
                self._add(kind, self._cluster, moved)

    def _mark_day(self) -> None:
        marks, totals = self.day_marks, self.totals
        self.day_marks = DayMarks(marks.puts_today, totals.puts_of_users, marks.gets_today, totals.gets_of_users)

    def _local_day(self) -> tuple[int, int]:
        local = time.localtime(self._clock.now_ms() / 1000)
        return local.tm_year, local.tm_yday


def _counted_as(name: str) -> str:
    """The name that a topic or group is counted under: all light queues are counted as one."""
    return LIGHT_PREFIX if name.startswith(LIGHT_PREFIX) else name


# Where the topic and the group stand in the keys of each kind.
_TOPIC_PLACES: Final = {
    StatsKind.TOPIC_PUT: 0,
    StatsKind.QUEUE_PUT: 0,
    StatsKind.GROUP_GET: 0,
    StatsKind.QUEUE_GET: 0,
    StatsKind.SEND_BACK: 0,
    StatsKind.GROUP_ACK: 0,
    StatsKind.GROUP_CHECKPOINT: 0,
    StatsKind.PUT_TIME: 1,
    StatsKind.GET_TIME: 1,
    StatsKind.DEAD_LETTER: 1,
}
_GROUP_PLACES: Final = {
    StatsKind.GROUP_GET: 1,
    StatsKind.QUEUE_GET: 2,
    StatsKind.SEND_BACK: 1,
    StatsKind.GROUP_ACK: 1,
    StatsKind.GROUP_CHECKPOINT: 1,
    StatsKind.GET_TIME: 2,
    StatsKind.DEAD_LETTER: 2,
}
