"""What records are filed under: their keys, and the hashes of these, many at once.

Java's string hash is u0·31ⁿ + … + un over the characters. Of many texts, each filled up in front with
zeros to 64 bytes, it is taken at once: together they are one large integer, in which each step makes one
number of every two neighbours, `left·31ⁿ + right`, where the right one stands for n characters. Six steps
leave one number per text, at a third of the cost of hashing them one by one.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from embermq.log.placed import Placed, PlacedBatch
from embermq.model.flags import SysFlag
from embermq.model.hashing import java_hash
from embermq.model.many_properties import ManyProperties
from embermq.model.properties import KEYS, UNIQ_KEY, find_property

Row = tuple[int, tuple[int, int]]  # key hash, and of the record position and store time in ms

_KEYS: Final = KEYS.encode()
_UNIQUE_KEY: Final = UNIQ_KEY.encode()
_WIDTH: Final = 64  # bytes that a text is filled up to
_TOGETHER: Final = 256  # texts


def _step(count: int) -> tuple[int, int, int]:
    """How many bits apart neighbours of `count` bytes are, what leaves only the right ones, and 31ⁿ."""
    right = (bytes(count) + b"\xff" * count) * (_WIDTH * _TOGETHER // (2 * count))
    return 8 * count, int.from_bytes(right, "big"), pow(31, count, 1 << 32)


_STEPS: Final = tuple(map(_step, (1, 2, 4, 8, 16, 32)))


def keys_of(properties: bytes) -> list[str]:
    """The keys of a record with these properties: its unique id, then those its sender gave."""
    return [key.decode(errors="replace") for key in _raw_keys(properties)]


def rows_of(items: Sequence[Placed], *, after: int) -> list[Row]:
    """What to put into the index for records that begin behind position `after`, in their order."""
    if isinstance(items, PlacedBatch):
        return _rows_of_batch(items, after)
    texts: list[bytes] = []
    places: list[tuple[int, int]] = []
    for item in [each for each in items if each[8] and b"KEY" in each[8]]:  # 8 are its properties
        properties = item.properties
        if item.position <= after:
            continue
        if item.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.ROLLED_BACK:
            continue
        prefix = item.topic.encode() + b"#"
        place = (item.position, item.store_time)
        for key in _raw_keys(properties):
            texts.append(prefix + key)
            places.append(place)
    return list(zip(hash_texts(texts), places, strict=True))


def _rows_of_batch(batch: PlacedBatch, after: int) -> list[Row]:
    """The same for records that were just appended: none of them is rolled back."""
    topics, properties, positions = batch.columns()
    many = ManyProperties(properties)
    ids = many.find(_UNIQUE_KEY)
    if ids and many.find(_KEYS) == [] and positions[0] > after:  # the usual ones: all they have is a unique id
        texts = [topic + b"#" + key for topic, key in zip(topics, ids, strict=True)]
        return list(zip(hash_texts(texts), zip(positions, repeat(batch.store_time)), strict=False))
    texts = []
    places: list[tuple[int, int]] = []
    for topic, each, position in zip(topics, properties, positions, strict=True):
        if b"KEY" not in each or position <= after:
            continue
        for key in _raw_keys(each):
            texts.append(topic + b"#" + key)
            places.append((position, batch.store_time))
    return list(zip(hash_texts(texts), places, strict=True))


def hash_texts(texts: Sequence[bytes]) -> list[int]:
    """The non-negative hash of every text, as key_hash gives it for a topic and a key."""
    hashes: list[int] = []
    for begin in range(0, len(texts), _TOGETHER):
        some = texts[begin : begin + _TOGETHER]
        filled = b"".join([text.rjust(_WIDTH, b"\0") for text in some])
        if filled.isascii() and len(filled) == _WIDTH * len(some):
            words = _hash_filled(filled)
        else:
            # Read as Java reads bytes that are not UTF-8.
            words = [java_hash(text.decode(errors="replace")) for text in some]
        hashes += [abs(word) & 0x7FFF_FFFF for word in words]  # 0 for -2**31, which has no absolute value
    return hashes


def _hash_filled(filled: bytes) -> Iterable[int]:
    value = int.from_bytes(filled, "big")
    for apart, right, power in _STEPS:
        value = (value & right) + (value >> apart & right) * power
    words = array("i", value.to_bytes(len(filled), "big"))[15::16]
    if sys.byteorder == "little":
        words.byteswap()
    return words


def _raw_keys(properties: bytes) -> list[bytes]:
    unique = find_property(properties, _UNIQUE_KEY)
    keys = find_property(properties, _KEYS)
    found = [unique] if unique else []
    if keys:
        found += [key for key in keys.split(b" ") if key]
    return found
