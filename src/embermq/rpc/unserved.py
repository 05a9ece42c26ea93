"""Why a request that RocketMQ has is not served here, for those who look after brokers with its tools."""

from __future__ import annotations

from typing import Final

_NO_REPLICAS: Final = "EmberMQ keeps one copy of a store, so there is nothing to replicate"
_NO_LIMITS: Final = "reads of old messages have no limits here; they leave the page cache as it was"
_NO_ROCKSDB: Final = "tables are files here, and queues of one kind only; there is nothing to compare or to export"
_ACCESS_OFF: Final = "access control is off; start the server with --access"
_ACCESS_1: Final = "it belongs to ACL 1.0; use users and policies (createUser, createAcl) instead"

_REASONS: Final[tuple[tuple[range, str], ...]] = (
    (range(50, 55), _ACCESS_1),
    (range(354, 356), _NO_ROCKSDB),
    (range(902, 904), "EmberMQ is no container of brokers; start another process"),
    (range(905, 909), _NO_REPLICAS),  # but for 907, which tells just that
    (range(1001, 1019), _NO_REPLICAS),
    (range(2001, 2005), _NO_LIMITS),
    (range(3001, 3011), _ACCESS_OFF),  # with it, they are served
)


def reason_of(code: int) -> str:
    """What to tell whoever sends a request that has no handler."""
    return next((reason for codes, reason in _REASONS if code in codes), "a newer EmberMQ may serve it")
