"""What a fuzzed server has before the nonsense begins, and sound requests about it to be spoilt.

They stand in for what the golden recordings do not have, and ask for the topic `orders` and the
group `billing`, so that they get past the first checks.
"""

from __future__ import annotations

import json
import time
import zlib
from typing import Final

from embermq.broker.broker import Broker
from embermq.broker.transactions.halves import given_up_draft
from embermq.format.command import make_request
from embermq.format.mapping_json import encode_mapping
from embermq.format.recall_handle import RecallHandle, encode_recall_handle
from embermq.format.staged import StagedMessage, encode_staged
from embermq.model.queue_mapping import QueueMapping, QueuePart
from embermq.model.topic import GIVEN_UP_TOPIC
from tests.unit.broker.brokers import Client, send_fields
from tests.unit.broker.peers import RecordingPeer

CLIENT_ID: Final = "192.0.2.2@billing"
_ADDRESS: Final = "7F00000100002A9F"  # 127.0.0.1:10911
MESSAGE_ID: Final = f"{_ADDRESS}{0:016X}"
GIVEN_UP_POSITION: Final = 270  # behind a half message
_GROUP: Final = {"consumerGroup": "billing"}
_BOTH: Final = {"group": "billing", "topic": "orders"}
_QUEUE: Final = {"topic": "orders", "queueId": "0"}
_LONG_SEND: Final = {
    "producerGroup": "P", "topic": "orders", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": "0",
    "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": "", "reconsumeTimes": "0",
    "unitMode": "false", "batch": "false",
}  # fmt: skip
_TOPIC: Final = {
    "topicName": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0, "order": False, "attributes": {"+message.type": "NORMAL"},
}  # fmt: skip
_STATIC_TOPIC: Final = {
    "topic": "static", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "force": "true",
}  # fmt: skip
_MODE: Final = {"topic": "orders", **_GROUP, "mode": "PULL", "popShareQueueNum": 0}
_REPLY: Final = {
    **_LONG_SEND,
    "topic": "DefaultCluster_REPLY_TOPIC",
    "properties": f"REPLY_TO_CLIENT\x01{CLIENT_ID}\x02",
}
_ROUTE: Final = {
    "brokerDatas": [{"brokerAddrs": {"0": "192.0.2.1:10911"}, "brokerName": "broker-a", "cluster": "DefaultCluster"}],
    "filterServerTable": {},
    "queueDatas": [{"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}],
}
_HEARTBEAT: Final = {
    "clientID": CLIENT_ID,
    "consumerDataSet": [
        {
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY", "groupName": "billing",
            "messageModel": "CLUSTERING", "unitMode": False,
            "subscriptionDataSet": [
                {
                    "classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*",
                    "subVersion": 1700000000000, "tagsSet": [], "topic": "orders",
                }
            ],
        }
    ],
    "producerDataSet": [{"groupName": "P"}],
}  # fmt: skip
_END: Final = {
    "topic": "orders", "producerGroup": "P", "tranStateTableOffset": "0", "commitLogOffset": "0", "msgId": "half",
    "transactionId": "half", "fromTransactionCheck": "false",
}  # fmt: skip
_HANDLE: Final = encode_recall_handle(
    RecallHandle("orders", "broker-a", time.time_ns() // 1_000_000 + 3_600_000, "id0")
)
_POP: Final = {
    **_GROUP, **_QUEUE, "maxMsgNums": "8", "invisibleTime": "60000", "pollTime": "100", "bornTime": "0",
    "initMode": "0", "expType": "TAG", "exp": "*", "order": "false",
}  # fmt: skip
_ACK: Final = {**_GROUP, **_QUEUE, "offset": "0", "extraInfo": "0 1700000000000 1000 3 0 broker-a 0 0"}
_ORDERED_ACK: Final = {**_ACK, "extraInfo": "0 1700000000000 1000 999 0 broker-a 0 0"}
_ACKS: Final = {
    "brokerName": "broker-a",
    "acks": [
        {
            "b": "AQ==",
            "c": "billing",
            "it": 1000,
            "pt": 1700000000000,
            "q": 0,
            "r": "0",
            "rq": 3,
            "so": 0,
            "t": "orders",
        }
    ],
}
_JOB: Final = {"job": "billing"}
_STAGED: Final = encode_staged([StagedMessage(0, 0, 0, 1_700_000_000_000, b"hello", b"WAIT\x01true\x02")])
_LOG_FILE: Final = f"commitlog/{0:020}"
_QUEUE_FILE: Final = f"consumequeue/orders/0/{0:020}"
_PLAN: Final = {"broker-a": [{"name": "u", "chunks": 0, "messages": 0}]}


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


SOUND: Final[dict[int, list[tuple[dict[str, str], bytes]]]] = {
    10: [(_LONG_SEND, b"hello")],
    11: [({**_GROUP, **_QUEUE, "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "2", "commitOffset": "0",
           "suspendTimeoutMillis": "100", "subVersion": "1700000000000"}, b"")],
    15: [({**_GROUP, **_QUEUE, "commitOffset": "1"}, b"")],
    200_050: [(_POP, b""), ({**_POP, "order": "true"}, b"")],
    200_051: [(_ACK, b""), (_ORDERED_ACK, b"")],
    200_052: [(_POP, b"")],
    200_053: [({**_ORDERED_ACK, "invisibleTime": "500"}, b"")],
    200_054: [(_POP, b"")],
    200_055: [(_POP, b"")],
    200_151: [({}, _json(_ACKS))],
    18: [({}, _json({"topicConfigList": [_TOPIC]}))],
    33: [({"offset": "0"}, b"")],
    34: [({}, _json(_HEARTBEAT))],
    36: [({"group": "billing", "offset": "0", "delayLevel": "0", "originTopic": "orders"}, b"")],
    38: [(_GROUP, b"")],
    100: [({"namespace": "N", "key": "k", "value": "v"}, b"")],
    101: [({"namespace": "N", "key": "k"}, b"")],
    203: [(_GROUP, b"")],
    204: [({"producerGroup": "P"}, b"")],
    217: [({"topic": "orders"}, _json(_ROUTE))],
    219: [({"namespace": "N"}, b"")],
    222: [({**_BOTH, "timestamp": "0", "isForce": "true"}, b""), ({**_BOTH, "queueId": "0", "offset": "1"}, b"")],
    223: [(_BOTH, b"")],
    225: [({}, _json({"groupConfigList": [{"groupName": "billing", "retryQueueNums": 1}]}))],
    303: [(_BOTH, b"")],
    307: [({**_GROUP, "clientId": CLIENT_ID, "jstackEnable": "false"}, b"")],
    308: [({"topic": "orders", "filterGroups": "x,y", "compareGroup": "billing"}, b"")],
    309: [({**_GROUP, "clientId": CLIENT_ID, "msgId": MESSAGE_ID, "brokerName": "broker-a"}, b"")],
    314: [({"srcGroup": "billing", "destGroup": "other", "topic": "orders", "offline": "true"}, b"")],
    322: [({"brokerName": "broker-a", "brokerAddr": "192.0.2.1:10911"}, _json({"counter": 1, "timestamp": 2}))],
    323: [({"topic": GIVEN_UP_TOPIC, "msgId": f"{_ADDRESS}{GIVEN_UP_POSITION:016X}"}, b"")],
    324: [(_REPLY, b"answer")],
    343: [({"group": "billing"}, b"")],
    345: [(_BOTH, b"")],
    352: [({"group": "billing"}, b"")],
    353: [({**_BOTH, "readable": "true"}, b"")],
    401: [({}, _json(_MODE))],
    37: [({**_END, "commitOrRollback": how}, b"") for how in ("8", "12")],
    370: [({"topic": "orders", "producerGroup": "P", "recallHandle": _HANDLE}, b"")],
    513: [(_STATIC_TOPIC, encode_mapping(QueueMapping("static", "broker-a", 1, 1, {0: (QueuePart("broker-a", 0),)})))],
    30001: [({**send_fields("orders"), **_JOB, "task": "t", "sequence": "0", "crc": str(zlib.crc32(_STAGED))},
             _STAGED)],
    30002: [({**_JOB, "batch": "3", "topics": "orders"}, _json(_PLAN))],
    30003: [({**_JOB, "topics": "orders"}, _json(_PLAN))],
    30004: [({**_JOB, "batch": "3", "topics": "orders"}, b"")],
    30005: [({"topics": "orders"}, b"")],
    30006: [({"folder": "consumequeue", "deep": "true"}, b""), ({"folder": "commitlog", "deep": "false"}, b"")],
    30007: [({"path": path, "begin": "0", "size": "100"}, b"") for path in (_LOG_FILE, _QUEUE_FILE, "checkpoint")],
    30008: [({"archive": "5f" * 16, "position": "0", "target": "somewhere"}, b"")],
}  # fmt: skip


async def prepare(broker: Broker, peer: RecordingPeer) -> None:
    """Messages of the topic `orders`, and a member of the group `billing` at the other end of `peer`."""
    client = Client(broker)
    half = await client.ask(310, send_fields("orders", TRAN_MSG="true", PGROUP="P", UNIQ_KEY="half"), b"half")
    assert half.code == 0, half  # at position 0, which is where `_END` looks for it
    given_up = await broker.puts.put([given_up_draft(broker.store.read_record(0))])
    assert given_up.positions == [GIVEN_UP_POSITION], given_up
    for number in range(5):
        answer = await client.ask(310, send_fields("orders", KEYS=f"k{number}", UNIQ_KEY=f"id{number}"), b"hello")
        assert answer.code == 0, answer
    broker.router.receive(peer, [make_request(34, {}, _json(_HEARTBEAT))])
    assert broker.membership.consumer_ids("billing") == [CLIENT_ID]
    peer.take_sent()
