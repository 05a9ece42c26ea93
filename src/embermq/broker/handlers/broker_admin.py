"""The broker itself: its settings, its figures, and cleaning on request."""

from __future__ import annotations

import asyncio
import json
import logging

from embermq.broker.handlers.paging import read_body
from embermq.broker.live_settings import LiveSettings
from embermq.broker.runtime_info import RuntimeInfo
from embermq.errors import IllegalField
from embermq.format.command import Command, make_answer
from embermq.format.java_properties import decode_properties, format_properties
from embermq.format.runtime_body import encode_copies, encode_runtime
from embermq.format.tables import version_members
from embermq.model.codes import RequestCode
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler
from embermq.store.store import Store

log = logging.getLogger(__name__)


class BrokerAdminHandlers:
    """Answers those who look after the broker."""

    def __init__(self, store: Store, settings: LiveSettings, runtime: RuntimeInfo) -> None:
        self._store = store
        self._settings = settings
        self._runtime = runtime

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_BROKER_CONFIG: self.change,
            RequestCode.GET_BROKER_CONFIG: self.show,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.figures,
            RequestCode.GET_BROKER_HA_STATUS: self.copies,
            RequestCode.CLEAN_EXPIRED_QUEUES: self.clean_queues,
            RequestCode.CLEAN_UNUSED_TOPICS: self.clean_topics,
            RequestCode.DELETE_EXPIRED_LOG: self.clean_log,
        }

    def change(self, peer: Peer, request: Command) -> Command:
        """Change settings: all that are given, or none."""
        values = read_body(request.data, decode_properties)
        if not values:
            raise IllegalField("body", "it names no setting; one name=value a line is wanted")
        self._settings.change_by_key(values, by=str(peer.peer))
        return make_answer(request)

    def show(self, peer: Peer, request: Command) -> Command:
        """The settings under RocketMQ's names."""
        text = format_properties(self._settings.shown())
        return make_answer(request, fields={"version": self._version()}, body=text.encode())

    def figures(self, peer: Peer, request: Command) -> Command:
        return make_answer(request, body=encode_runtime(self._runtime.table()))

    def copies(self, peer: Peer, request: Command) -> Command:
        """Who copies this broker: nobody."""
        return make_answer(request, body=encode_copies(self._store.state().log_written))

    async def clean_queues(self, peer: Peer, request: Command) -> Command:
        """Delete queue files whose messages are gone."""
        files = await asyncio.to_thread(self._store.clean_queues)
        log.info("queues cleaned files=%d by=%s", files, peer.peer)
        return make_answer(request)

    async def clean_topics(self, peer: Peer, request: Command) -> Command:
        """Delete queues of topics that are not known."""
        topics = await asyncio.to_thread(self._store.clean_unknown_topics)
        log.info("unknown topics cleaned topics=%s by=%s", ",".join(topics), peer.peer)
        return make_answer(request)

    async def clean_log(self, peer: Peer, request: Command) -> Command:
        """Delete expired log files, whatever the hour."""
        files = await asyncio.to_thread(self._store.clean)
        log.info("log cleaned files=%d by=%s", files, peer.peer)
        return make_answer(request)

    def _version(self) -> str:
        return json.dumps(version_members(self._settings.version), separators=(",", ":"))
