"""Connections between programs of one machine send as soon as there is something to send.

A congestion control that paces (BBR, the default of some systems) holds back what is sent, so that a path with little
room is not flooded. On the way from a machine to itself there is no such path, and whoever waits for an answer waits
for a timer.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

_UNPACED: Final = b"reno"  # every Linux has it, and lets everybody use it


def send_at_once(connected: socket.socket) -> None:
    """Do not pace this connection if both of its ends are on this machine; the system decides about all others."""
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # the peer is gone: there is nothing to speed up
        if connected.getsockname()[0] == connected.getpeername()[0]:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)
