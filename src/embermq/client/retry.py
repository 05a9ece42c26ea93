"""Trying again: after which errors, how long to wait, and until when."""

from __future__ import annotations

import random
import time
from typing import Final

from embermq.errors import CallTimeout, ConnectionLost, Refused
from embermq.model.codes import ResponseCode

_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 5.0

# The broker is busy, stopping or full for a moment; another try, or another broker, may do better.
_PASSING_CODES: Final = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.GO_AWAY,
    }
)


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed if it is made again."""
    if isinstance(error, Refused):
        return error.code in _PASSING_CODES
    return isinstance(error, ConnectionLost | CallTimeout)


class Backoff:
    """Waits that double, each shortened by chance so that many clients do not come back together."""

    def __init__(self, *, first_s: float = _FIRST_WAIT_S, longest_s: float = _LONGEST_WAIT_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0

    def next(self) -> float:
        """Seconds to wait before the next try."""
        # The exponent has a limit, because a float does.
        wait = min(self._longest_s, self._first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return wait * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """A try succeeded."""
        self._failures = 0


class Deadline:
    """A moment until which something may take."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds that are left; 0 when it has passed."""
        return max(0.0, self._end - time.monotonic())

    @property
    def has_passed(self) -> bool:
        return self.left_s == 0.0
