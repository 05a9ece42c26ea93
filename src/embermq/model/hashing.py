"""The string hash that tags and keys are filed under: Java's `String.hashCode`.

The hash of the units u0 … un is u0·31ⁿ + … + un, kept in 32 signed bits. A loop over the
characters costs Python about 60 ns each, and every message is hashed two or three times.
So ASCII text is taken as one large integer, whose bytes are folded in pairs: a byte pair
`h·256 + l` becomes `h·31 + l` by taking away `h·(256 - 31)`, in all pairs of the integer at
once. Pairs of pairs follow with 31² in 16-bit slots, and so on; six steps hash 64 characters.
A slot never overflows, because 31ⁿ < 256ⁿ.
"""

from __future__ import annotations

import sys

_FOLDED = 64  # characters that one run of the folding takes
_LOOPED = 7  # characters up to which a plain loop is faster


def _low_slots(width: int) -> int:
    """A mask of every second slot of `width` bits, the lowest included."""
    return sum(((1 << width) - 1) << at for at in range(0, 8 * _FOLDED, 2 * width))


_LOW_8, _LOW_16, _LOW_32, _LOW_64, _LOW_128 = map(_low_slots, (8, 16, 32, 64, 128))
_TAKE_1, _TAKE_2, _TAKE_4, _TAKE_8, _TAKE_16, _TAKE_32 = (256**n - 31**n for n in (1, 2, 4, 8, 16, 32))
_POWER_64 = 31**_FOLDED & 0xFFFF_FFFF
_SIGN = 0x8000_0000
_UTF_16 = f"utf-16-{'le' if sys.byteorder == 'little' else 'be'}"


def java_hash(text: str) -> int:
    """The signed 32-bit hash that Java gives `text`."""
    size = len(text)
    if not text.isascii():
        value = _hash_units(text)
    elif size <= _LOOPED:
        value = 0
        for unit in text.encode():
            value = value * 31 + unit
    elif size <= _FOLDED:
        value = int.from_bytes(text.encode(), "big")
        value -= _TAKE_1 * (value >> 8 & _LOW_8)
        value -= _TAKE_2 * (value >> 16 & _LOW_16)
        value -= _TAKE_4 * (value >> 32 & _LOW_32)
        if size > 8:
            value -= _TAKE_8 * (value >> 64 & _LOW_64)
            if size > 16:
                value -= _TAKE_16 * (value >> 128 & _LOW_128)
                if size > 32:
                    value -= _TAKE_32 * (value >> 256)
    else:
        value = _hash_long(text)
    return (value + _SIGN & 0xFFFF_FFFF) - _SIGN


def key_hash(topic: str, key: str) -> int:
    """The non-negative hash under which the index files `key` of `topic`."""
    value = java_hash(f"{topic}#{key}")
    return 0 if value == -_SIGN else abs(value)


def _hash_long(text: str) -> int:
    head = len(text) % _FOLDED
    value = java_hash(text[:head])
    for at in range(head, len(text), _FOLDED):
        value = value * _POWER_64 + java_hash(text[at : at + _FOLDED]) & 0xFFFF_FFFF
    return value


def _hash_units(text: str) -> int:
    # Java hashes UTF-16 units, so that a character outside the first plane counts as two. Half of such a
    # pair alone is legal in Java, and is passed on.
    value = 0
    for unit in memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H"):
        value = value * 31 + unit & 0xFFFF_FFFF
    return value
