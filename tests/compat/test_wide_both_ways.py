"""Light queues and batch queues, used by RocketMQ's client: RocketMQ and EmberMQ serve the same directory in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from embermq.format.tables import decode_offsets
from embermq.store.offsets import LIGHT_OFFSETS_FILE
from tests.builders import wait_until
from tests.compat.client_tool import Client, Clients, ClientTool, text, texts
from tests.compat.cluster import Cluster
from tests.compat.one_directory import EMBER, ROCKETMQ, OneDirectory
from tests.compat.scene import Scene

SETTINGS = {"enableLmq": "true", "enableMultiDispatch": "true", "mapperFileSizeBatchConsumeQueue": 920}
PARENT, BATCHES = "devices", "batches"
UPDATE_OFFSET, SUCCESS = 15, 0
SIZES = (4, 1, 7)  # of client batches


@contextlib.contextmanager
def scene_of(tool: ClientTool, cluster: Cluster) -> Iterator[Scene]:
    with Clients(tool, cluster.namesrv) as clients:
        admin = clients.admin()
        wait_until(lambda: admin.call("examineBrokerClusterInfo")["brokerAddrTable"], seconds=60)
        with Scene(tool, cluster, admin) as scene:
            yield scene


def make_topics(scene: Scene) -> None:
    scene.topic(2, name=PARENT)
    scene.mqadmin("updateTopic", "-b", scene.broker, "-t", BATCHES, "-r", 1, "-w", 1, "-a", "+queue.type=BatchCQ")
    scene.wait_for_route(BATCHES)


def reader_of(scene: Scene, group: str) -> Client:
    """A pull consumer that knows the broker: a light queue has no route."""
    reader = scene.pull(group)
    assert reader.call("minOffset", scene.queue(PARENT, 0)) == 0
    return reader


class LightQueues:
    """Messages for light queues, as those who serve the directory one after the other get and give them."""

    def __init__(self) -> None:
        self._bodies: dict[str, list[str]] = {}
        self.committed = 0

    def use(self, scene: Scene, stage: int) -> None:
        device, reader = "%LMQ%device-1", reader_of(scene, "%LMQ%reader")
        place = scene.queue(device, 0)
        if stage:
            assert reader.call("fetchConsumeOffset", place, True) == self.committed
        self._send(scene, stage)
        for name, bodies in self._bodies.items():
            queue = scene.queue(name, 0)
            assert (reader.call("minOffset", queue), reader.call("maxOffset", queue)) == (0, len(bodies))
            found = reader.call("pull", queue, "*", 0, 32)
            assert (found["status"], found["nextOffset"], texts(found["messages"])) == ("FOUND", len(bodies), bodies)
        end = len(self._bodies[device])
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(reader.call, "pullBlockIfNotFound", place, "*", end, 32)
            self._send(scene, stage + 100)
            assert text(waiting.result(20)["messages"][0]) == self._bodies[device][end]
        self.committed = end + 1
        fields = {"consumerGroup": "%LMQ%reader", "topic": device, "queueId": 0, "commitOffset": self.committed}
        assert scene.raw(UPDATE_OFFSET, **fields)["code"] == SUCCESS
        assert reader.call("fetchConsumeOffset", place, True) == self.committed

    def _send(self, scene: Scene, stage: int) -> None:
        for number, names in enumerate((["device-1"], ["device-1", "größe"], ["device-2", "device-1"], ["größe"])):
            queues = [f"%LMQ%{name}" for name in names]
            body = f"{stage} {number}"
            reserved = {"INNER_MULTI_DISPATCH": ",".join(queues)}
            scene.producer().send_ok(scene.message(PARENT, body, queue=number % 2, reserved=reserved))
            for name in queues:
                self._bodies.setdefault(name, []).append(body)


class BatchQueues:
    """Batches of clients, each kept as one record."""

    def __init__(self) -> None:
        self._bodies: list[str] = []

    def use(self, scene: Scene, stage: int) -> None:
        for size in SIZES:
            bodies = [f"{stage} {size} {number}" for number in range(size)]
            (result,) = scene.producer().send_ok(*scene.messages(BATCHES, bodies), mode="batch")
            assert result["queueOffset"] == len(self._bodies)
            self._bodies += bodies
        collected = [f"{stage} alone {number}" for number in range(12)]
        producer = scene.producer(autoBatch=True)
        with ThreadPoolExecutor(len(collected)) as pool:
            list(pool.map(lambda body: producer.send_ok(scene.message(BATCHES, body)), collected))
        assert scene.ask_admin("maxOffset", scene.queue(BATCHES, 0)) == len(self._bodies) + len(collected)
        found = scene.read(BATCHES, 0)
        assert [message["queueOffset"] for message in found] == list(range(len(found)))
        assert texts(found[: len(self._bodies)]) == self._bodies
        assert sorted(texts(found[len(self._bodies) :])) == sorted(collected)
        self._bodies = texts(found)
        self._check_inside(scene)
        consumer = scene.push(scene.group(), {BATCHES: "*"})
        assert sorted(consumer.bodies(len(self._bodies))) == sorted(self._bodies)

    def _check_inside(self, scene: Scene) -> None:
        """An offset within a batch gives the whole of it."""
        reader = scene.pull(scene.group())
        assert reader.call("minOffset", scene.queue(BATCHES, 0)) == 0
        found = reader.call("pull", scene.queue(BATCHES, 0), "*", 2, 1)
        assert (found["status"], found["nextOffset"], texts(found["messages"])) == ("FOUND", 4, self._bodies[:4])


@pytest.mark.parametrize(
    "stages",
    [
        (EMBER,),
        pytest.param((ROCKETMQ, EMBER), marks=pytest.mark.slow),
        pytest.param((EMBER, ROCKETMQ, EMBER), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
def test_light_queues_and_batch_queues_go_on_with_whoever_comes_next(
    client_tool: ClientTool, java_classes: str, tmp_path: Path, stages: tuple[str, ...]
) -> None:
    directory = OneDirectory(tmp_path, java_classes, SETTINGS)
    light, batches = LightQueues(), BatchQueues()
    for stage, who in enumerate(stages):
        with directory.served_by(who) as cluster, scene_of(client_tool, cluster) as scene:
            if stage == 0:
                make_topics(scene)
            light.use(scene, stage)
            batches.use(scene, stage)
    table = decode_offsets((directory.store / "config" / LIGHT_OFFSETS_FILE).read_bytes())
    assert table.light_offsets == {("%LMQ%device-1", "%LMQ%reader"): light.committed}
    directory.check()


@pytest.mark.slow
@pytest.mark.parametrize("stages", [(ROCKETMQ, EMBER, ROCKETMQ), (EMBER, ROCKETMQ, EMBER)], ids="-".join)
def test_light_queues_in_a_rocksdb_go_on_with_whoever_comes_next(
    client_tool: ClientTool, java_classes: str, tmp_path: Path, stages: tuple[str, ...]
) -> None:
    pytest.importorskip("rocksdict")
    directory = OneDirectory(tmp_path, java_classes, {**SETTINGS, "storeType": "defaultRocksDB"})
    light = LightQueues()
    for stage, who in enumerate(stages):
        with directory.served_by(who) as cluster, scene_of(client_tool, cluster) as scene:
            if stage == 0:
                scene.topic(2, name=PARENT)
            light.use(scene, stage)
