"""RocketMQ for tests: fixture `store_tool`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.store_tool import StoreTool, class_path, missing


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.compat)
            item.add_marker(pytest.mark.xdist_group("rocketmq"))  # one Java process is enough
            item.add_marker(pytest.mark.timeout(600))  # the first one may wait for Maven


@pytest.fixture(scope="session")
def store_tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreTool]:
    """RocketMQ's message store; the first test waits until it is fetched and built."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    tool = StoreTool(class_path(), tmp_path_factory.mktemp("rocketmq-home"))
    yield tool
    tool.close()
