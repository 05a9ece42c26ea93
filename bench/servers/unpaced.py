"""No server's answers are paced while servers are compared.

A congestion control that paces (BBR, the default of some systems) holds back what is sent, also on a loopback that
has room. EmberMQ and the load generator turn it off for their own connections; for all others the system's default is
changed while a server runs, where that is allowed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SETTING: Final = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_PACED: Final = "bbr"
_UNPACED: Final = "reno"


@contextlib.contextmanager
def unpaced() -> Iterator[None]:
    """Connections that are made meanwhile are not paced."""
    before = _SETTING.read_text().strip()
    if before != _PACED:
        yield
        return
    try:
        _SETTING.write_text(_UNPACED)
    except OSError as error:
        print(f"  answers of other servers are paced by {before}: {error}", file=sys.stderr)
        yield
        return
    try:
        yield
    finally:
        _SETTING.write_text(before)
