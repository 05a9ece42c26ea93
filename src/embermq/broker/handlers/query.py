"""QUERY_MESSAGE and VIEW_MESSAGE_BY_ID: messages by key, by unique key and by their place in the log."""

from __future__ import annotations

from typing import Final

from embermq.errors import CorruptRecord, MessageNotFound, OutOfRange
from embermq.format.command import Command, make_answer
from embermq.format.record import Record
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.properties import REAL_TOPIC, RETRY_TOPIC
from embermq.rpc.fields import I32, find_boolean, find_integer, read_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import CheckTopic, Handler
from embermq.store.store import Store

MOST_FOUND: Final = 64
UNIQUE_MOST_FOUND: Final = 32
_SECOND_MS: Final = 1000


class QueryHandlers:
    """Finds messages."""

    def __init__(self, store: Store, *, check_topic: CheckTopic) -> None:
        self._store = store
        self._check_topic = check_topic

    def routes(self) -> dict[int, Handler]:
        return {RequestCode.QUERY_MESSAGE: self.query, RequestCode.VIEW_MESSAGE_BY_ID: self.view}

    def query(self, peer: Peer, request: Command) -> Command:
        """Messages of a topic with a key; the client looks at the key again."""
        fields = request.fields
        topic, key = read_text(fields, "topic"), read_text(fields, "key")
        limit = find_integer(fields, "maxNum", limit=I32) or MOST_FOUND
        if find_boolean(fields, "_UNIQUE_KEY_QUERY"):
            limit = UNIQUE_MOST_FOUND
        begin = find_integer(fields, "beginTimestamp") or 0
        end = find_integer(fields, "endTimestamp") or 0
        limit = max(1, min(limit, MOST_FOUND))
        # The index knows whole seconds only, so it is asked for one more, and the records decide.
        near = self._store.query_records(topic, key, begin - _SECOND_MS, end + _SECOND_MS, limit=MOST_FOUND)
        found = [record for record in near if begin <= record.store_time <= end][-limit:]
        if not found:
            nothing = {"indexLastUpdatePhyoffset": "0", "indexLastUpdateTimestamp": "0"}
            remark = (
                f"no message of topic {topic[:300]!r} with key {key[:300]!r} in this time; look at topic, key and time"
            )
            return make_answer(request, ResponseCode.QUERY_NOT_FOUND, nothing, remark=remark)
        position, time = self._store.index_end()
        told = {"indexLastUpdatePhyoffset": str(position), "indexLastUpdateTimestamp": str(time)}
        body = b"".join(bytes(self._store.select_record(record.position, record.size)) for record in found)
        return make_answer(request, ResponseCode.SUCCESS, told, body)

    def view(self, peer: Peer, request: Command) -> Command:
        """The message at a place in the log; only where a record begins."""
        position = read_integer(request.fields, "offset")
        topic = request.fields.get("topic")
        try:
            record = self._store.read_record(position)
        except (OutOfRange, CorruptRecord) as error:
            remark = f"no message at position {position} of the log: {error}"
            return make_answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        if topic and topic not in _topics_of(record):
            raise MessageNotFound(f"the message at position {position} is not of topic {topic[:200]!r}")
        self._check_topic(peer, request, record.topic)
        return make_answer(request, body=bytes(self._store.select_record(position, record.size)))


def _topics_of(record: Record) -> set[str | None]:
    """The topics that a message can be said to be of: one that waits or is retried has another of its own."""
    properties = record.property_map()
    return {record.topic, properties.get(REAL_TOPIC), properties.get(RETRY_TOPIC)}
