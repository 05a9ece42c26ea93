"""What each request needs, code by code. A code without a line needs Update on the cluster.

The lines follow RocketMQ's own, with these differences, all of them on the safe side: requests that it
forgot have a line; those that reach into other clients (307, 309, 222) are for administrators; and
whoever may consume a topic may ask where its messages are.
"""

from __future__ import annotations

from typing import Final

from embermq.access import bodies
from embermq.access.needs import (
    Need,
    Part,
    body,
    cluster,
    either,
    every,
    group,
    groups_if_given,
    popped_topic,
    topic,
    topics_if_given,
)
from embermq.format.command import Command
from embermq.model.access import Action, Kind, Resource
from embermq.model.codes import RequestCode as Code

PUB, SUB, GET, LIST = Action.PUB, Action.SUB, Action.GET, Action.LIST
CREATE, UPDATE, DELETE = Action.CREATE, Action.UPDATE, Action.DELETE

KNOWN_USER: Final[tuple[Part, ...]] = ()
CLUSTER_GET: Final = (cluster(GET),)
CLUSTER_UPDATE: Final = (cluster(UPDATE),)

_SEND: Final = (topic(PUB), topics_if_given(PUB, field="b"))  # whichever of its two names the topic comes under
_SEND_V2: Final = (topic(PUB, field="b"),)
_PUBLISH: Final = (topics_if_given(PUB, field="topics"),)
_PULL: Final = (topic(SUB), group(SUB))
_POPPED: Final = (popped_topic(SUB), group(SUB))
_READ_TOPIC: Final = (topic(SUB, GET),)
_GET_TOPIC: Final = (topic(GET),)
_GET_BOTH: Final = (topic(GET), group(GET, field="group"))
_UPDATE_BOTH: Final = (topic(UPDATE), group(UPDATE, field="group"))

_CLIENTS: Final[dict[int, tuple[Part, ...]]] = {
    # A route tells addresses and numbers of queues, and clients ask for topics that are not there yet.
    Code.GET_ROUTE_BY_TOPIC: KNOWN_USER,
    Code.SEND_MESSAGE: _SEND,
    Code.SEND_MESSAGE_V2: _SEND_V2,
    Code.SEND_BATCH_MESSAGE: _SEND_V2,
    Code.SEND_REPLY_MESSAGE: _SEND,
    Code.SEND_REPLY_MESSAGE_V2: _SEND_V2,
    # Go does not name the topic; the handler checks the one of the message that it finds.
    Code.END_TRANSACTION: (topics_if_given(PUB),),
    Code.PULL_MESSAGE: _PULL,
    Code.LITE_PULL_MESSAGE: _PULL,
    Code.CONSUMER_SEND_MSG_BACK: (group(SUB, field="group"), topics_if_given(SUB, field="originTopic")),
    Code.HEART_BEAT: (body(bodies.heartbeat, SUB),),
    Code.UNREGISTER_CLIENT: (groups_if_given(SUB),),
    Code.GET_CONSUMER_LIST_BY_GROUP: (group(SUB, GET),),
    Code.CHECK_CLIENT_CONFIG: (body(bodies.client_config, SUB),),
    Code.LOCK_BATCH_MQ: (body(bodies.locks, SUB),),
    Code.UNLOCK_BATCH_MQ: (body(bodies.locks, SUB),),
    Code.QUERY_CONSUMER_OFFSET: (topic(SUB, GET), group(SUB, GET)),
    Code.UPDATE_CONSUMER_OFFSET: (topic(SUB, UPDATE), group(SUB, UPDATE)),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _READ_TOPIC,
    Code.GET_MAX_OFFSET: _READ_TOPIC,
    Code.GET_MIN_OFFSET: _READ_TOPIC,
    Code.GET_EARLIEST_STORE_TIME: _READ_TOPIC,
    Code.QUERY_MESSAGE: _READ_TOPIC,
    # The message is found by its position; the handler compares its topic with the one that was named.
    Code.VIEW_MESSAGE_BY_ID: (either("topic", given=topic(SUB, GET), missing=cluster(GET)),),
    Code.QUERY_ASSIGNMENT: (body(bodies.assignment, SUB),),
    Code.RECALL_MESSAGE: _SEND,
    Code.STAGE_MESSAGES: _SEND_V2,
    # The handlers compare what is staged with the topics that are named.
    Code.PUBLISH_STAGED: _PUBLISH,
    Code.DISCARD_STAGED: _PUBLISH,
    Code.FIND_PUBLISHED: _PUBLISH,
    # Consuming by pop.
    Code.POP_MESSAGE: _PULL,
    Code.PEEK_MESSAGE: _PULL,
    Code.NOTIFICATION: _PULL,
    Code.ACK_MESSAGE: _POPPED,
    Code.CHANGE_MESSAGE_INVISIBLE_TIME: _POPPED,
    Code.POLLING_INFO: (topic(GET), group(GET)),
    Code.BATCH_ACK_MESSAGE: (body(bodies.acknowledged, SUB),),
}

