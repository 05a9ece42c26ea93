"""Messages that a consumer gives back: delivered again after a while, or laid among the dead letters."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from embermq.broker.parking import Target, park
from embermq.broker.topics import BrokerTopics
from embermq.errors import NotPermitted
from embermq.format.command import Command
from embermq.format.message_id import encode_message_id
from embermq.format.record import DraftFields, Record
from embermq.model.flags import Permission
from embermq.model.group import GroupConfig
from embermq.model.properties import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC, WAIT, format_properties
from embermq.model.topic import DEAD_LETTER_PREFIX, RETRY_PREFIX
from embermq.store.groups import Groups

FIRST_LEVEL: Final = 3  # the delay of the first retry, when the client does not say
LIMIT_VERSION: Final = 121  # clients from then on say how often a message may be retried
UNIT_FLAG: Final = 2  # of the retry topic of a client that works in units


def retry_limit(request: Command, asked: int | None, group: GroupConfig) -> int:
    """How often a message may be retried: as the client asks, where it is new enough to mean that, else its group."""
    return asked if asked is not None and request.version >= LIMIT_VERSION else group.max_retries


def retrying_group(name: str, groups: Groups, topics: BrokerTopics) -> GroupConfig:
    """The group that a retry topic belongs to, made if it is new and may be. Raises GroupNotFound or IllegalGroup.

    %RETRY%a_b is that of group `a` for what it popped of topic `b`, where there are these, and no group `a_b`.
    """
    text = name.removeprefix(RETRY_PREFIX)
    found, at = groups.find(text), text.find("_")
    while found is None and at >= 0:
        found = groups.find(text[:at]) if topics.find(text[at + 1 :]) is not None else None
        at = text.find("_", at + 1)
    return found or groups.read(text)


class GivenBack(NamedTuple):
    """What becomes of a message that was given back."""

    draft: DraftFields
    origin: str  # the topic that it was in at first
    is_dead: bool


def give_back(
    record: Record,
    group: GroupConfig,
    topics: BrokerTopics,
    *,
    delay_level: int,
    limit: int,
    unit_mode: bool,
    levels: int,
) -> GivenBack:
    """A message as it is stored for its next delivery, or as a dead letter. Raises NotPermitted."""
    retry = topics.ensure(RETRY_PREFIX + group.name, queues=group.retry_queues, sys_flag=UNIT_FLAG if unit_mode else 0)
    if not retry.permission & Permission.WRITE:
        raise NotPermitted(f"topic {retry.name!r} takes no messages; give it write permission")
    properties = record.property_map()
    origin = properties.setdefault(RETRY_TOPIC, record.topic)
    properties[WAIT] = "false"
    if not properties.get(ORIGIN_MESSAGE_ID, "").strip():
        properties[ORIGIN_MESSAGE_ID] = encode_message_id(record.store_host, record.position)
    is_dead = record.reconsume_times >= limit or delay_level < 0
    if is_dead:
        properties[DELAY] = "0"
        target = Target(topics.ensure(DEAD_LETTER_PREFIX + group.name).name, 0, properties)
    else:
        properties[DELAY] = str(delay_level or FIRST_LEVEL + record.reconsume_times)
        queue = random.randrange(max(1, min(group.retry_queues, retry.write_queues)))
        target = park(Target(retry.name, queue, properties), levels=levels)
    draft = (
        target.topic.encode(), target.queue, record.body, format_properties(target.properties), record.flag,
        record.sys_flag, record.born_time, record.born_host, record.reconsume_times + 1, 0,
    )  # fmt: skip
    return GivenBack(draft, origin, is_dead)
