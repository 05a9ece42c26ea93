"""A store directory changes hands while messages wait for their time: RocketMQ's broker, EmberMQ, and back.

Some come due before the change, some while nobody serves the directory, some after it, and some after the next
change; one is recalled by whoever comes next, with the handle that the first one gave.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import ClientTool, text
from tests.compat.one_directory import EMBER, ROCKETMQ, OneDirectory
from tests.compat.scene import Scene, scene_of

TOPIC = "orders"
SETTINGS = {"recallMessageEnable": "true", "timerMaxDelaySec": 259_200, "mappedFileSizeTimerLog": 1_040}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Waiting:
    """What was sent for which time, over all changes."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}
        self.recalled: dict[str, str] = {}  # handles by body

    def send(self, scene: Scene, **delays_s: float) -> None:
        for body, delay in delays_s.items():
            self.due[body] = now_ms() + int(delay * 1000)
            message = scene.message(TOPIC, body, deliverMs=self.due[body], queue=len(self.due) % 4, keys=["every"])
            handle = scene.producer().send_ok(message)[0]["recallHandle"]
            if body.startswith("recalled"):
                self.recalled[body] = handle

    def recall(self, scene: Scene, body: str) -> None:
        producer = scene.producer()
        producer.send_ok(scene.message(TOPIC, f"so that it knows the topic {body}", queue=0))
        producer.call("recallMessage", TOPIC, self.recalled[body])

    def found(self, scene: Scene) -> dict[str, int]:
        """When each message that has come was stored in its queue."""
        came = [each for queue in range(4) for each in scene.read(TOPIC, queue)]
        counts = Counter(map(text, came))
        assert all(count == 1 for count in counts.values()), counts
        return {text(each): each["storeTimestamp"] for each in came if text(each) in self.due}

    def expect(self, scene: Scene, *bodies: str, seconds: float = 40) -> None:
        """Until these have come, and no other; none before its time."""
        wait_until(lambda: set(self.found(scene)) >= set(bodies), seconds=seconds)
        found = self.found(scene)
        assert set(found) == set(bodies)
        assert all(found[body] >= self.due[body] for body in bodies), (found, self.due)


@pytest.mark.parametrize("first", [ROCKETMQ, pytest.param(EMBER, marks=pytest.mark.slow)])
def test_whoever_comes_next_goes_on_with_what_waits(
    client_tool: ClientTool, java_classes: str, tmp_path: Path, first: str
) -> None:
    directory = OneDirectory(tmp_path, java_classes, SETTINGS)
    second = EMBER if first == ROCKETMQ else ROCKETMQ
    waiting = Waiting()
    with directory.served_by(first) as cluster, scene_of(client_tool, cluster) as scene:
        scene.topic(4, name=TOPIC)
        waiting.send(scene, soon=2, recalled1=70, between=8, later=60, last=100, recalled2=100)
        waiting.expect(scene, "soon")
    with directory.served_by(second) as cluster, scene_of(client_tool, cluster) as scene:
        waiting.recall(scene, "recalled1")
        waiting.send(scene, new=3, handed=95)
        waiting.expect(scene, "soon", "between", "new")
        wait_until(lambda: now_ms() >= waiting.due["later"], seconds=90)
        waiting.expect(scene, "soon", "between", "new", "later")
    with directory.served_by(first) as cluster, scene_of(client_tool, cluster) as scene:
        waiting.recall(scene, "recalled2")
        every = ("soon", "between", "new", "later", "last", "handed")
        wait_until(lambda: now_ms() >= waiting.due["last"], seconds=120)
        waiting.expect(scene, *every)
    directory.check()
