"""The parts of a name server, put together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embermq.clock import Clock, SystemClock
from embermq.format.frame import MAX_FRAME_SIZE
from embermq.nameserver.handlers.config import ConfigHandlers
from embermq.nameserver.handlers.key_values import KeyValueHandlers
from embermq.nameserver.handlers.registering import RegisteringHandlers
from embermq.nameserver.handlers.routing import RoutingHandlers
from embermq.nameserver.handlers.topics import TopicHandlers
from embermq.nameserver.key_values import KEY_VALUES_FILE, KeyValues
from embermq.nameserver.routes import Routes
from embermq.nameserver.settings import LiveSettings, NameServerSettings
from embermq.rpc.peer import Peer
from embermq.rpc.router import Check, Observe, Router, observe_nothing

SETTINGS_FILE: Final = "namesrv.conf"


class NameServer:
    """Answers where topics are. Everything runs in one thread.

    With a `directory`, the key-value table and settings changed at run time are kept there; without, nothing is. The
    table can have a file of its own, `key_values`.
    `fixed` are settings of the process, in RocketMQ's words, which are shown beside our own.
    """

    def __init__(
        self,
        settings: NameServerSettings | None = None,
        *,
        clock: Clock | None = None,
        directory: Path | None = None,
        key_values: Path | None = None,
        check: Check | None = None,
        observe: Observe = observe_nothing,
        fixed: Mapping[str, str] | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.settings = LiveSettings(
            settings or NameServerSettings(), None if directory is None else directory / SETTINGS_FILE, fixed=fixed
        )
        if directory is not None and key_values is None:
            key_values = directory / KEY_VALUES_FILE
        self.key_values = KeyValues(key_values, limit=self.settings.current.max_key_values)
        self.routes = Routes(clock, self.settings)
        self.router = Router(check=check, observe=observe)
        self.router.add(RoutingHandlers(self.routes, self.key_values, self.settings, clock).routes())
        registering = RegisteringHandlers(self.routes, self.key_values, self.settings)
        self.router.add(registering.routes(), max_body_size=MAX_FRAME_SIZE)  # all topics; their limit is its own
        self.router.add(TopicHandlers(self.routes, self.settings).routes())
        self.router.add(KeyValueHandlers(self.key_values).routes())
        self.router.add(ConfigHandlers(self.settings).routes())

    def connection_closed(self, peer: Peer) -> None:
        """Forget the brokers that registered on this connection."""
        self.routes.connection_closed(peer)

    def expire(self) -> None:
        """Forget the brokers that went silent; to be called every `scan_interval_ms`."""
        self.routes.expire()
