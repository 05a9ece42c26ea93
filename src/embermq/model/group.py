"""Consumer groups: their settings, and how their messages are retried."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from embermq.errors import IllegalGroup

MAX_GROUP_SIZE: Final = 255
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
HALVES_GROUP: Final = "CID_RMQ_SYS_TRANS"  # whose offsets say before which half messages all transactions ended
# Groups that every broker has: those of RocketMQ's own tools and services.
PREDEFINED_GROUPS: Final = (
    "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", HALVES_GROUP,
)  # fmt: skip

_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
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


def check_group(name: str) -> None:
    """Raise IllegalGroup unless a consumer group may have this name."""
    if not name or name.isspace():
        raise IllegalGroup(name, "the name is blank")
    if not _LEGAL.fullmatch(name):
        raise IllegalGroup(name, "only letters, digits and the characters % | _ - may be in a name")
    if len(name) > MAX_GROUP_SIZE:
        raise IllegalGroup(name, f"{len(name)} characters, limit {MAX_GROUP_SIZE}")
