"""Static topics, made and moved by mqadmin: their queues keep their numbers and offsets wherever they are."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Client, Clients, ClientTool, Facts, text
from tests.compat.cluster import TARGET
from tests.compat.scene import Scene
from tests.crash.served import ServerProcess
from tests.free_ports import LOCAL, free_address, free_port

ANYWHERE = "__syslo__global__"  # what clients call the broker of a static queue


def offsets_of(found: list[Facts]) -> dict[int, list[int]]:
    """The offsets of messages, or of results of sends, by queue, in order."""
    offsets = defaultdict(list)
    for each in found:
        offsets[each["queueId"]].append(each["queueOffset"])
    return {queue: sorted(some) for queue, some in offsets.items()}


def test_a_static_topic_of_one_broker(scene: Scene) -> None:
    topic, group = scene.name("static"), scene.group()
    scene.mqadmin("updateStaticTopic", "-t", topic, "-qn", 3, "-b", scene.broker_name)
    scene.wait_for_route(topic)
    assert scene.find_route(topic)["topicQueueMappingByBroker"][scene.broker_name]["totalQueues"] == 3  # type: ignore[index]
    producer = scene.producer()
    sent = producer.send_ok(*({"topic": topic, "body": str(number)} for number in range(9)))
    assert offsets_of(sent) == {queue: [0, 1, 2] for queue in range(3)}
    consumer = scene.push(group, {topic: "*"})
    assert sorted(consumer.bodies(9)) == sorted(map(str, range(9)))
    assert offsets_of(consumer.deliveries(9)) == offsets_of(sent)
    consumer.close()

    scene.mqadmin("updateStaticTopic", "-t", topic, "-qn", 5, "-b", scene.broker_name)
    more = scene.producer()  # knows the new route
    wait_until(lambda: len(scene.find_route(topic)["topicQueueMappingByBroker"][scene.broker_name]["currIdMap"]) == 5)  # type: ignore[index]
    sent = more.send_ok(*({"topic": topic, "body": f"more {number}"} for number in range(10)))
    assert offsets_of(sent) == {0: [3, 4], 1: [3, 4], 2: [3, 4], 3: [0, 1], 4: [0, 1]}
    again = scene.push(group, {topic: "*"})
    assert sorted(again.bodies(10)) == sorted(f"more {number}" for number in range(10))


class TwoBrokers:
    """A name server and two brokers of EmberMQ."""

    def __init__(self, folder: Path) -> None:
        self.namesrv = free_address()
        (folder / "names").mkdir()
        self._servers = [ServerProcess(folder / "names", "namesrv", "--listen", self.namesrv)]
        self.addresses = {}
        for name in ("broker-a", "broker-b"):
            home = folder / name
            home.mkdir()
            (home / "broker.conf").write_text(f"brokerName={name}\nbrokerClusterName=DefaultCluster\n")
            self.addresses[name] = f"{LOCAL}:{free_port()}"
            options = ("-n", self.namesrv, "-c", str(home / "broker.conf"), "--listen", self.addresses[name])
            self._servers.append(ServerProcess(home, "broker", *options, "--data", str(home / "data")))

    def __enter__(self) -> TwoBrokers:
        for server in self._servers:
            server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.__exit__()


def run_mqadmin(clients: Clients, command: str, *options: object) -> str:
    arguments = [command, "-n", clients.namesrv, *map(str, options)]
    printed: Facts = clients.tool.ask("mqadmin", args=arguments, wait_s=60)
    assert "Exception" not in printed["err"] + printed["out"], printed
    return str(printed["out"])


def leaders(admin: Client, topic: str) -> dict[str, list[int]]:
    """The static queues that each broker leads, as clients are told."""
    told = admin.call("examineTopicRouteInfo", topic)["topicQueueMappingByBroker"]
    return {broker: sorted(map(int, each["currIdMap"])) for broker, each in told.items() if each["currIdMap"]}


@pytest.mark.slow  # unit tests move queues between two brokers of one process
@pytest.mark.skipif(TARGET != "ember", reason="two brokers of EmberMQ")
def test_queues_that_move_to_another_broker_keep_their_messages_and_groups(
    client_tool: ClientTool, tmp_path: Path
) -> None:
    topic = "moving"
    with TwoBrokers(tmp_path) as two, Clients(client_tool, two.namesrv) as clients:
        admin = clients.admin()
        wait_until(lambda: len(admin.call("examineBrokerClusterInfo")["brokerAddrTable"]) == 2, seconds=30)
        run_mqadmin(clients, "updateStaticTopic", "-t", topic, "-qn", 2, "-b", "broker-a")
        wait_until(lambda: leaders(admin, topic) == {"broker-a": [0, 1]}, show=lambda: leaders(admin, topic))
        first = clients.producer("first").send_ok(*({"topic": topic, "body": f"a {n}"} for n in range(8)))
        assert offsets_of(first) == {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]}
        done = clients.push("done", {topic: "*"})
        assert len(done.bodies(8)) == 8
        done.close()

        run_mqadmin(clients, "remappingStaticTopic", "-t", topic, "-b", "broker-b")
        wait_until(lambda: leaders(admin, topic) == {"broker-b": [0, 1]}, show=lambda: leaders(admin, topic))
        moved = clients.producer("second").send_ok(*({"topic": topic, "body": f"b {n}"} for n in range(6)))
        offsets = offsets_of(moved)
        assert all(each[0] >= 4 and each[2] - each[0] == 2 for each in offsets.values())
        fresh = clients.push("fresh", {topic: "*"})
        assert sorted(map(text, fresh.deliveries(14))) == sorted(
            [f"a {n}" for n in range(8)] + [f"b {n}" for n in range(6)]
        )
        assert offsets_of(fresh.deliveries(14)) == {queue: [0, 1, 2, 3, *offsets[queue]] for queue in (0, 1)}
        again = clients.push("done", {topic: "*"})
        assert sorted(again.bodies(6)) == sorted(f"b {n}" for n in range(6))
        assert {each["brokerName"] for each in fresh.deliveries(14)} <= {ANYWHERE, ""}
