"""A load for tests that stop and kill servers meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.compat.client_tool import Producer
from tests.compat.scene import Scene


@contextmanager
def sending(scene: Scene, producer: Producer, topic: str) -> Iterator[list[str]]:
    """Send all the time; gives the bodies that were accepted so far."""
    accepted: list[str] = []
    is_over = threading.Event()

    def send() -> None:
        number = 0
        while not is_over.wait(0.01):
            (result,) = producer.send(scene.message(topic, str(number)))
            if result.get("status") == "SEND_OK":
                accepted.append(str(number))
            number += 1

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield accepted
    finally:
        is_over.set()
        thread.join()
