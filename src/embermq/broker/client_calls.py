"""Requests from the broker to its clients, with the time that RocketMQ gives each.

39   how did this transaction end?                    no answer wanted: END_TRANSACTION is one
40   others came or went: share the queues anew       no answer wanted
220  go on at these offsets                           no answer wanted
221  where are you?                                    5 s
307  tell all about yourself                          10 s
309  consume this message now                         10 s
326  here is the reply that you wait for              10 s
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from embermq.format.command import Command, make_request
from embermq.format.consume_status_body import decode_client_status
from embermq.format.message_id import encode_message_id
from embermq.format.offset_table_body import encode_offset_table
from embermq.format.record import MAGIC_V1, MAGIC_V2, MAX_V1_TOPIC_SIZE, Record, encode_record, record_size
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import HALF_TOPIC
from embermq.rpc.peer import Peer

STATUS_TIMEOUT_S: Final = 5.0
RELAY_TIMEOUT_S: Final = 10.0
REPLY_TIMEOUT_S: Final = 10.0


def notify_changed(peers: Iterable[Peer], group: str) -> None:
    """Tell members of a consumer group that others came or went."""
    for peer in peers:
        peer.send(make_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}, oneway=True))


def ask_transaction(peer: Peer, asked: Record, *, unique_id: str, broker_name: str) -> None:
    """Ask a producer how a transaction ended.

    `asked` is the half message as it would be where it belongs, but with offset and position of the half message:
    the producer tells these back.
    """
    name = asked.topic.encode(errors="surrogateescape")
    is_long = len(name) > MAX_V1_TOPIC_SIZE
    size = record_size(len(name), len(asked.body), len(asked.properties), asked.sys_flag, is_long)
    body = encode_record(asked._replace(size=size, magic=MAGIC_V2 if is_long else MAGIC_V1))
    fields = {
        "topic": HALF_TOPIC,
        "tranStateTableOffset": str(asked.offset),
        "commitLogOffset": str(asked.position),
        "msgId": unique_id,
        "transactionId": unique_id,
        "offsetMsgId": encode_message_id(asked.store_host, asked.position),
        "bname": broker_name,
    }
    peer.send(make_request(RequestCode.CHECK_TRANSACTION_STATE, fields, body, oneway=True))


def push_offsets(
    peers: Iterable[Peer], *, topic: str, group: str, offsets: Mapping[BrokerQueue, int], timestamp: int, force: bool
) -> None:
    """Have members go on at these offsets; they stop, wait ten seconds, and do."""
    fields = {"topic": topic, "group": group, "timestamp": str(timestamp), "isForce": "true" if force else "false"}
    body = encode_offset_table(offsets)
    for peer in peers:
        peer.send(make_request(RequestCode.RESET_CLIENT_OFFSET, fields, body, oneway=True))


async def ask_status(peer: Peer, *, topic: str, group: str) -> dict[BrokerQueue, int] | None:
    """Where a consumer is in the queues that it holds; None if it refuses. Raises ConnectionLost or CallTimeout."""
    request = make_request(RequestCode.GET_STATUS_FROM_CLIENT, {"topic": topic, "group": group})
    answer = await peer.call(request, timeout_s=STATUS_TIMEOUT_S)
    return decode_client_status(answer.data) if answer.code == ResponseCode.SUCCESS else None


async def relay(peer: Peer, code: int, fields: Mapping[str, str], body: bytes = b"") -> Command:
    """Hand a request on to a client; its answer as it is. Raises ConnectionLost or CallTimeout."""
    return await peer.call(make_request(code, fields, body), timeout_s=RELAY_TIMEOUT_S)


async def push_reply(peer: Peer, fields: Mapping[str, str], body: bytes) -> Command:
    """Bring a reply to whoever asked. Raises ConnectionLost or CallTimeout."""
    return await peer.call(make_request(RequestCode.PUSH_REPLY_TO_CLIENT, fields, body), timeout_s=REPLY_TIMEOUT_S)