_TOPICS_AND_GROUPS: Final[dict[int, tuple[Part, ...]]] = {
    Code.UPDATE_AND_CREATE_TOPIC: (topic(CREATE),),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: (body(bodies.topic_configs, CREATE),),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: (topic(CREATE),),
    Code.DELETE_TOPIC_IN_BROKER: (topic(DELETE),),
    Code.GET_ALL_TOPIC_CONFIG: (every(Kind.TOPIC, GET, LIST),),
    Code.GET_TOPIC_CONFIG: _GET_TOPIC,
    Code.GET_TOPIC_STATS: _GET_TOPIC,
    Code.QUERY_TOPIC_CONSUMERS: _GET_TOPIC,
    Code.QUERY_CONSUME_QUEUE: (topic(GET), groups_if_given(GET)),
    Code.QUERY_CORRECTION_OFFSET: (
        topic(GET),
        groups_if_given(GET, field="compareGroup"),
        groups_if_given(GET, field="filterGroups"),
    ),
    Code.UPDATE_AND_CREATE_GROUP: (body(bodies.group_config, CREATE, UPDATE),),
    Code.UPDATE_AND_CREATE_GROUP_LIST: (body(bodies.group_configs, CREATE, UPDATE),),
    Code.DELETE_GROUP: (group(DELETE, field="groupName"),),
    Code.GET_ALL_GROUP_CONFIG: (every(Kind.GROUP, GET, LIST),),
    Code.GET_GROUP_CONFIG: (group(GET, field="group"),),
    Code.GET_CONSUMER_CONNECTIONS: (group(GET),),
    Code.GET_CONSUMER_RUNNING_INFO: (group(GET),),
    Code.CONSUME_DIRECTLY: (group(UPDATE), topics_if_given(SUB, GET)),
    Code.GET_CONSUME_STATS: (group(GET), topics_if_given(GET), topics_if_given(GET, field="topicList")),
    Code.QUERY_TOPICS_BY_CONSUMER: (group(GET, field="group"),),
    Code.QUERY_SUBSCRIPTION: _GET_BOTH,
    Code.QUERY_CONSUME_TIME_SPAN: _GET_BOTH,
    Code.GET_CONSUMER_STATUS: _GET_BOTH,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _UPDATE_BOTH,
    Code.RESET_OFFSET: _UPDATE_BOTH,
    Code.CLONE_GROUP_OFFSET: (
        topic(UPDATE),
        group(UPDATE, field="srcGroup"),
        group(UPDATE, field="destGroup"),
    ),
}

_CLUSTER: Final[dict[int, tuple[Part, ...]]] = {
    **dict.fromkeys(
        (
            *(Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.VIEW_BROKER_STATS),
            *(Code.GET_PRODUCER_CONNECTIONS, Code.GET_ALL_PRODUCERS, Code.GET_BROKER_CONSUME_STATS),
            *(Code.GET_ALL_CONSUMER_OFFSET, Code.GET_ALL_DELAY_OFFSET, Code.GET_ALL_MESSAGE_REQUEST_MODE),
            *(Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS, Code.GET_BROKER_HA_STATUS),
            *(Code.GET_SYSTEM_TOPICS_FROM_BROKER, Code.GET_SYSTEM_TOPICS_FROM_NAMESERVER, Code.GET_TOPICS_BY_CLUSTER),
            *(Code.GET_ALL_TOPICS_FROM_NAMESERVER, Code.GET_UNIT_TOPICS, Code.GET_HAS_UNIT_SUB_TOPICS),
            *(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPICS, Code.GET_BROKER_CLUSTER_INFO, Code.GET_BROKER_MEMBER_GROUP),
            *(Code.QUERY_DATA_VERSION, Code.GET_NAMESERVER_CONFIG, Code.GET_KV_CONFIG, Code.GET_KV_LIST),
            *(3004, 3005, 3009, 3010),  # users and policies; secrets are for super users alone
        ),
        CLUSTER_GET,
    ),
    **dict.fromkeys(
        (
            # Raw bytes of the log are messages of all topics.
            *(Code.LOOK_AT_STORE, Code.LIST_STORE_FILES, Code.READ_STORE_FILE, Code.MARK_ARCHIVED),
            *(Code.UPDATE_BROKER_CONFIG, Code.CLEAN_EXPIRED_QUEUES, Code.CLEAN_UNUSED_TOPICS, Code.DELETE_EXPIRED_LOG),
            *(Code.RESUME_CHECK_HALF_MESSAGE, Code.SET_MESSAGE_REQUEST_MODE, Code.REGISTER_BROKER),
            *(Code.UNREGISTER_BROKER, Code.BROKER_HEARTBEAT, Code.POP_ROLLBACK),
            *(Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.WIPE_WRITE_PERM, Code.ADD_WRITE_PERM),
            *(Code.DELETE_TOPIC_IN_NAMESERVER, Code.REGISTER_TOPIC_IN_NAMESERVER, Code.UPDATE_NAMESERVER_CONFIG),
            *(3001, 3002, 3003, 3006, 3007, 3008),
            # What a server sends, and nobody should send to one.
            *(Code.CHECK_TRANSACTION_STATE, Code.NOTIFY_CONSUMER_IDS_CHANGED, Code.RESET_CLIENT_OFFSET),
            *(Code.GET_STATUS_FROM_CLIENT, Code.PUSH_REPLY_TO_CLIENT, Code.NOTIFY_MIN_BROKER_ID_CHANGE),
        ),
        CLUSTER_UPDATE,
    ),
}

RULES: Final[dict[int, tuple[Part, ...]]] = {**_CLIENTS, **_TOPICS_AND_GROUPS, **_CLUSTER}


def needs_of(request: Command, *, cluster_name: str) -> list[Need]:
    """What the user of `request` needs; when there is nothing, being known is enough. Raises AccessDenied."""
    needs = [need for part in RULES.get(request.code, CLUSTER_UPDATE) for need in part(request)]
    this_cluster = Resource(Kind.CLUSTER, cluster_name)
    return [need._replace(resource=this_cluster) if need.resource.kind is Kind.CLUSTER else need for need in needs]
