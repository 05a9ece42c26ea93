"""Making connections to others."""

from __future__ import annotations

import asyncio
import ssl

from embermq.errors import ConnectionLost
from embermq.model.message import Host
from embermq.net.connection import DEFAULT_LIMITS, Connection, ConnectionLimits, Receiver
from embermq.net.pacing import send_at_once


async def dial(
    host: Host,
    *,
    receiver: Receiver = lambda connection, requests: None,
    limits: ConnectionLimits = DEFAULT_LIMITS,
    tls: ssl.SSLContext | None = None,
    timeout_s: float = 3.0,
) -> Connection:
    """Connect to `host`; `receiver` gets what it asks of us. Raises ConnectionLost."""
    loop = asyncio.get_running_loop()
    try:
        transport, connection = await asyncio.wait_for(
            loop.create_connection(
                lambda: Connection(receiver, limits=limits, is_server=False),
                host.address,
                host.port,
                ssl=tls,
                server_hostname=host.address if tls else None,
            ),
            timeout_s,
        )
    except (OSError, TimeoutError) as error:
        reason = f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else error
        raise ConnectionLost(f"cannot connect to {host}: {reason}") from error
    send_at_once(transport.get_extra_info("socket"))
    return connection
