"""BLAKE2b of bytes in memory, as far as compaction needs it: no key, 16 bytes of digest.

    state    8 words; the first two are the digest at the end
    block    16 words, little-endian; the last is filled up with zeros

Sixteen words are mixed twelve times: the columns of the square they stand in, then its diagonals. Which words of the
block are added, and where, is another order each time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.compiling import part
from embermq.kernels.memory import copy, get, load_little_i64, put

DIGEST_WORDS: Final = 8 + 16  # that `digest_of` needs to work in: the state, and the last block

_BLOCK: Final = 128  # bytes
_ROUNDS: Final = 12
_DIGEST_SIZE: Final = 16
_PLAIN: Final = 0x0101_0000 ^ _DIGEST_SIZE  # of the parameters: no key, no tree
_START: Final = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
).view(np.int64)  # fmt: skip
_ORDERS: Final = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
)


@part
def _turn(word: int, count: int) -> int:
    """A word with its lowest `count` bits moved to its top."""
    return word << (64 - count) | word >> count & (1 << (64 - count)) - 1


@part
def _mix(a: int, b: int, c: int, d: int, one: int, other: int) -> tuple[int, int, int, int]:
    """Mix four words, and two of the block."""
    a = a + b + one
    d = _turn(d ^ a, 32)
    c = c + d
    b = _turn(b ^ c, 24)
    a = a + b + other
    d = _turn(d ^ a, 16)
    c = c + d
    b = _turn(b ^ c, 63)
    return a, b, c, d


@part
def _word(block: int, order: int, index: int) -> int:
    return load_little_i64(block + 8 * _ORDERS[order, index])


@part
def _add_block(state: int, block: int, count: int, is_last: bool) -> None:
    """Mix the block at an address into the state; with it, the text has `count` bytes."""
    v0, v1, v2, v3 = get(state, 0), get(state, 1), get(state, 2), get(state, 3)
    v4, v5, v6, v7 = get(state, 4), get(state, 5), get(state, 6), get(state, 7)
    v8, v9, v10, v11 = _START[0], _START[1], _START[2], _START[3]
    v12, v13, v14, v15 = _START[4] ^ count, _START[5], _START[6], _START[7]
    if is_last:
        v14 = ~v14
    for number in range(_ROUNDS):
        order = number % len(_ORDERS)
        v0, v4, v8, v12 = _mix(v0, v4, v8, v12, _word(block, order, 0), _word(block, order, 1))
        v1, v5, v9, v13 = _mix(v1, v5, v9, v13, _word(block, order, 2), _word(block, order, 3))
        v2, v6, v10, v14 = _mix(v2, v6, v10, v14, _word(block, order, 4), _word(block, order, 5))
        v3, v7, v11, v15 = _mix(v3, v7, v11, v15, _word(block, order, 6), _word(block, order, 7))
        v0, v5, v10, v15 = _mix(v0, v5, v10, v15, _word(block, order, 8), _word(block, order, 9))
        v1, v6, v11, v12 = _mix(v1, v6, v11, v12, _word(block, order, 10), _word(block, order, 11))
        v2, v7, v8, v13 = _mix(v2, v7, v8, v13, _word(block, order, 12), _word(block, order, 13))
        v3, v4, v9, v14 = _mix(v3, v4, v9, v14, _word(block, order, 14), _word(block, order, 15))
    put(state, 0, get(state, 0) ^ v0 ^ v8)
    put(state, 1, get(state, 1) ^ v1 ^ v9)
    put(state, 2, get(state, 2) ^ v2 ^ v10)
    put(state, 3, get(state, 3) ^ v3 ^ v11)
    put(state, 4, get(state, 4) ^ v4 ^ v12)
    put(state, 5, get(state, 5) ^ v5 ^ v13)
    put(state, 6, get(state, 6) ^ v6 ^ v14)
    put(state, 7, get(state, 7) ^ v7 ^ v15)


@part
def digest_of(address: int, size: int, scratch: int) -> tuple[int, int]:
    """The digest of `size` bytes, as two little-endian numbers. At `scratch` there is room for DIGEST_WORDS."""
    state, last_block = scratch, scratch + 64
    for index in range(8):
        put(state, index, _START[index])
    put(state, 0, _START[0] ^ _PLAIN)
    done = 0
    while size - done > _BLOCK:
        _add_block(state, address + done, done + _BLOCK, False)
        done += _BLOCK
    for index in range(16):
        put(last_block, index, 0)
    copy(last_block, address + done, size - done)
    _add_block(state, last_block, size, True)
    return get(state, 0), get(state, 1)
