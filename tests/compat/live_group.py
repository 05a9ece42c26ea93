"""A topic with messages, a group that has consumed them and is still there, one that is behind, and a live producer."""

from __future__ import annotations

from tests.builders import wait_until
from tests.compat.client_tool import Facts
from tests.compat.scene import Scene

QUEUES = 2
TAGS = ["A", "B", "A"]


class LiveGroup:
    """Twelve messages, six in each queue; `behind` has consumed two of queue 0 and none of queue 1."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.topic, self.group, self.behind = scene.topic(QUEUES), scene.group(), scene.group()
        self.producer_group = scene.name("live-producers")
        self.producer = scene.producer(self.producer_group)
        self.sent = self.producer.send_ok(*(self._message(number) for number in range(12)))
        self._consume()
        self._leave_behind()
        self.stored = [scene.read(self.topic, queue) for queue in range(QUEUES)]

    def _message(self, number: int) -> Facts:
        keys = [f"key-{number}", "all"]
        place = {"queue": number % QUEUES, "tags": TAGS[number % 3]}
        return self.scene.message(self.topic, f"body {number}", keys=keys, **place)

    def _consume(self) -> None:
        once = self.scene.push(self.group, {self.topic: "A || B"})
        assert len(once.deliveries(12)) == 12
        once.close()  # and so its offsets are stored
        self.consumer = self.scene.push(self.group, {self.topic: "A || B"})
        wait_until(lambda: self.consumer.queues(self.topic) == [0, 1], seconds=15)

    def _leave_behind(self) -> None:
        self.scene.save_group(self.behind)
        pull = self.scene.pull(self.behind)
        for queue, offset in ((0, 2), (1, 0)):
            place = self.scene.queue(self.topic, queue)
            pull.call("updateConsumeOffsetToBroker", place, offset, False, part="offsetStore")
        self.scene.wait_for_route(f"%RETRY%{self.behind}")  # made by its first heartbeat; without it a group is unknown
        pull.close()


def rows(printed: str) -> list[list[str]]:
    """The words of every line of a table, without its heading."""
    return [line.split() for line in printed.splitlines() if line.strip() and not line.startswith("#")]
