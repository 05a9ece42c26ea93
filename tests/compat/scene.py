"""What a test with RocketMQ's clients needs in one hand: the cluster, an admin client, fresh names, and clients.

A `Scene` lives as long as one test, or one module whose tests look at the same events, and closes its clients.
The servers live on, so every topic and group is a new one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.builders import wait_until
from tests.compat.client_tool import Client, Clients, ClientTool, Facts, PushConsumer, Refused
from tests.compat.cluster import Cluster

NO_TOPIC = 17
_names = itertools.count(1)


class Scene(Clients):
    """Clients of one cluster, with an admin client that outlives the scene."""

    def __init__(self, tool: ClientTool, cluster: Cluster, admin: Client) -> None:
        super().__init__(tool, cluster.namesrv)
        self.cluster = cluster
        self.broker = cluster.broker
        self._admin = admin
        self._reader: Client | None = None
        found = admin.call("examineBrokerClusterInfo")
        ((self.cluster_name, (self.broker_name,)),) = found["clusterAddrTable"].items()

    def __enter__(self) -> Scene:
        return self

    def push(self, group: str, subscribe: Mapping[str, str | tuple[str, str]], **settings: Any) -> PushConsumer:
        if not self.cluster.is_ember:
            # RocketMQ's broker refuses pulls (25) until a second heartbeat, which its client may leave out for 30 s.
            settings = {"heartbeatBrokerInterval": 1_000} | settings
        return super().push(group, subscribe, **settings)

    def ask_admin(self, method: str, *arguments: Any) -> Any:
        """A method of DefaultMQAdminExt."""
        return self._admin.call(method, *arguments)

    def mqadmin(self, command: str, *options: object) -> str:
        """What a command of mqadmin prints; it must not end in an exception."""
        printed = self.run_mqadmin(command, *options)
        assert "Exception" not in printed["err"], printed
        out: str = printed["out"]
        return out

    def run_mqadmin(self, command: str, *options: object) -> Facts:
        """Both outputs of a command, whatever came of it."""
        arguments = [command, "-n", self.namesrv, *map(str, options)]
        printed: Facts = self.tool.ask("mqadmin", args=arguments, wait_s=60)
        return printed

    def raw(
        self, code: int, *, to: str | None = None, body: object = None, oneway: bool = False, **fields: object
    ) -> Facts:
        """One frame to the broker, or `to` another address, and its answer. A name may end in _ to be no keyword."""
        text = None if body is None else body if isinstance(body, str) else json.dumps(body)
        plain = {name.removesuffix("_"): value for name, value in fields.items()}
        answer: Facts = self.tool.ask(
            "raw", address=to or self.broker, code=code, fields=plain, body=text, oneway=oneway, timeoutMs=10_000
        )
        return answer

    # -- names, topics and groups

    def name(self, stem: str) -> str:
        """A name that nothing has yet."""
        return f"{stem}-{next(_names)}-{time.time_ns() // 1_000_000 % 1_000_000}"

    def group(self) -> str:
        return self.name("group")

    def topic(
        self, queues: int = 4, *, name: str | None = None, write: int | None = None, perm: int = 6, order: bool = False
    ) -> str:
        """A new topic, which the name server knows."""
        topic = name or self.name("topic")
        self.save_topic(topic, read=queues, write=queues if write is None else write, perm=perm, order=order)
        self.wait_for_route(topic)
        return topic

    def save_topic(self, topic: str, *, read: int, write: int, perm: int = 6, order: bool = False) -> None:
        config = {"topicName": topic, "readQueueNums": read, "writeQueueNums": write, "perm": perm, "order": order}
        self.ask_admin("createAndUpdateTopicConfig", self.broker, config)

    def save_group(self, group: str, **config: Any) -> None:
        self.ask_admin("createAndUpdateSubscriptionGroupConfig", self.broker, {"groupName": group, **config})

    def find_route(self, topic: str) -> Facts | None:
        try:
            route: Facts = self.ask_admin("examineTopicRouteInfo", topic)
        except Refused as refused:
            assert refused.code == NO_TOPIC, refused
            return None
        return route

    def wait_for_route(self, topic: str) -> None:
        wait_until(lambda: self.find_route(topic) is not None, seconds=15)

    def retry_ready(self, group: str, topic: str, **settings: Any) -> str:
        """The group, whose retry topic exists: a consumer that starts now will consume it from the beginning."""
        once = self.push(group, {topic: "*"}, **settings)
        self.wait_for_route(f"%RETRY%{group}")
        once.close()
        return group

    # -- messages, queues and offsets

    def message(self, topic: str, body: str = "hello", **fields: Any) -> Facts:
        """For Producer.send; fields are those of java/…/Sending.java."""
        return {"topic": topic, "body": body, "broker": self.broker_name, **fields}

    def messages(self, topic: str, bodies: Iterable[object], **fields: Any) -> list[Facts]:
        return [self.message(topic, str(body), **fields) for body in bodies]

    def read(self, topic: str, queue: int, *, tags: str = "*") -> list[Facts]:
        """All messages of a queue, pulled from its first offset to its last."""
        if self._reader is None:
            self._reader = self.pull("readers")
        messages: list[Facts] = []
        place = self.queue(topic, queue)
        offset, end = self._bounds(self._reader, place)
        while offset < end:
            found = self._reader.call("pull", place, tags, offset, 32)
            assert found["nextOffset"] > offset, found
            messages += found["messages"]
            offset = found["nextOffset"]
        return messages

    def _bounds(self, reader: Client, place: Facts) -> tuple[int, int]:
        """The first and the next offset of a queue; a client that has just begun knows no broker yet."""
        wait_until(lambda: self._knows_broker(reader, place))
        return reader.call("minOffset", place), reader.call("maxOffset", place)

    def _knows_broker(self, reader: Client, place: Facts) -> bool:
        try:
            reader.call("minOffset", place)
        except Refused as refused:
            if "not exist" not in refused.text:
                raise
            return False
        return True

    def read_all(self, topic: str, queues: int) -> list[Facts]:
        return [message for queue in range(queues) for message in self.read(topic, queue)]

    def dead_letters(self, group: str) -> list[Facts]:
        """Those of a group, as soon as there are any."""
        topic = f"%DLQ%{group}"
        self.wait_for_route(topic)
        wait_until(lambda: self.read(topic, 0))  # the topic is there a moment before its message
        return self.read(topic, 0)

    def queue(self, topic: str, number: int) -> Facts:
        return {"topic": topic, "brokerName": self.broker_name, "queueId": number}

    def consume_stats(self, group: str, topic: str) -> dict[int, Facts]:
        """Offsets of the group in each queue of the topic."""
        table = self.ask_admin("examineConsumeStats", group, topic)["offsetTable"]
        return {int(key.rsplit("/", 1)[1]): facts for key, facts in table.items() if key.startswith(f"{topic}/")}

    def topic_stats(self, topic: str) -> dict[int, Facts]:
        table = self.ask_admin("examineTopicStats", topic)["offsetTable"]
        return {int(key.rsplit("/", 1)[1]): facts for key, facts in table.items()}

    def members(self, group: str) -> set[str]:
        """The ids of the group's clients, as the broker knows them."""
        try:
            found = self.ask_admin("examineConsumerConnectionInfo", group)
        except Refused as refused:
            assert refused.code in {206, NO_TOPIC}, refused
            return set()
        return {connection["clientId"] for connection in found["connectionSet"]}


@contextlib.contextmanager
def scene_of(tool: ClientTool, cluster: Cluster) -> Iterator[Scene]:
    """A scene of servers that only some tests use, as soon as the broker has registered."""
    with Clients(tool, cluster.namesrv) as clients, Scene(tool, cluster, ready_admin(clients)) as scene:
        yield scene


def ready_admin(clients: Clients) -> Client:
    """An admin client, of a cluster whose broker the name server knows: that listens a moment before."""
    admin = clients.admin()
    wait_until(lambda: admin.call("examineBrokerClusterInfo")["brokerAddrTable"], seconds=60)
    return admin
