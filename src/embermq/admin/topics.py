"""Topics: which there are, how they are set, what their queues hold; making, changing and deleting them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from embermq.admin.cluster import BrokerAddress, Cluster
from embermq.client.answers import check_answer
from embermq.errors import NoRoute, NotPermitted, TopicNotFound
from embermq.format.cluster_body import decode_topic_list
from embermq.format.json_fields import parse_fields
from embermq.format.topic_body import QueueStats, decode_topic, decode_topic_stats
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    TEMPLATE_TOPIC,
    TopicConfig,
    check_topic,
    is_system_topic,
)


class TopicLine(NamedTuple):
    """A topic in a list."""

    topic: str
    kind: str  # normal, retry, dead letters, system


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic: its settings at every broker, its queues, and the groups that read it."""

    topic: str
    configs: dict[str, TopicConfig]
    queues: dict[BrokerQueue, QueueStats]
    groups: tuple[str, ...]

    @property
    def messages(self) -> int:
        """Messages that its queues hold, unless some of them expired behind their queue's back."""
        return sum(stats.next_offset - stats.first_offset for stats in self.queues.values())


def kind_of(topic: str, system: frozenset[str] = frozenset()) -> str:
    """What a topic is for."""
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    if topic.startswith(DEAD_LETTER_PREFIX):
        return "dead letters"
    return "system" if is_system_topic(topic) or topic in system else "normal"


async def list_topics(cluster: Cluster) -> list[TopicLine]:
    """Every topic that the name servers know, by name."""
    answer = await cluster.ask_name_server(RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER)
    topics = decode_topic_list(check_answer(answer, "list of topics").data)
    system = await _system_topics(cluster)
    return [TopicLine(topic, kind_of(topic, system)) for topic in sorted(set(topics))]


async def _system_topics(cluster: Cluster) -> frozenset[str]:
    """Topics that brokers made for themselves, such as those named after them."""
    try:
        brokers = await cluster.brokers()
    except NoRoute:
        return frozenset()
    found: set[str] = set()
    for broker in brokers:
        found |= {broker.name, broker.cluster}
        answer = await cluster.ask(broker.address, RequestCode.GET_SYSTEM_TOPICS_FROM_BROKER)
        if answer.code == ResponseCode.SUCCESS:
            found.update(decode_topic_list(answer.data))
    return frozenset(found)


async def show_topic(cluster: Cluster, topic: str) -> TopicView:
    """Raises TopicNotFound."""
    configs: dict[str, TopicConfig] = {}
    queues: dict[BrokerQueue, QueueStats] = {}
    groups: set[str] = set()
    for broker, address in sorted((await cluster.masters_of(topic)).items()):
        configs[broker] = await _read_config(cluster, address, topic)
        answer = await cluster.ask(address, RequestCode.GET_TOPIC_STATS, {"topic": topic})
        queues |= decode_topic_stats(check_answer(answer, f"queues of {topic!r}", topic=topic).data).queues
        answer = await cluster.ask(address, RequestCode.QUERY_TOPIC_CONSUMERS, {"topic": topic})
        listed = parse_fields(check_answer(answer, f"groups of {topic!r}", topic=topic).data, "groups")
        groups |= {group for group in listed.find_list("groupList") or [] if isinstance(group, str)}
    groups.discard(topic)  # RocketMQ 5.3.3 lists the topic itself
    return TopicView(topic, configs, dict(sorted(queues.items())), tuple(sorted(groups)))


async def _read_config(cluster: Cluster, address: str, topic: str) -> TopicConfig:
    answer = await cluster.ask(address, RequestCode.GET_TOPIC_CONFIG, {"topic": topic, "lo": "true"})
    return decode_topic(check_answer(answer, f"settings of {topic!r}", topic=topic).data)


async def create_topic(cluster: Cluster, config: TopicConfig) -> list[BrokerAddress]:
    """Make a topic at every broker; where it went. Raises NotPermitted if there is one already."""
    check_topic(config.name)
    if await cluster.has_topic(config.name):
        raise NotPermitted(f"topic {config.name!r} exists already; change it with `ember topic update {config.name}`")
    return await _save(cluster, config, await cluster.brokers())


async def update_topic(
    cluster: Cluster,
    topic: str,
    *,
    read_queues: int | None = None,
    write_queues: int | None = None,
    permission: int | None = None,
    dry_run: bool = False,
) -> list[tuple[BrokerAddress, TopicConfig, TopicConfig]]:
    """Change settings where the topic is; of each broker, what was and what is. Raises TopicNotFound."""
    masters = await cluster.masters_of(topic)
    changes = []
    for broker in await cluster.brokers():
        if broker.name not in masters:
            continue
        old = await _read_config(cluster, broker.address, topic)
        new = replace(
            old,
            read_queues=old.read_queues if read_queues is None else read_queues,
            write_queues=old.write_queues if write_queues is None else write_queues,
            permission=old.permission if permission is None else permission,
        )
        changes.append((broker, old, new))
        if not dry_run:
            await _save(cluster, new, [broker], with_attributes=False)
    return changes


async def _save(
    cluster: Cluster, config: TopicConfig, brokers: list[BrokerAddress], *, with_attributes: bool = True
) -> list[BrokerAddress]:
    # Attributes that are not named stay as they are.
    attributes = ",".join(f"+{name}={value}" for name, value in config.attributes.items()) if with_attributes else ""
    fields = {
        "topic": config.name,
        "defaultTopic": TEMPLATE_TOPIC,
        "readQueueNums": str(config.read_queues),
        "writeQueueNums": str(config.write_queues),
        "perm": str(int(config.permission)),
        "topicFilterType": config.filter_type,
        "topicSysFlag": str(config.sys_flag),
        "order": "true" if config.order else "false",
        "attributes": attributes,
        "force": "false",
    }
    for broker in brokers:
        answer = await cluster.ask(broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        check_answer(answer, f"settings of {config.name!r} at {broker.name}", topic=config.name)
    cluster.routes.forget(config.name)
    return brokers


async def delete_topic(cluster: Cluster, topic: str) -> None:
    """Delete a topic from all brokers and name servers. Raises TopicNotFound."""
    route = await cluster.routes.find(topic, refresh=True)
    if route is None:
        raise TopicNotFound(topic)
    await remove_topic(cluster, topic)


async def remove_topic(cluster: Cluster, topic: str) -> None:
    """The same, whether it exists or not."""
    for broker in await cluster.brokers():
        answer = await cluster.ask(broker.address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        if answer.code != ResponseCode.TOPIC_NOT_EXIST:
            check_answer(answer, f"deletion of {topic!r} at {broker.name}", topic=topic)
    await cluster.tell_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESERVER, {"topic": topic})
    cluster.routes.forget(topic)
