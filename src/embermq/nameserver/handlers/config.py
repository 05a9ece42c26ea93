"""The name server's own settings over the wire, in RocketMQ's words."""

from __future__ import annotations

import logging

from embermq.errors import CorruptRecord, IllegalField
from embermq.format.command import Command, make_answer
from embermq.format.java_properties import decode_properties
from embermq.model.codes import RequestCode
from embermq.nameserver.settings import LiveSettings
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler

log = logging.getLogger(__name__)


class ConfigHandlers:
    """Shows settings and changes those that may be changed from outside."""

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_NAMESERVER_CONFIG: self.show,
            RequestCode.UPDATE_NAMESERVER_CONFIG: self.change,
        }

    def show(self, peer: Peer, request: Command) -> Command:
        return make_answer(request, body=self._settings.text().encode())

    def change(self, peer: Peer, request: Command) -> Command:
        """Change all of them or none. Raises NotPermitted or SettingsError."""
        try:
            values = decode_properties(request.data)
        except CorruptRecord as error:
            raise IllegalField("body", error.reason) from error
        self._settings.change(values)
        log.info("settings changed peer=%s settings=%s", peer.peer, values)
        return make_answer(request)
