"""Our registration at RocketMQ's name server, and RocketMQ's broker at ours."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from embermq.broker.settings import BrokerSettings
from embermq.errors import ConnectionLost
from embermq.format.cluster_body import decode_clusters, decode_topic_list
from embermq.model.codes import RequestCode
from embermq.model.flags import Permission
from embermq.model.message import Host
from embermq.model.topic import TopicConfig
from embermq.nameserver.nameserver import NameServer
from embermq.server.registration import RemoteRegistration
from tests.compat.store_tool import JVM
from tests.free_ports import LOCAL, free_port
from tests.unit.server.name_servers import Table, ask, find_route, serving, wait_for

START_S = 60.0
STRICT = {"acceptStandardJsonOnly": "true"}


@dataclass
class RealServers:
    """RocketMQ's name server and broker; the broker also registers at `ours`, where nothing listens yet."""

    name_server: Host
    broker: Host
    ours: Host
    process: subprocess.Popen[bytes]


@pytest.fixture
def real(java_classes: str, tmp_path: Path) -> Iterator[RealServers]:
    name_server, broker, ours = (Host(LOCAL, free_port()) for _ in range(3))
    settings = {
        **{"brokerClusterName": "DefaultCluster", "brokerName": "broker-java", "brokerId": 0, "brokerIP1": LOCAL},
        **{"listenPort": broker.port, "haListenPort": free_port(), "namesrvAddr": f"{name_server};{ours}"},
        **{"registerNameServerPeriod": 10_000, "storePathRootDir": tmp_path / "store", "diskMaxUsedSpaceRatio": 95},
        **{"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 2_000, "timerWheelEnable": "false"},
        **{"maxHashSlotNum": 50, "maxIndexNum": 200},
    }
    (tmp_path / "namesrv.conf").write_text(f"listenPort={name_server.port}\n")
    (tmp_path / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = ["java", *JVM, f"-Duser.home={tmp_path}", "-cp", java_classes, "embermq.compat.client.RealServers"]
    command += [str(tmp_path / "namesrv.conf"), str(tmp_path / "broker.conf")]
    environment = {**os.environ, "ROCKETMQ_HOME": str(tmp_path)}
    with (tmp_path / "java.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
    try:
        yield RealServers(name_server, broker, ours, process)
    finally:
        process.kill()
        process.wait()


async def wait_for_broker(host: Host, name: str) -> None:
    async def is_there() -> bool:
        try:
            answer = await ask(host, RequestCode.GET_BROKER_CLUSTER_INFO)
        except ConnectionLost:  # nothing listens yet
            return False
        return name in decode_clusters(answer.data).brokers

    await wait_for(is_there, seconds=START_S)


def test_our_broker_registers_at_rocketmqs_name_server(real: RealServers) -> None:
    async def run() -> None:
        host = real.name_server
        await wait_for_broker(host, "broker-java")
        table = Table("orders")
        table.settings = BrokerSettings(name="broker-ember")
        registration = RemoteRegistration([host], table.broker(address=None))
        await registration.start()

        route = await find_route(host, "orders")
        assert route is not None
        assert (route.brokers[0].master, route.queues[0].permission) == ("127.0.0.1:10911", 6)

        made = TopicConfig("made", 3, 5)
        table.save(made)
        registration.topics_changed([made])
        await wait_for(lambda: find_route(host, "made"))
        route = await find_route(host, "made")
        assert route is not None
        assert (route.queues[0].read_queues, route.queues[0].write_queues) == (3, 5)

        table.settings = dataclasses.replace(table.settings, permission=int(Permission.READ))
        registration.settings_changed()

        async def is_read_only() -> bool:
            shown = [await find_route(host, topic) for topic in ("orders", "made")]
            return all(each is not None and each.queues[0].permission == Permission.READ for each in shown)

        await wait_for(is_read_only)
        await registration.stop()

        async def is_gone() -> bool:
            return await find_route(host, "orders") is None

        await wait_for(is_gone)  # it says yes before it does

    asyncio.run(run())


def questions(broker: str, topic: str) -> list[tuple[int, dict[str, str], int]]:
    """Requests to which both have the same answer: code, fields, version of the asker."""
    here = {"clusterName": "DefaultCluster", "brokerName": broker}
    entry = {"namespace": "n", "key": "k", "value": "v"}
    return [
        *((105, {"topic": topic, **more}, version) for more in ({}, STRICT) for version in (317, 400, 401, 479)),
        *((code, {**here, "topic": topic}, 479) for code in (106, 901, 311, 312, 313, 205, 105, 327, 105, 17)),
        *((code, {"cluster": "none"}, 479) for code in (224, 12345)),
        *((code, entry, 479) for code in (101, 219, 100, 101, 219, 102, 101, 102, 219)),
        *((code, {"topic": topic}, 479) for code in (216, 105, 216)),
    ]


def test_rocketmqs_broker_registers_at_our_name_server(real: RealServers) -> None:
    async def run() -> None:
        name_server = NameServer()
        async with serving(name_server, port=real.ours.port) as ours:
            await wait_for_broker(ours, "broker-java")
            await wait_for_broker(real.name_server, "broker-java")
            listing = await ask(real.name_server, RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER)
            topics = decode_topic_list(listing.data)
            assert len(topics) > 10
            assert name_server.routes.topics() == sorted(topics)
            for topic in topics:
                answers = [await ask(host, 105, {"topic": topic}) for host in (real.name_server, ours)]
                assert answers[0].data == answers[1].data
            for code, fields, version in questions("broker-java", topics[0]):
                theirs, mine = [await ask(host, code, fields, version=version) for host in (real.name_server, ours)]
                assert (theirs.code, dict(theirs.fields), theirs.data) == (mine.code, dict(mine.fields), mine.data)
            real.process.kill()

            async def is_gone() -> bool:
                return await find_route(ours, "TBW102") is None

            await wait_for(is_gone)

    asyncio.run(run())
