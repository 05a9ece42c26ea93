"""How much of what is there goes into the next batch of a stream. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from embermq.clock import Clock
from embermq_spark.options import ReadOptions

K = TypeVar("K")

LONGEST_WAIT_MS: Final = 15 * 60_000  # for minOffsetsPerTrigger, unless maxTriggerDelay says otherwise


@dataclass(frozen=True, slots=True)
class Limits:
    """What options say of a batch: messages, bytes, and when too few of them are worth one."""

    max_offsets: int | None
    max_bytes: int | None
    min_offsets: int | None
    max_wait_ms: int

    @property
    def are_given(self) -> bool:
        """Whether there is any."""
        return (self.max_offsets, self.max_bytes, self.min_offsets) != (None, None, None)

    @classmethod
    def of(cls, options: ReadOptions) -> Limits:
        return cls(
            options.max_offsets_per_trigger,
            options.max_bytes_per_trigger,
            options.min_offsets_per_trigger,
            LONGEST_WAIT_MS if options.max_trigger_delay is None else options.max_trigger_delay,
        )


class Patience:
    """Waits for the least number of messages that is worth a batch, but not for ever."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._last_s = clock.monotonic()

    def is_over(self, available: int) -> bool:
        """Whether so many messages go into a batch now."""
        now_s = self._clock.monotonic()
        least = self._limits.min_offsets
        if least is not None and available < least and now_s - self._last_s < self._limits.max_wait_ms / 1000:
            return False
        self._last_s = now_s
        return True


def spread(available: Mapping[K, int], limit: int) -> dict[K, int]:
    """At most `limit` of what is available, in proportion, but at least one of each that has any."""
    total = sum(available.values())
    if total <= limit:
        return dict(available)
    shares = {key: max(count * limit // total, 1) if count else 0 for key, count in available.items()}
    left = limit - sum(shares.values())  # by rounding; less than nothing where ones came to more
    for key in sorted(shares, key=lambda each: available[each], reverse=True):
        change = min(left, available[key] - shares[key]) if left > 0 else max(left, min(1 - shares[key], 0))
        shares[key] += change
        left -= change
    return shares
