"""Brokers that come, stay and go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from embermq.errors import CorruptRecord, IllegalField
from embermq.format.cluster_body import encode_values
from embermq.format.command import Command, make_answer
from embermq.format.registration_body import (
    Registration,
    body_checksum,
    decode_registration,
    decode_version,
    encode_version,
)
from embermq.model.codes import RequestCode
from embermq.nameserver.key_values import ORDER_TOPICS, KeyValues
from embermq.nameserver.routes import Registered, Registrant, Routes
from embermq.nameserver.settings import LiveSettings
from embermq.nameserver.tailoring import reachable_address
from embermq.rpc.fields import find_boolean, find_integer, read_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler

MAX_NAME_SIZE: Final = 255

# Clients take lists of addresses apart at commas, colons and quotes.
_ADDRESS: Final = re.compile(r"([\w.%-]+|\[[0-9a-fA-F:.%\w-]+\]):([0-9]{1,5})")


class RegisteringHandlers:
    """Takes what brokers tell of themselves."""

    def __init__(self, routes: Routes, key_values: KeyValues, settings: LiveSettings) -> None:
        self._routes = routes
        self._key_values = key_values
        self._settings = settings

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.REGISTER_BROKER: self.register,
            RequestCode.UNREGISTER_BROKER: self.unregister,
            RequestCode.QUERY_DATA_VERSION: self.compare_version,
            RequestCode.BROKER_HEARTBEAT: self.keep,
        }

    def register(self, peer: Peer, request: Command) -> Command:
        """Take a broker, and what topics it has. Raises IllegalField, and changes nothing."""
        who = self._read_registrant(request.fields)
        registered = self._routes.register(who, self._read_registration(request), peer=peer)
        return make_answer(request, fields=_master_fields(registered, peer), body=self._order_topics())

    def unregister(self, peer: Peer, request: Command) -> Command:
        name, address = _read_name(request.fields, "brokerName"), read_text(request.fields, "brokerAddr")
        self._routes.unregister(name, address)
        return make_answer(request)

    def compare_version(self, peer: Peer, request: Command) -> Command:
        """Whether a broker has something new to tell; that it asked shows that it lives."""
        try:
            version = decode_version(request.data)
        except CorruptRecord as error:
            raise IllegalField("body", error.reason) from error
        name, address = read_text(request.fields, "brokerName"), read_text(request.fields, "brokerAddr")
        known = self._routes.heard_of(name, address)
        fields = {"changed": "false" if known == version else "true"}
        return make_answer(request, fields=fields, body=b"" if known is None else encode_version(known))

    def keep(self, peer: Peer, request: Command) -> Command:
        """A sign of life."""
        self._routes.heard_of(read_text(request.fields, "brokerName"), read_text(request.fields, "brokerAddr"))
        return make_answer(request)

    def _read_registrant(self, fields: Mapping[str, str]) -> Registrant:
        broker_id = read_integer(fields, "brokerId")
        if broker_id < 0:
            raise IllegalField("brokerId", f"{broker_id} is negative")
        timeout_ms = find_integer(fields, "heartbeatTimeoutMillis") or 0
        return Registrant(
            cluster=_read_name(fields, "clusterName"),
            name=_read_name(fields, "brokerName"),
            broker_id=broker_id,
            address=_read_address(fields, "brokerAddr"),
            ha_address=fields.get("haServerAddr", ""),
            timeout_ms=timeout_ms if timeout_ms > 0 else self._settings.current.broker_timeout_ms,
            acting_master=find_boolean(fields, "enableActingMaster"),
            zone=fields.get("__ZONE_NAME") or None,
        )

    def _read_registration(self, request: Command) -> Registration:
        body = request.data
        expected = find_integer(request.fields, "bodyCrc32") or 0
        if expected not in (0, body_checksum(body)):
            raise IllegalField("bodyCrc32", f"{expected} is not the checksum of the body, {body_checksum(body)}")
        try:
            limit = self._settings.current.max_registration_size
            return decode_registration(body, version=request.version, limit=limit)
        except CorruptRecord as error:
            raise IllegalField("body", error.reason) from error

    def _order_topics(self) -> bytes:
        values = self._key_values.find_all(ORDER_TOPICS) if self._settings.current.order_topics_to_brokers else None
        return b"" if values is None else encode_values(values)


def _master_fields(registered: Registered, peer: Peer) -> dict[str, str]:
    if registered.master_address is None:
        return {}
    fields = {"haServerAddr": registered.master_ha_address, "masterAddr": registered.master_address}
    return {name: reachable_address(address, peer.local) for name, address in fields.items() if address}


def _read_name(fields: Mapping[str, str], name: str) -> str:
    text = read_text(fields, name)
    if len(text) > MAX_NAME_SIZE or not text.isprintable() or text.isspace():
        raise IllegalField(name, f"{text[:80]!r} is no name: up to {MAX_NAME_SIZE} printable characters are expected")
    return text


def _read_address(fields: Mapping[str, str], name: str) -> str:
    text = read_text(fields, name)
    if len(text) > MAX_NAME_SIZE or not _ADDRESS.fullmatch(text):
        raise IllegalField(name, f"{text[:80]!r} is no address; host:port is expected")
    return text
