"""An address and a port: 4 or 16 bytes of address, then the port in 4 bytes."""

from __future__ import annotations

import socket
from functools import lru_cache
from typing import Final

from embermq.errors import CorruptRecord
from embermq.model.message import Host

HOST_V4_SIZE: Final = 8
HOST_V6_SIZE: Final = 20

_PORT_SIZE: Final = 4
_MAPPED: Final = bytes(10) + b"\xff\xff"  # how an IPv6 address begins that stands for an IPv4 one


def encode_host(host: Host) -> bytes:
    """The 8 or 20 bytes of `host`. Raises ValueError if its address is not numeric."""
    port = host.port.to_bytes(_PORT_SIZE, "big", signed=True)
    return encode_address(host.address) + port


def encode_address(text: str) -> bytes:
    """The 4 or 16 bytes of a numeric address. Raises ValueError."""
    try:
        if ":" not in text:
            return socket.inet_pton(socket.AF_INET, text)
        address = socket.inet_pton(socket.AF_INET6, text.partition("%")[0])
    except OSError as error:
        raise ValueError(f"{text!r} is no numeric address") from error
    return address[len(_MAPPED) :] if address.startswith(_MAPPED) else address


@lru_cache(maxsize=1024)
def decode_host(data: bytes) -> Host:
    """The host that 8 or 20 bytes stand for."""
    if len(data) not in (HOST_V4_SIZE, HOST_V6_SIZE):
        raise CorruptRecord(0, f"a host has {HOST_V4_SIZE} or {HOST_V6_SIZE} bytes, not {len(data)}")
    family = socket.AF_INET if len(data) == HOST_V4_SIZE else socket.AF_INET6
    address, port = data[:-_PORT_SIZE], data[-_PORT_SIZE:]
    return Host(socket.inet_ntop(family, address), int.from_bytes(port, "big", signed=True))
