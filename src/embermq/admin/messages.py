"""Finding messages: by their id, by a key, by the id that their producer gave."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from embermq.admin.cluster import Cluster
from embermq.client.answers import check_answer
from embermq.client.incoming import decode_messages
from embermq.errors import CorruptRecord, MessageNotFound
from embermq.format.message_id import decode_message_id
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import StoredMessage, milliseconds_of
from embermq.model.properties import UNIQ_KEY

_END_OF_TIME: Final = 2**63 - 1


async def get_message(cluster: Cluster, message_id: str) -> StoredMessage:
    """The message at the place that an id tells. Raises MessageNotFound."""
    try:
        host, position = decode_message_id(message_id)
    except CorruptRecord as error:
        raise MessageNotFound(f"{error.reason}; with a topic, a unique key is looked for, too") from error
    answer = await cluster.ask(str(host), RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
    asked = f"message {message_id}"
    if answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.QUERY_NOT_FOUND):
        # RocketMQ's brokers answer an error of no kind when there is nothing at the position.
        raise MessageNotFound(f"no {asked}: {answer.remark or 'no reason given'}")
    messages = decode_messages(check_answer(answer, asked).data)
    if not messages:
        raise MessageNotFound(f"no {asked}")
    return messages[0]


async def find_messages(
    cluster: Cluster,
    topic: str,
    *,
    key: str | None = None,
    unique_key: str | None = None,
    since: datetime | None = None,
    limit: int = 64,
) -> list[StoredMessage]:
    """Messages of `topic` with a key, oldest first; none if there is none. Raises TopicNotFound."""
    wanted = unique_key if unique_key is not None else key
    assert wanted is not None
    fields = {
        "topic": topic,
        "key": wanted,
        "maxNum": str(limit),
        "beginTimestamp": str(0 if since is None else milliseconds_of(since)),
        "endTimestamp": str(_END_OF_TIME),
        "_UNIQUE_KEY_QUERY": "false" if unique_key is None else "true",
    }
    found: list[StoredMessage] = []
    for address in (await cluster.masters_of(topic)).values():
        answer = await cluster.ask(address, RequestCode.QUERY_MESSAGE, fields)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            continue
        found += decode_messages(check_answer(answer, f"messages with key {wanted!r}", topic=topic).data)
    # Brokers find by hashes, which other keys may share.
    exact = [message for message in found if _has(message, key=key, unique_key=unique_key)]
    return sorted(exact, key=lambda message: (message.store_time_ms, message.queue, message.offset))


async def find_message(cluster: Cluster, text: str, topic: str | None = None) -> StoredMessage:
    """The message that an id of either kind stands for. Raises MessageNotFound."""
    if topic is not None:
        found = await find_messages(cluster, topic, unique_key=text)
        if found:
            return found[-1]
    return await get_message(cluster, text)


def _has(message: StoredMessage, *, key: str | None, unique_key: str | None) -> bool:
    if unique_key is not None:
        return message.properties.get(UNIQ_KEY) == unique_key
    return key in message.keys or message.properties.get(UNIQ_KEY) == key
