"""Consumer groups: their settings, and how their messages are retried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ExponentialRetry:
    """Each wait is `multiplier` times the one before, up to `max_ms`."""

    initial_ms: int = 5000
    max_ms: int = 7_200_000
    multiplier: int = 2


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a failed message waits. Brokers keep it; clients that consume by pop follow it."""

    kind: str = "CUSTOMIZED"  # or EXPONENTIAL
    exponential: ExponentialRetry | None = None
    waits_ms: tuple[int, ...] | None = None  # None: the delay levels


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a group reads of one topic, where that is fixed in the group's settings."""

    topic: str
    expression: str = "*"
    expression_type: str = "TAG"
    version: int = 0


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of one consumer group."""

    name: str
    may_consume: bool = True
    may_consume_from_min: bool = True
    may_broadcast: bool = True
    is_orderly: bool = False
    retry_queues: int = 1
    max_retries: int = 16
    retry_policy: RetryPolicy = RetryPolicy()  # frozen, so one for all
    broker_id: int = 0
    slow_broker_id: int = 1  # where a group is sent that reads far behind
    notifies_members: bool = True  # tells the members when others come or go
    sys_flag: int = 0
    consume_timeout_minutes: int = 15
    subscriptions: tuple[Subscription, ...] | None = None
    attributes: Mapping[str, str] = field(default_factory=lambda: _NO_ATTRIBUTES)
