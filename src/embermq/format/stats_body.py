"""Statistics of a broker on the wire: their names, and the body that answers for one of them.

{"statsDay":{"avgpt":1.0,"sum":1,"tps":0.5},"statsHour":{…},"statsMinute":{…}}
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from embermq.format.java_numbers import format_double
from embermq.format.json_fields import Fields, parse_fields


class StatsKind(Enum):
    """What is counted; in brackets what its keys are made of."""

    TOPIC_PUT = auto()  # topic
    QUEUE_PUT = auto()  # topic@queue
    GROUP_GET = auto()  # topic@group
    QUEUE_GET = auto()  # topic@queue@group
    SEND_BACK = auto()  # topic@group
    DEAD_LETTER = auto()  # owner@topic@group@SEND_BACK_TO_DLQ
    PUT_TIME = auto()  # queue@topic
    GET_TIME = auto()  # queue@topic@group
    BROKER_PUT = auto()  # cluster
    BROKER_GET = auto()  # cluster
    BROKER_PUT_OF_USERS = auto()  # cluster
    BROKER_GET_OF_USERS = auto()  # cluster
    GROUP_ACK = auto()  # topic@group
    GROUP_CHECKPOINT = auto()  # topic@group
    BROKER_ACK = auto()  # cluster
    BROKER_CHECKPOINT = auto()  # cluster


class Figure(NamedTuple):
    """What a name stands for."""

    kind: StatsKind
    is_size: bool = False  # bytes, not messages


TOPIC_PUTS: Final = "TOPIC_PUT_NUMS"
GROUP_GETS: Final = "GROUP_GET_NUMS"

FIGURES: Final = {
    TOPIC_PUTS: Figure(StatsKind.TOPIC_PUT),
    "TOPIC_PUT_SIZE": Figure(StatsKind.TOPIC_PUT, is_size=True),
    "QUEUE_PUT_NUMS": Figure(StatsKind.QUEUE_PUT),
    "QUEUE_PUT_SIZE": Figure(StatsKind.QUEUE_PUT, is_size=True),
    GROUP_GETS: Figure(StatsKind.GROUP_GET),
    "GROUP_GET_SIZE": Figure(StatsKind.GROUP_GET, is_size=True),
    "QUEUE_GET_NUMS": Figure(StatsKind.QUEUE_GET),
    "QUEUE_GET_SIZE": Figure(StatsKind.QUEUE_GET, is_size=True),
    "SNDBCK_PUT_NUMS": Figure(StatsKind.SEND_BACK),
    "SNDBCK2DLQ_TIMES": Figure(StatsKind.DEAD_LETTER),
    "TOPIC_PUT_LATENCY": Figure(StatsKind.PUT_TIME),
    "GROUP_GET_LATENCY": Figure(StatsKind.GET_TIME),
    "BROKER_PUT_NUMS": Figure(StatsKind.BROKER_PUT),
    "BROKER_GET_NUMS": Figure(StatsKind.BROKER_GET),
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": Figure(StatsKind.BROKER_PUT_OF_USERS),
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": Figure(StatsKind.BROKER_GET_OF_USERS),
    "GROUP_ACK_NUMS": Figure(StatsKind.GROUP_ACK),
    "GROUP_CK_NUMS": Figure(StatsKind.GROUP_CHECKPOINT),
    "BROKER_ACK_NUMS": Figure(StatsKind.BROKER_ACK),
    "BROKER_CK_NUMS": Figure(StatsKind.BROKER_CHECKPOINT),
}


class WindowBody(NamedTuple):
    """One window: how much, how much a second, and how much by one request."""

    sum: int
    rate: float
    mean: float


class StatsBody(NamedTuple):
    """The three windows of one name and key."""

    minute: WindowBody
    hour: WindowBody
    day: WindowBody


def encode_stats(stats: StatsBody) -> bytes:
    """The body that answers VIEW_BROKER_STATS."""
    parts = (("statsDay", stats.day), ("statsHour", stats.hour), ("statsMinute", stats.minute))
    return ("{" + ",".join(f'"{name}":{_format_window(window)}' for name, window in parts) + "}").encode()


def decode_stats(body: bytes) -> StatsBody:
    """The same, read. Raises CorruptRecord."""
    fields = parse_fields(body, "stats")
    minute, hour, day = (_read_window(fields.find_fields(name)) for name in ("statsMinute", "statsHour", "statsDay"))
    return StatsBody(minute, hour, day)


def _format_window(window: WindowBody) -> str:
    return f'{{"avgpt":{format_double(window.mean)},"sum":{window.sum},"tps":{format_double(window.rate)}}}'


def _read_window(fields: Fields | None) -> WindowBody:
    if fields is None:
        return WindowBody(0, 0.0, 0.0)
    rate, mean = (fields.number(name) for name in ("tps", "avgpt"))
    return WindowBody(fields.integer("sum"), rate, mean)
