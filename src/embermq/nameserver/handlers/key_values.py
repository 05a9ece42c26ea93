"""The key-value table over the wire."""

from __future__ import annotations

from embermq.format.cluster_body import encode_values
from embermq.format.command import Command, make_answer
from embermq.model.codes import RequestCode, ResponseCode
from embermq.nameserver.key_values import KeyValues
from embermq.rpc.fields import read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler


class KeyValueHandlers:
    """Reads and changes the table."""

    def __init__(self, key_values: KeyValues) -> None:
        self._key_values = key_values

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.PUT_KV_CONFIG: self.put,
            RequestCode.GET_KV_CONFIG: self.get,
            RequestCode.DELETE_KV_CONFIG: self.delete,
            RequestCode.GET_KV_LIST: self.list_namespace,
        }

    def put(self, peer: Peer, request: Command) -> Command:
        namespace, key = _place(request)
        self._key_values.put(namespace, key, read_text(request.fields, "value"))
        return make_answer(request)

    def get(self, peer: Peer, request: Command) -> Command:
        namespace, key = _place(request)
        value = self._key_values.find(namespace, key)
        if value is None:
            return _none(request, f"no key {key[:80]!r} in namespace {namespace[:80]!r}")
        return make_answer(request, fields={"value": value})

    def delete(self, peer: Peer, request: Command) -> Command:
        self._key_values.delete(*_place(request))
        return make_answer(request)

    def list_namespace(self, peer: Peer, request: Command) -> Command:
        namespace = read_text(request.fields, "namespace")
        values = self._key_values.find_all(namespace)
        if values is None:
            return _none(request, f"no namespace {namespace[:80]!r}")
        return make_answer(request, body=encode_values(values))


def _place(request: Command) -> tuple[str, str]:
    return read_text(request.fields, "namespace"), read_text(request.fields, "key")


def _none(request: Command, remark: str) -> Command:
    return make_answer(request, ResponseCode.QUERY_NOT_FOUND, remark=remark)
