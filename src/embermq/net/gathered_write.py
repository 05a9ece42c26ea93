"""Writing what lies in several places, without putting it together first.

A socket that has nothing to wait for is given all parts in one call, from where they lie. What it does not take goes to
the transport, which keeps it: a copy of it up to CPython 3.11, the very object from 3.12 on. So whatever may be written
to again is copied first, and only views of mapped files are kept as they are.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Sequence
from typing import Final

LARGE_ENOUGH: Final = 16 * 1024  # bytes: putting less together is no dearer than writing it from several places
_MOST_PARTS: Final = os.sysconf("SC_IOV_MAX")  # that one call takes
_FEW: Final = 32  # parts that a transport is given one by one

_PLACE: Final = struct.Struct("=qq")  # an address and a size

Part = bytes | memoryview

_writev = ctypes.CDLL(None).writev
_writev.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_writev.restype = ctypes.c_ssize_t


def write_parts(transport: asyncio.Transport, descriptor: int, parts: Sequence[Part]) -> None:
    """Write `parts` one after the other, as `transport.write` would; all but read-only views are free afterwards.

    `descriptor` is the socket's; -1 for one that others must write to.
    """
    size = sum(map(len, parts))
    is_free = descriptor >= 0 and transport.get_write_buffer_size() == 0
    if size < LARGE_ENOUGH or len(parts) > _MOST_PARTS or not is_free:
        transport.write(b"".join(parts))
        return
    try:
        taken = os.writev(descriptor, parts)
    except OSError:
        taken = 0  # the socket is full, or broken: the transport will find the same, and knows what to do
    if taken == size:
        return
    rest = _rest(parts, taken)
    for part in rest if len(rest) <= _FEW else [b"".join(rest)]:
        transport.write(part)


def write_places(transport: asyncio.Transport, descriptor: int, places: int, count: int, size: int) -> None:
    """Write `size` bytes that lie in `count` places, whose addresses and sizes lie at `places`; free afterwards.

    `descriptor` is the socket's; -1 for one that others must write to.
    """
    taken = 0
    if descriptor >= 0 and transport.get_write_buffer_size() == 0:
        taken = _writev(descriptor, places, count)
        if taken == size:
            return
    transport.write(_copy(places, count, max(taken, 0)))  # which finds out what is wrong with the socket, if anything


def plain_descriptor(transport: asyncio.Transport) -> int:
    """The descriptor of a socket that can be written to as it is; -1 if that is not so, as with TLS."""
    if transport.get_extra_info("sslcontext") is not None or _PLACE.size != 2 * ctypes.sizeof(ctypes.c_void_p):
        return -1
    made = transport.get_extra_info("socket")
    return -1 if made is None else int(made.fileno())


def _copy(places: int, count: int, taken: int) -> bytes:
    """The bytes in places, without the first `taken`."""
    parts = []
    for address, size in _PLACE.iter_unpack(ctypes.string_at(places, count * _PLACE.size)):
        skipped = min(taken, size)
        taken -= skipped
        if skipped < size:
            parts.append(ctypes.string_at(address + skipped, size - skipped))
    return b"".join(parts)


def _rest(parts: Sequence[Part], taken: int) -> list[Part]:
    """What follows the first `taken` bytes, in parts that can be kept."""
    rest: list[Part] = []
    for part in parts:
        if taken >= len(part):
            taken -= len(part)
            continue
        left = part[taken:] if taken else part
        taken = 0
        rest.append(left if isinstance(left, bytes) or left.readonly else bytes(left))
    return rest
