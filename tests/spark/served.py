"""What consumers of the server of the Spark tests see."""

from __future__ import annotations

from collections import Counter

from embermq import Client
from embermq.model.message import StoredMessage
from tests.e2e.conftest import Served


def read(served: Served, topic: str) -> list[StoredMessage]:
    """All messages of a topic."""
    with Client(served.namesrv, timeout=20) as mq:
        return list(mq.read(topic))


def bodies(served: Served, topic: str) -> Counter[bytes]:
    return Counter(message.body for message in read(served, topic))
