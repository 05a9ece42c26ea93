"""Which bits of a map stand for a consumer group and a topic: RocketMQ's Bloom filter over `group#topic`.

bit p of a map: byte p/8, mask 1 << (p mod 8)         a message that the group wants has all of its bits set
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from embermq.model.murmur import murmur3_low

_WORD: Final = 2**32
_SIGN: Final = 2**31


class BloomShape(NamedTuple):
    """How many bits a map has, and how many of them stand for one group and topic."""

    bits: int
    hashes: int

    @classmethod
    def make(cls, *, error_percent: int, consumers: int) -> BloomShape:
        """The shape for so many consumers, of which so many percent may be taken for others."""
        share = error_percent / 100
        hashes = math.ceil(math.log(share) / math.log(0.5))
        bits = math.ceil(consumers * math.log2(1 / share) * math.log2(math.e))
        return cls(-(-bits // 8) * 8, hashes)

    @property
    def size(self) -> int:
        """Bytes of a map."""
        return self.bits // 8

    def positions(self, group: str, topic: str) -> tuple[int, ...]:
        """The bits that stand for a group and a topic."""
        value = murmur3_low(f"{group}#{topic}".encode())
        low, high = value % _WORD, value // _WORD % _WORD
        return tuple(_folded((low + number * high) % _WORD) % self.bits for number in range(1, self.hashes + 1))

    def map_of(self, positions: Iterable[int]) -> bytes:
        """A map with these bits."""
        made = bytearray(self.size)
        for position in positions:
            made[position >> 3] |= 1 << (position & 7)
        return bytes(made)


def _folded(value: int) -> int:
    """A 32-bit number, of which the negative ones are turned over."""
    return value if value < _SIGN else _WORD - 1 - value


def has_bits(bit_map: bytes, positions: Iterable[int]) -> bool:
    """Whether a map has all of these bits."""
    return all(bit_map[position >> 3] & 1 << (position & 7) for position in positions)
