"""MurmurHash3 as RocketMQ uses it: x64, 128 bits, seed 0, of which it takes the first 64."""

from __future__ import annotations

from typing import Final

_U64: Final = 2**64 - 1
_ONE: Final = 0x87C37B91114253D5
_TWO: Final = 0x4CF5AD432745937F


def murmur3_low(data: bytes) -> int:
    """The first 64 bits of MurmurHash3 (x64, 128 bits, seed 0) of `data`."""
    one = two = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        one ^= _mix_one(int.from_bytes(data[at : at + 8], "little"))
        one = (_turned(one, 27) + two) * 5 + 0x52DCE729 & _U64
        two ^= _mix_two(int.from_bytes(data[at + 8 : at + 16], "little"))
        two = (_turned(two, 31) + one) * 5 + 0x38495AB5 & _U64
    rest = data[whole:]
    two ^= _mix_two(int.from_bytes(rest[8:], "little"))
    one ^= _mix_one(int.from_bytes(rest[:8], "little"))
    one, two = one ^ len(data), two ^ len(data)
    one = one + two & _U64
    two = two + one & _U64
    return _finished(one) + _finished(two) & _U64


def _mix_one(word: int) -> int:
    return _turned(word * _ONE & _U64, 31) * _TWO & _U64


def _mix_two(word: int) -> int:
    return _turned(word * _TWO & _U64, 33) * _ONE & _U64


def _turned(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _U64


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _U64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _U64
    return word ^ word >> 33
