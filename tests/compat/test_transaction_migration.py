"""A store directory changes hands between RocketMQ and EmberMQ while transactions are open; the next one ends them."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import ClientTool, texts
from tests.compat.one_directory import EMBER, ROCKETMQ, OneDirectory
from tests.compat.scene import Scene, scene_of

TOPIC, PRODUCERS, QUEUES = "orders", "transacts", 4
# RocketMQ marks what is done up to 3 s later, and must not ask before.
SOON = {"transactionTimeOut": 5_000, "transactionCheckInterval": 2_000}
OPEN = {"commits": "uc", "rolls back": "ur", "comes late": "uuc"}
ENDED = {"committed": "c", "rolled back": "r"}
SECONDS = 60


class Story:
    """What was sent in transactions, and what of it must be there, once each."""

    def __init__(self) -> None:
        self.expected: Counter[str] = Counter()
        self.asked = 0

    def leave(self, scene: Scene, stage: int) -> None:
        """End some transactions, and leave others open."""
        producer = scene.transaction_producer(PRODUCERS)
        fates = {**OPEN, **ENDED}
        messages = [
            scene.message(TOPIC, f"{name} {stage}", properties={"fate": fate}, flag=3) for name, fate in fates.items()
        ]
        for result in producer.transact(*messages):
            assert result.get("status") == "SEND_OK", result
        self.expected.update(f"{name} {stage}" for name, fate in fates.items() if fate.endswith("c"))

    def go_on(self, scene: Scene, stage: int, who: str) -> None:
        """Whatever is open is asked about, answered, and seen.

        RocketMQ marks late what is done: on a slow machine it has asked, and commits, once more until then.
        """
        producer = scene.transaction_producer(PRODUCERS, heartbeatBrokerInterval=1_000)
        # A producer that has sent nothing knows no broker, and no broker knows it.
        (sent,) = producer.transact(scene.message(TOPIC, f"hello {stage}", properties={"fate": "c"}))
        assert sent.get("status") == "SEND_OK", sent
        self.expected[f"hello {stage}"] += 1
        wait_until(lambda: not self.expected - seen(scene), seconds=SECONDS)
        time.sleep(8)  # whatever is asked about, and committed, once too often
        found = seen(scene)
        assert found == self.expected or (who == ROCKETMQ and found.keys() == self.expected.keys())
        self.expected = found
        self.asked = len(producer.questions())


def seen(scene: Scene) -> Counter[str]:
    """All messages of the topic; a consumer would get some again after a kill, because its offsets are older."""
    return Counter(texts(scene.read_all(TOPIC, QUEUES)))


@pytest.mark.parametrize("is_killed", [pytest.param(False, marks=pytest.mark.slow), True], ids=["stopped", "killed"])
@pytest.mark.parametrize(
    "order",
    [pytest.param((ROCKETMQ, EMBER, ROCKETMQ), marks=pytest.mark.slow), (EMBER, ROCKETMQ, EMBER)],
    ids=["rocketmq-ember-rocketmq", "ember-rocketmq-ember"],
)
def test_open_transactions_are_ended_by_whoever_comes_next(
    client_tool: ClientTool, java_classes: str, tmp_path: Path, order: tuple[str, ...], is_killed: bool
) -> None:
    directory, story = OneDirectory(tmp_path / "home", java_classes, SOON), Story()
    for stage, who in enumerate(order):
        with directory.served_by(who) as cluster, scene_of(client_tool, cluster) as scene:
            if stage == 0:
                scene.topic(QUEUES, name=TOPIC)
            else:
                story.go_on(scene, stage, who)
            if stage < len(order) - 1:
                story.leave(scene, stage)
                if is_killed:
                    directory.kill()
        directory.check(rocketmq_was_killed=is_killed and who == ROCKETMQ)
    assert story.asked >= len(OPEN)
