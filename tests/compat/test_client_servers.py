"""RocketMQ's Java clients, and EmberMQ as operators set it up: TLS required, an address set, servers apart.

And what RocketMQ's clients do to each other: members of a group that want different things.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Client, Clients, ClientTool
from tests.compat.cluster import Cluster, ember_process
from tests.compat.scene import Scene
from tests.compat.sending import sending
from tests.compat.store_tool import HERE
from tests.crash.served import ServerProcess
from tests.free_ports import LOCAL, free_address, free_port

ELSEWHERE = "127.0.0.2"  # this machine, too, by another address
COLLIDING = ("AaAa", "BBBB", "AaBB")  # texts with one hash: String.hashCode gives 2031744 for each


def shown_conflicts(cluster: Cluster, group: str) -> list[str]:
    """What `ember group show` says that members of a group do not agree on."""
    command = [sys.executable, "-m", "embermq", "group", "show", group, "--json", "--namesrv", cluster.namesrv]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    found: list[str] = json.loads(done.stdout)["conflicts"]
    return found


def test_where_tls_is_required_only_encrypted_clients_get_through(client_tool: ClientTool, tmp_path: Path) -> None:
    (tmp_path / "ember.toml").write_text('[tls]\nmode = "enforcing"\n')
    with (
        ember_process(tmp_path, "-c", str(tmp_path / "ember.toml")) as (cluster, _),
        Clients(client_tool, cluster.namesrv) as clients,
    ):
        clients.producer("plain").refusal({"topic": "letters", "body": "x"})
        producer = clients.producer("encrypted", useTLS=True)
        producer.send_ok({"topic": "letters", "body": "sealed"})
        assert clients.push("readers", {"letters": "*"}, useTLS=True).bodies(1) == ["sealed"]
        said = [json.loads(line) for line in (tmp_path / "ember.log").read_text().splitlines()]
        reasons = {event.get("reason") for event in said if event["event"] == "connection refused"}
        assert reasons == {"it is not encrypted, and TLS is required"}


def test_clients_use_the_address_that_was_set(client_tool: ClientTool, tmp_path: Path) -> None:
    """As behind a container's own network: what the broker listens on is not where clients reach it."""
    (tmp_path / "ember.toml").write_text(f'[server]\nadvertise = "{ELSEWHERE}"\n')
    port = free_port()
    options = ("-c", str(tmp_path / "ember.toml"), "--insecure-public")
    with (
        ember_process(tmp_path, *options, broker=f"0.0.0.0:{port}") as (cluster, _),
        Clients(client_tool, cluster.namesrv) as clients,
    ):
        (result,) = clients.producer().send_ok({"topic": "letters", "body": "x"})
        assert bytes.fromhex(result["offsetMsgId"][:8]) == bytes(map(int, ELSEWHERE.split(".")))
        found = clients.admin().call("viewMessage", "letters", result["offsetMsgId"])
        assert found["storeHost"] == f"{ELSEWHERE}:{port}"
        assert clients.push("readers", {"letters": "*"}).bodies(1) == ["x"]


def test_members_that_want_different_things_are_reported(scene: Scene) -> None:
    topic, group = scene.topic(2), scene.group()
    first, second = scene.push(group, {topic: "A"}), scene.push(group, {topic: "B"})
    if not scene.cluster.is_ember:
        pytest.skip("RocketMQ's broker says nothing of it")
    wait_until(lambda: shown_conflicts(scene.cluster, group), seconds=20)
    told = " ".join(line for line in shown_conflicts(scene.cluster, group) if topic in line)
    assert first.client_id in told and second.client_id in told
    second.close()
    wait_until(lambda: not shown_conflicts(scene.cluster, group), seconds=20)


def test_tags_with_one_hash_are_told_apart(scene: Scene) -> None:
    topic, producer = scene.topic(1), scene.producer()
    consumers = {tag: scene.push(scene.group(), {topic: tag}) for tag in COLLIDING[:2]}
    producer.send_ok(*(scene.message(topic, f"{tag} {number}", tags=tag) for number in range(5) for tag in COLLIDING))
    for tag, consumer in consumers.items():
        assert sorted(consumer.bodies(5)) == [f"{tag} {number}" for number in range(5)]
    producer.send_ok(scene.message(topic, "last", tags=COLLIDING[0]))
    assert consumers[COLLIDING[0]].bodies(6)[-1] == "last"
    assert len(consumers[COLLIDING[1]].deliveries()) == 5


class Apart:
    """A name server and a broker, each a process of its own, which are killed and started again where they were."""

    def __init__(self, folder: Path) -> None:
        names, broker = free_address(), f"{LOCAL}:{free_port()}"
        (folder / "names").mkdir()
        self.name_server = ServerProcess(folder / "names", "namesrv", "--listen", names)
        data = ("--data", str(folder / "data"), "--durability", "sync")
        self.broker = ServerProcess(folder, "broker", "-n", names, "--listen", broker, *data)
        self.cluster = Cluster(names, broker, is_ember=True)


def test_name_server_and_broker_are_killed_in_turn_under_load(client_tool: ClientTool, tmp_path: Path) -> None:
    apart = Apart(tmp_path)
    with apart.name_server, apart.broker, Clients(client_tool, apart.cluster.namesrv) as outer:
        admin = outer.admin(pollNameServerInterval=1_000)
        wait_until(lambda: knows_broker(admin), seconds=30)
        with Scene(client_tool, apart.cluster, admin) as scene:
            topic, group = scene.topic(4), scene.group()
            consumer = scene.push(group, {topic: "*"}, persistConsumerOffsetInterval=200)
            with sending(scene, scene.producer(pollNameServerInterval=1_000), topic) as accepted:
                for server in (apart.name_server, apart.broker, apart.name_server, apart.broker):
                    wait_for_more(accepted, 30)
                    server.kill()
                    server.start()
                wait_for_more(accepted, 30)
            wait_until(lambda: set(accepted) <= set(consumer.bodies()), seconds=60)
            late = scene.topic(2)  # the new name server learns of it, and a new client finds it
            scene.producer("late").send_ok(scene.message(late, "late"))
            assert scene.push(scene.group(), {late: "*"}).bodies(1) == ["late"]
        assert (apart.broker.stop(), apart.name_server.stop()) == (0, 0)


def wait_for_more(accepted: list[str], count: int) -> None:
    before = len(accepted)
    wait_until(lambda: len(accepted) >= before + count, seconds=40)


def knows_broker(admin: Client) -> bool:
    return bool(admin.call("examineBrokerClusterInfo")["brokerAddrTable"])
