"""The groups and topics that the bodies of requests name.

Bodies are read with the reader that everybody uses, so that what is checked is what is done. A
body that cannot be read is refused: nobody can tell what it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps

from embermq.access.needs import Names
from embermq.errors import AccessDenied, CorruptRecord
from embermq.format.json_fields import Fields, parse_fields


def _readable(read: Callable[[Fields], Names]) -> Callable[[bytes], Names]:
    @wraps(read)
    def names(body: bytes) -> Names:
        try:
            return read(parse_fields(body, "body"))
        except CorruptRecord as error:
            raise AccessDenied(f"the body cannot be read, so nobody can be allowed what it asks: {error}") from error

    return names


@_readable
def heartbeat(members: Fields) -> Names:
    """Of HEART_BEAT: the consumer groups, and what they subscribe to."""
    consumers = list(_objects(members, "consumerDataSet"))
    subscribed = [each for consumer in consumers for each in _objects(consumer, "subscriptionDataSet")]
    return Names(
        groups=[_name(consumer, "groupName") for consumer in consumers],
        topics=[_name(each, "topic") for each in subscribed],
    )


@_readable
def locks(members: Fields) -> Names:
    """Of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: the group, and the topics of the queues."""
    queues = _objects(members, "mqSet")
    return Names(groups=[_name(members, "consumerGroup")], topics=[_name(queue, "topic") for queue in queues])


@_readable
def client_config(members: Fields) -> Names:
    """Of CHECK_CLIENT_CONFIG: the group and the topic of its subscription."""
    subscription = members.find_fields("subscriptionData")
    topics = [_name(subscription, "topic")] if subscription else []
    return Names(groups=[_name(members, "group")], topics=topics)


@_readable
def assignment(members: Fields) -> Names:
    """Of QUERY_ASSIGNMENT."""
    return Names(groups=[_name(members, "consumerGroup")], topics=[_name(members, "topic")])


@_readable
def acknowledged(members: Fields) -> Names:
    """Of BATCH_ACK_MESSAGE."""
    acks = list(_objects(members, "acks"))
    return Names(groups=[_name(ack, "c") for ack in acks], topics=[_name(ack, "t") for ack in acks])


@_readable
def group_config(members: Fields) -> Names:
    """Of UPDATE_AND_CREATE_GROUP."""
    return Names(groups=[_name(members, "groupName")])


@_readable
def group_configs(members: Fields) -> Names:
    """Of UPDATE_AND_CREATE_GROUP_LIST."""
    return Names(groups=[_name(each, "groupName") for each in _objects(members, "groupConfigList")])


@_readable
def topic_configs(members: Fields) -> Names:
    """Of UPDATE_AND_CREATE_TOPIC_LIST."""
    return Names(topics=[_name(each, "topicName") for each in _objects(members, "topicConfigList")])


def _objects(members: Fields, name: str) -> Iterable[Fields]:
    return (Fields(each, f"body.{name}") for each in members.find_list(name) or [])


def _name(members: Fields, name: str) -> str:
    text = members.text(name, "")
    if not text:
        raise AccessDenied(f"the body must name what it is about: {name!r} is missing")
    return text
