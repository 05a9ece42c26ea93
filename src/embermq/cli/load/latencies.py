"""Many times in little memory: a histogram whose buckets grow with the values in them.

    value      0 … 127        128 … 255       256 … 511      …
    bucket     one each       two values      four values

Each doubling has 64 buckets, so a value is known to 1 part in 64, whatever its size and however many there are.
"""

from __future__ import annotations

from typing import Final

_BITS: Final = 7  # values below 2**7 are exact
_LARGEST: Final = (1 << 63) - 1


class Latencies:
    """Counts times, given as whole numbers of any unit."""

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0
        self._counts: dict[int, int] = {}  # by bucket: 3 712 at most, whatever is added

    def add(self, value: int, count: int = 1) -> None:
        """`count` times took `value`; what is below 0 counts as 0."""
        value = min(max(value, 0), _LARGEST)
        bucket = bucket_of(value)
        self._counts[bucket] = self._counts.get(bucket, 0) + count
        self.count += count
        self.largest = max(self.largest, value)

    def percentile(self, percent: float) -> float:
        """The value that `percent` of all are not above; 0 if there are none."""
        wanted = self.count * percent / 100
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(middle_of(bucket), self.largest)
        return 0.0


def bucket_of(value: int) -> int:
    """The number of the bucket that has `value`."""
    shift = max(value.bit_length() - _BITS, 0)
    return (shift << (_BITS - 1)) + (value >> shift)


def middle_of(bucket: int) -> float:
    """What stands for the values of a bucket."""
    shift = max((bucket >> (_BITS - 1)) - 1, 0)
    first = (bucket - (shift << (_BITS - 1))) << shift
    return first + ((1 << shift) - 1) / 2
