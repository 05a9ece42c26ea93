"""RocketMQ for tests: its store, its filters and its clients (`store_tool`, …), and a cluster for them (`scene`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat.client_tool import Client, Clients, ClientTool
from tests.compat.cluster import Cluster, running_cluster
from tests.compat.filter_tool import FilterTool
from tests.compat.live_group import LiveGroup
from tests.compat.scene import Scene, ready_admin
from tests.compat.store_tool import StoreTool, class_path, missing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.compat)
            item.add_marker(pytest.mark.timeout(600))  # the first one may wait for Maven


@pytest.fixture(scope="session")
def java_classes() -> str:
    """RocketMQ's jars and our programs; the first test waits until they are fetched and built."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    return class_path()


@pytest.fixture(scope="session")
def store_tool(java_classes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreTool]:
    """RocketMQ's message store."""
    tool = StoreTool(java_classes, tmp_path_factory.mktemp("rocketmq-home"))
    yield tool
    tool.close()


@pytest.fixture(scope="session")
def filter_tool(java_classes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilterTool]:
    """RocketMQ's filters by tags and SQL92."""
    tool = FilterTool(java_classes, tmp_path_factory.mktemp("filters-home"))
    yield tool
    tool.close()


@pytest.fixture(scope="session")
def client_tool(java_classes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientTool]:
    """RocketMQ's Java clients and mqadmin, in one process."""
    tool = ClientTool(java_classes, tmp_path_factory.mktemp("clients-home"))
    yield tool
    tool.close()


@pytest.fixture(scope="session")
def eager_tool(java_classes: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientTool]:
    """The same, with consumers that divide the queues anew every second, not every 20, and give locks back soon."""
    properties = {"rocketmq.client.rebalance.waitInterval": 1_000, "rocketmq.client.unlockDelayTimeMills": 1_000}
    tool = ClientTool(java_classes, tmp_path_factory.mktemp("eager-home"), properties)
    yield tool
    tool.close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A name server and a broker: EmberMQ's, unless the environment asks for RocketMQ's."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def admin(client_tool: ClientTool, cluster: Cluster) -> Iterator[Client]:
    with Clients(client_tool, cluster.namesrv) as clients:
        yield ready_admin(clients)


@pytest.fixture(scope="session")
def open_scene(client_tool: ClientTool, cluster: Cluster, admin: Client) -> Callable[[], Scene]:
    """For fixtures whose events all tests of a module look at: `with open_scene() as scene`."""
    return lambda: Scene(client_tool, cluster, admin)


@pytest.fixture(scope="session")
def live(open_scene: Callable[[], Scene]) -> Iterator[LiveGroup]:
    """Clients at work, for tests that only look at them."""
    with open_scene() as scene:
        yield LiveGroup(scene)


@pytest.fixture
def scene(open_scene: Callable[[], Scene]) -> Iterator[Scene]:
    with open_scene() as scene:
        yield scene
