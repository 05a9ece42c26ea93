"""A name server at work: connections, and the watch over brokers that went silent."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence

from embermq.nameserver.nameserver import NameServer
from embermq.net.connection import DEFAULT_LIMITS, ConnectionLimits
from embermq.net.server import Server, TlsMode, host_of

log = logging.getLogger(__name__)


async def run_name_server(
    name_server: NameServer,
    listeners: Sequence[socket.socket],
    *,
    stop: asyncio.Event,
    limits: ConnectionLimits = DEFAULT_LIMITS,
    tls_mode: TlsMode = TlsMode.PERMISSIVE,
    tls_context: Callable[[], ssl.SSLContext | None] = lambda: None,
) -> None:
    """Serve on these listening sockets until `stop` is set; they are closed then."""
    server = Server(
        name_server.router.receive,
        limits=limits,
        tls_mode=tls_mode,
        tls_context=tls_context,
        on_close=name_server.connection_closed,
    )
    server.start(*listeners)
    watch = asyncio.get_running_loop().create_task(watch_brokers(name_server))
    log.info("name server started address=%s", ",".join(str(host_of(listener)) for listener in listeners))
    try:
        await stop.wait()
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await name_server.router.stop()
        await server.stop()
        log.info("name server stopped")


async def watch_brokers(name_server: NameServer) -> None:
    """Forget brokers that went silent, until cancelled."""
    while True:
        await asyncio.sleep(name_server.settings.current.scan_interval_ms / 1000)
        name_server.expire()
