"""Pops through the calls that RocketMQ's own client makes to a broker."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from tests.compat.client_tool import Facts, Producer, text
from tests.compat.scene import Scene

ALL_QUEUES = -1
NOTIFICATION = 200_054


class Popper:
    """One group that pops one topic."""

    def __init__(self, scene: Scene, topic: str, group: str, *, client: Producer | None = None) -> None:
        self.scene = scene
        self.topic = topic
        self.group = group
        self.client = client or scene.producer()

    def pop(
        self,
        most: int = 32,
        *,
        invisible_ms: int = 60_000,
        poll_ms: int = 0,
        queue: int = ALL_QUEUES,
        tags: str = "*",
        order: bool = False,
        attempt: str | None = None,
        init_mode: int = 0,
    ) -> Facts:
        """What a pop gives: status, popTime, invisibleMs, rest, messages."""
        asked = {"queue": queue, "most": most, "invisibleMs": invisible_ms, "pollMs": poll_ms, "initMode": init_mode}
        return self._ask("pop", wait_s=poll_ms / 1000, tags=tags, order=order, attempt=attempt, **asked)

    def pop_until(self, count: int, *, tries: int = 40, **asked: Any) -> list[Facts]:
        """Pop until `count` messages came, or the patience is over."""
        found: list[Facts] = []
        for _ in range(tries):
            found += self.pop(**{"poll_ms": 1_000, **asked})["messages"]
            if len(found) >= count:
                break
        return found

    def ack(self, message: Facts) -> Facts:
        return self._ask("ack", handle=handle(message))

    def ack_batch(self, messages: Iterable[Facts]) -> Facts:
        return self._ask("ackBatch", handles=[handle(message) for message in messages])

    def change(self, message: Facts, invisible_ms: int) -> Facts:
        """Gives the new handle, too."""
        return self._ask("change", handle=handle(message), invisibleMs=invisible_ms)

    def notify(self, *, poll_ms: int = 0, queue: int = ALL_QUEUES, order: bool = False) -> bool:
        """Whether there is something to pop."""
        answer = self.scene.raw(
            NOTIFICATION,
            consumerGroup=self.group,
            topic=self.topic,
            queueId=queue,
            pollTime=poll_ms,
            bornTime=time.time_ns() // 1_000_000,
            order=order,
        )
        assert answer["code"] == 0, answer
        return bool(answer["fields"]["hasMsg"] == "true")

    def _ask(self, what: str, *, wait_s: float = 0, **fields: Any) -> Any:
        place = {"address": self.scene.broker, "broker": self.scene.broker_name}
        return self.client.tool.ask(
            "pops",
            what=what,
            target=self.client.name,
            topic=self.topic,
            group=self.group,
            wait_s=wait_s,
            **place,
            **fields,
        )


def handle(message: Facts) -> str:
    found: str = message["properties"]["POP_CK"]
    return found


def bodies(messages: Iterable[Facts]) -> list[str]:
    return [text(message) for message in messages]
