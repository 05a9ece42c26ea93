"""Requests for the tests of access: one of every code, with what it needs, and who sends them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from embermq.access.access import Access
from embermq.access.accounts import Accounts
from embermq.format.command import Command, make_request
from embermq.format.signature import signed
from embermq.model.access import Action, Entry, Pattern, Policy, User
from embermq.model.codes import RequestCode as Code
from embermq.model.message import Host

SECRET = "secret-of-the-user"
CLUSTER = "DefaultCluster"


class Caller:
    """A peer that only has an address."""

    local = Host("127.0.0.1", 10911)
    is_closed = False

    def __init__(self, address: str = "192.0.2.7") -> None:
        self.peer = Host(address, 40_000)
        self.sent: list[Command] = []

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def write(self, *parts: bytes | memoryview) -> None:
        raise AssertionError("nobody writes frames here")

    async def call(self, request: Command, *, timeout_s: float) -> Command:
        raise AssertionError("nobody calls here")

    def owe(self, count: int) -> None: ...

    def settle(self, count: int) -> None: ...

    def close(self) -> None: ...


class Sample(NamedTuple):
    """A request, and what it needs: `Topic:orders Sub|Get` for each thing it acts on."""

    needs: tuple[str, ...]
    fields: dict[str, str] = {}  # noqa: RUF012  # never changed
    body: object = None  # JSON

    @property
    def data(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()


TOPIC = {"topic": "orders"}
TOPICS = {"topics": "orders;bills"}
GROUP = {"consumerGroup": "billing"}
BOTH = {**TOPIC, **GROUP}
TOPIC_AND_GROUP = {**TOPIC, "group": "billing"}
SHORT = {"a": "pg", "b": "orders"}
PULL = ("Topic:orders Sub", "Group:billing Sub")
GET_CLUSTER = Sample(("Cluster:DefaultCluster Get",))
CHANGE_CLUSTER = Sample(("Cluster:DefaultCluster Update",))
READ_TOPIC = Sample(("Topic:orders Sub|Get",), TOPIC)
GET_TOPIC = Sample(("Topic:orders Get",), TOPIC)
GET_GROUP = Sample(("Group:billing Get",), GROUP)
GET_BOTH = Sample(("Topic:orders Get", "Group:billing Get"), TOPIC_AND_GROUP)
CHANGE_BOTH = Sample(("Topic:orders Update", "Group:billing Update"), TOPIC_AND_GROUP)
LOCKS = {"clientId": "c", "consumerGroup": "billing", "mqSet": [{"brokerName": "b", "queueId": 0, "topic": "orders"}]}
CONSUMER = {
    "groupName": "billing",
    "subscriptionDataSet": [{"topic": "orders", "subString": "*"}, {"topic": "%RETRY%billing", "subString": "*"}],
}

# From the table of what ACL 2.0 asks for, and from what it should ask for where it asks for nothing.
SAMPLES: dict[int, Sample] = {
    Code.SEND_MESSAGE: Sample(("Topic:orders Pub",), TOPIC),
    Code.RECALL_MESSAGE: Sample(("Topic:orders Pub",), TOPIC),
    Code.SEND_MESSAGE_V2: Sample(("Topic:orders Pub",), SHORT),
    Code.SEND_BATCH_MESSAGE: Sample(("Topic:orders Pub",), SHORT),
    Code.SEND_REPLY_MESSAGE: Sample(("Topic:orders Pub",), TOPIC),
    Code.SEND_REPLY_MESSAGE_V2: Sample(("Topic:orders Pub",), SHORT),
    Code.END_TRANSACTION: Sample(("Topic:orders Pub",), TOPIC),
    Code.STAGE_MESSAGES: Sample(("Topic:orders Pub",), SHORT),
    Code.PUBLISH_STAGED: Sample(("Topic:orders Pub", "Topic:bills Pub"), TOPICS),
    Code.DISCARD_STAGED: Sample(("Topic:orders Pub", "Topic:bills Pub"), TOPICS),
    Code.FIND_PUBLISHED: Sample(("Topic:orders Pub", "Topic:bills Pub"), TOPICS),
    Code.PULL_MESSAGE: Sample(PULL, BOTH),
    Code.LITE_PULL_MESSAGE: Sample(PULL, BOTH),
    Code.POP_MESSAGE: Sample(PULL, BOTH),
    Code.PEEK_MESSAGE: Sample(PULL, BOTH),
    Code.NOTIFICATION: Sample(PULL, BOTH),
    Code.POLLING_INFO: Sample(("Topic:orders Get", "Group:billing Get"), BOTH),
    Code.ACK_MESSAGE: Sample(PULL, {**GROUP, "topic": "%RETRY%billing_orders"}),
    Code.CHANGE_MESSAGE_INVISIBLE_TIME: Sample(PULL, BOTH),
    Code.BATCH_ACK_MESSAGE: Sample(PULL, body={"acks": [{"c": "billing", "t": "orders"}]}),
    Code.CONSUMER_SEND_MSG_BACK: Sample(
        ("Group:billing Sub", "Topic:orders Sub"), {"group": "billing", "originTopic": "orders"}
    ),
    Code.HEART_BEAT: Sample(PULL, body={"clientID": "c", "consumerDataSet": [CONSUMER]}),
    Code.UNREGISTER_CLIENT: Sample(("Group:billing Sub",), {"clientID": "c", **GROUP}),
    Code.GET_CONSUMER_LIST_BY_GROUP: Sample(("Group:billing Sub|Get",), GROUP),
    Code.CHECK_CLIENT_CONFIG: Sample(PULL, body={"group": "billing", "subscriptionData": {"topic": "orders"}}),
    Code.LOCK_BATCH_MQ: Sample(PULL, body=LOCKS),
    Code.UNLOCK_BATCH_MQ: Sample(PULL, body=LOCKS),
    Code.QUERY_CONSUMER_OFFSET: Sample(("Topic:orders Sub|Get", "Group:billing Sub|Get"), BOTH),
    Code.UPDATE_CONSUMER_OFFSET: Sample(("Topic:orders Sub|Update", "Group:billing Sub|Update"), BOTH),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: READ_TOPIC,
    Code.GET_MAX_OFFSET: READ_TOPIC,
    Code.GET_MIN_OFFSET: READ_TOPIC,
    Code.GET_EARLIEST_STORE_TIME: READ_TOPIC,
    Code.QUERY_MESSAGE: READ_TOPIC,
    Code.VIEW_MESSAGE_BY_ID: READ_TOPIC,
    Code.QUERY_ASSIGNMENT: Sample(PULL, body={"consumerGroup": "billing", "topic": "orders"}),
    Code.GET_ROUTE_BY_TOPIC: Sample((), TOPIC),
    Code.UPDATE_AND_CREATE_TOPIC: Sample(("Topic:orders Create",), TOPIC),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: Sample(("Topic:orders Create",), TOPIC),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: Sample(
        ("Topic:orders Create", "Topic:bills Create"),
        body={"topicConfigList": [{"topicName": "orders"}, {"topicName": "bills"}]},
    ),
    Code.DELETE_TOPIC_IN_BROKER: Sample(("Topic:orders Delete",), TOPIC),
    Code.GET_ALL_TOPIC_CONFIG: Sample(("Topic:* Get|List",)),
    Code.GET_TOPIC_CONFIG: GET_TOPIC,
    Code.GET_TOPIC_STATS: GET_TOPIC,
    Code.QUERY_TOPIC_CONSUMERS: GET_TOPIC,
    Code.QUERY_CONSUME_QUEUE: Sample(("Topic:orders Get", "Group:billing Get"), BOTH),
    Code.QUERY_CORRECTION_OFFSET: Sample(
        ("Topic:orders Get", "Group:billing Get", "Group:audit Get"),
        {**TOPIC, "compareGroup": "billing", "filterGroups": "audit"},
    ),
    Code.UPDATE_AND_CREATE_GROUP: Sample(("Group:billing Create|Update",), body={"groupName": "billing"}),
    Code.UPDATE_AND_CREATE_GROUP_LIST: Sample(
        ("Group:billing Create|Update", "Group:audit Create|Update"),
        body={"groupConfigList": [{"groupName": "billing"}, {"groupName": "audit"}]},
    ),
    Code.DELETE_GROUP: Sample(("Group:billing Delete",), {"groupName": "billing"}),
    Code.GET_ALL_GROUP_CONFIG: Sample(("Group:* Get|List",)),
    Code.GET_GROUP_CONFIG: Sample(("Group:billing Get",), {"group": "billing"}),
    Code.GET_CONSUMER_CONNECTIONS: GET_GROUP,
    Code.GET_CONSUMER_RUNNING_INFO: GET_GROUP,
    Code.CONSUME_DIRECTLY: Sample(("Group:billing Update", "Topic:orders Sub|Get"), BOTH),
    Code.GET_CONSUME_STATS: Sample(
        ("Group:billing Get", "Topic:orders Get", "Topic:bills Get"), {**GROUP, "topicList": "orders;bills"}
    ),
    Code.QUERY_TOPICS_BY_CONSUMER: Sample(("Group:billing Get",), {"group": "billing"}),
    Code.QUERY_SUBSCRIPTION: GET_BOTH,
    Code.QUERY_CONSUME_TIME_SPAN: GET_BOTH,
    Code.GET_CONSUMER_STATUS: GET_BOTH,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: CHANGE_BOTH,
    Code.RESET_OFFSET: CHANGE_BOTH,
    Code.CLONE_GROUP_OFFSET: Sample(
        ("Topic:orders Update", "Group:billing Update", "Group:audit Update"),
        {**TOPIC, "srcGroup": "billing", "destGroup": "audit"},
    ),
    **dict.fromkeys(
        (
            *(Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.VIEW_BROKER_STATS),
            *(Code.GET_PRODUCER_CONNECTIONS, Code.GET_ALL_PRODUCERS, Code.GET_BROKER_CONSUME_STATS),
            *(Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET, Code.GET_ALL_MESSAGE_REQUEST_MODE),
            *(Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS, Code.GET_BROKER_HA_STATUS),
            *(Code.GET_SYSTEM_TOPICS_FROM_BROKER, Code.GET_SYSTEM_TOPICS_FROM_NAMESERVER),
            *(Code.GET_TOPICS_BY_CLUSTER, Code.GET_ALL_TOPICS_FROM_NAMESERVER, Code.GET_UNIT_TOPICS),
            *(Code.GET_HAS_UNIT_SUB_TOPICS, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPICS, Code.GET_BROKER_CLUSTER_INFO),
            *(Code.GET_BROKER_MEMBER_GROUP, Code.QUERY_DATA_VERSION, Code.GET_NAMESERVER_CONFIG),
            *(Code.GET_KV_CONFIG, Code.GET_KV_LIST, 3004, 3005, 3009, 3010),
        ),
        GET_CLUSTER,
    ),
    **dict.fromkeys(
        (
            *(Code.UPDATE_BROKER_CONFIG, Code.CLEAN_EXPIRED_QUEUES, Code.CLEAN_UNUSED_TOPICS, Code.DELETE_EXPIRED_LOG),
            *(
                Code.RESUME_CHECK_HALF_MESSAGE,
                Code.SET_MESSAGE_REQUEST_MODE,
                Code.REGISTER_BROKER,
                Code.UNREGISTER_BROKER,
                Code.BROKER_HEARTBEAT,
            ),
            *(Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.WIPE_WRITE_PERM, Code.ADD_WRITE_PERM),
            *(Code.DELETE_TOPIC_IN_NAMESERVER, Code.REGISTER_TOPIC_IN_NAMESERVER, Code.UPDATE_NAMESERVER_CONFIG),
            *(Code.CHECK_TRANSACTION_STATE, Code.NOTIFY_CONSUMER_IDS_CHANGED, Code.RESET_CLIENT_OFFSET),
            *(Code.GET_STATUS_FROM_CLIENT, Code.PUSH_REPLY_TO_CLIENT, Code.NOTIFY_MIN_BROKER_ID_CHANGE),
            *(3001, 3002, 3003, 3006, 3007, 3008),
            *(Code.LOOK_AT_STORE, Code.LIST_STORE_FILES, Code.READ_STORE_FILE, Code.MARK_ARCHIVED, Code.POP_ROLLBACK),
            *(902, 1007, 2001, 99_999),  # codes that nobody handles
        ),
        CHANGE_CLUSTER,
    ),
}


def an_access(path: Path, *grants: str, is_super: bool = False) -> Access:
    """Access for one user, `somebody`, who has these grants: `Topic:orders Sub|Get`, each with all its actions."""
    accounts = Accounts(path / "access.json")
    accounts.save_user(User("somebody", SECRET, is_super=is_super))
    accounts.save_policy("somebody", Policy(custom=tuple(an_entry(grant) for grant in grants)))
    return Access(accounts, cluster=CLUSTER)


def an_entry(grant: str, *, allows: bool = True) -> Entry:
    resource, actions = grant.split()
    return Entry(Pattern.parse(resource), frozenset(Action(name) for name in actions.split("|")), allows)


def a_request(code: int, sample: Sample, *, secret: str = SECRET, name: str = "somebody") -> Command:
    fields = signed(sample.fields, sample.data, access_key=name, secret=secret)
    return make_request(code, fields, sample.data)
