"""Messages for later: how one is parked, in the topic of its delay level or of the timer, and taken back from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from embermq.broker.settings import BrokerSettings
from embermq.clock import Clock, SystemClock
from embermq.errors import IllegalMessage, NotSupported
from embermq.model.properties import (
    DELAY,
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
)
from embermq.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from embermq.timers.times import slot_time, snap_precision

_TIMERS: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)  # the first that is there counts
_MOST_DIGITS: Final = 18
UNLIMITED: Final = 2**31 - 1  # messages for one moment
_TIMER_PREFIX: Final = "TIMER_"


class Target(NamedTuple):
    """Where a message goes, and with which properties."""

    topic: str
    queue: int
    properties: Mapping[str, str]


def delay_level_of(properties: Mapping[str, str]) -> int:
    """The delay level that a message asks for; 0 for none, and for nonsense, as in RocketMQ."""
    text = properties.get(DELAY, "")
    return int(text) if len(text) <= 9 and text.isascii() and text.isdigit() else 0


def names_time(properties: Mapping[str, str]) -> bool:
    """Whether a message asks to be delivered at some time, not after a delay level."""
    return any(name in properties for name in _TIMERS) and delay_level_of(properties) <= 0


def park(target: Target, *, levels: int) -> Target:
    """Where a message must wait if it asks for a delay level, else where it goes anyway."""
    level = min(delay_level_of(target.properties), levels)
    if level <= 0:
        return target
    kept = {name: value for name, value in target.properties.items() if name not in _TIMERS}
    kept |= {DELAY: str(level), REAL_TOPIC: target.topic, REAL_QUEUE: str(target.queue)}
    return Target(SCHEDULE_TOPIC, level - 1, kept)


def unpark(properties: Mapping[str, str]) -> tuple[str, int] | None:
    """The topic and queue that a parked message is for; None if it does not tell."""
    topic, queue = properties.get(REAL_TOPIC), properties.get(REAL_QUEUE, "")
    if not topic or not (queue.isascii() and queue.isdigit()):
        return None
    return topic, int(queue)


class TimerSplit(NamedTuple):
    """Properties without the one that names a time, and that one."""

    rest: str
    name: str
    value: str


def split_timer(properties: str) -> TimerSplit | None:
    """Take the time out of the text of properties; None if there is none, or more about timers than that."""
    at = properties.find(_TIMER_PREFIX)
    end = properties.find("\x02", at)
    if at < 0 or end < 0 or (at and properties[at - 1] != "\x02") or properties.find(_TIMER_PREFIX, end) >= 0:
        return None
    name, _, value = properties[at:end].partition("\x01")
    return TimerSplit(properties[:at] + properties[end + 1 :], name, value) if name in _TIMERS else None


class ParkingLimits(NamedTuple):
    """What holds for messages that name a time, until settings change."""

    precision: int  # of the slots
    most_delay_ms: int
    is_unlimited: bool  # they may wait, and as many for one moment as there are


class Parking:
    """Parks messages by what they ask for: a delay level first, else a time."""

    def __init__(
        self, settings: Callable[[], BrokerSettings], *, levels: int, waiting_at: Callable[[int], int], clock: Clock
    ) -> None:
        self._settings = settings
        self._precision = snap_precision(settings().timer_precision_ms)
        self._levels = levels
        self._waiting_at = waiting_at  # how many messages wait in the slot of a time
        self._clock = clock

    def limits(self) -> ParkingLimits:
        """What `slot_of` goes by."""
        settings = self._settings()
        is_unlimited = settings.timers and settings.timer_slot_limit >= UNLIMITED
        return ParkingLimits(self._precision, settings.timer_max_delay_s * 1000, is_unlimited)

    def own_now_ms(self) -> int:
        """The time by a clock that is not the machine's; 0 if it is that, which everybody can read."""
        return 0 if isinstance(self._clock, SystemClock) else self._clock.now_ms()

    def park(self, target: Target) -> Target:
        """Where a message must wait, if it must, else where it goes anyway. Raises a RequestError."""
        properties = target.properties
        if DELAY in properties and delay_level_of(properties) > 0:
            return park(target, levels=self._levels)
        if TIMER_OUT_MS in properties or not names_time(properties):
            return target
        out = self.slot_of(properties)
        if out is None:
            if TIMER_DEL_UNIQKEY in properties:
                raise IllegalMessage("the message to be cancelled is due; cancel one that still waits")
            return target
        return _parked(target, out)

    def park_until(self, target: Target, deliver_ms: int) -> Target:
        """Have a message wait in the timer, however far away that is. Raises IllegalMessage."""
        return _parked(target, self._slot(deliver_ms, self._settings()))

    def _slot(self, deliver_ms: int, settings: BrokerSettings) -> int:
        out = slot_time(deliver_ms, self._precision)
        limit = settings.timer_slot_limit
        if limit < UNLIMITED and (waiting := self._waiting_at(out)) >= limit:
            hint = "send it for another time, or raise timer_slot_limit"
            raise IllegalMessage(f"{waiting} messages wait for this moment, limit {limit}; {hint}")
        return out

    def slot_of(self, properties: Mapping[str, str]) -> int | None:
        """The slot of a message that names a time; None if it is due. Raises a RequestError."""
        settings, now = self._settings(), self._clock.now_ms()
        if not settings.timers:
            raise NotSupported("this broker delivers at no given time (timers = no); use one of the delay levels")
        deliver = _deliver_time(properties, now)
        if deliver <= now:
            return None
        self._check(deliver - now, settings)
        return self._slot(deliver, settings)

    @staticmethod
    def _check(delay_ms: int, settings: BrokerSettings) -> None:
        limit_s = settings.timer_max_delay_s
        if delay_ms > limit_s * 1000:
            raise IllegalMessage(
                f"delivery in {delay_ms} ms is further away than {limit_s} s (timer_max_delay_s); "
                "name an earlier time, or raise the limit"
            )


def _parked(target: Target, out: int) -> Target:
    parked = {TIMER_OUT_MS: str(out), REAL_TOPIC: target.topic, REAL_QUEUE: str(target.queue)}
    return Target(TIMER_TOPIC, 0, {**target.properties, **parked})


def _deliver_time(properties: Mapping[str, str], now: int) -> int:
    name = next(name for name in _TIMERS if name in properties)
    text = properties[name]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise IllegalMessage(f"{name} is {text[:80]!r}; a whole number of at most {_MOST_DIGITS} digits is wanted")
    value = int(text)
    if name == TIMER_DELAY_SEC:
        return now + value * 1000
    return now + value if name == TIMER_DELAY_MS else value
