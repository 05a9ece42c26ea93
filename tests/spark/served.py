"""A real `ember serve` for the tests of the sink, and what its consumers see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from embermq import Client
from embermq.model.message import StoredMessage
from tests.e2e.conftest import Served, serving


@pytest.fixture(scope="session")
def ember(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests; each uses topics of its own."""
    with serving(tmp_path_factory.mktemp("ember")) as served:
        yield served


def read(served: Served, topic: str) -> list[StoredMessage]:
    """All messages of a topic."""
    with Client(served.namesrv, timeout=20) as mq:
        return list(mq.read(topic))


def bodies(served: Served, topic: str) -> Counter[bytes]:
    return Counter(message.body for message in read(served, topic))
