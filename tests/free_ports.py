"""Ports for servers that are told where to listen, or that start again where they were.

They lie below those that outgoing connections get: one of these could take the port of a server that is down for a
moment. Test processes that run at the same time have ranges of their own.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
from typing import Final

LOCAL: Final = "127.0.0.1"
_FIRST: Final = 20_000
_PORTS_PER_PROCESS: Final = 1_500
_PROCESSES: Final = 8
_STEP: Final = 4  # brokers listen two below their port, too, and some one above it

_number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
_begin = _FIRST + _number * _PORTS_PER_PROCESS
_ports = list(range(_begin + 2, _begin + _PORTS_PER_PROCESS, _STEP))
random.shuffle(_ports)  # another run of the tests may be under way
_ring = itertools.cycle(_ports)


def free_port() -> int:
    """A port that is free together with its neighbours two below and one above."""
    for port in itertools.islice(_ring, len(_ports)):
        if all(map(_is_free, (port - 2, port, port + 1))):
            return port
    raise AssertionError("no free port")


def free_address() -> str:
    return f"{LOCAL}:{free_port()}"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((LOCAL, port))
        except OSError:
            return False
    return True
