"""One Spark for all tests of a run: starting it takes longer than most of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import Served, serving
from tests.free_ports import free_port
from tests.spark.golden_rows import GoldenStores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
OLDEST_JAVA = 17
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",  # the same JVM serves Spark Connect
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300))
            # Spark and py4j leave sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


def missing() -> str | None:
    """Why Spark cannot run here; None if it can."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "needs PySpark; pip install 'embermq[spark]'"
    if not shutil.which("java"):
        return f"needs Java {OLDEST_JAVA}; not found"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r"\d+", said)
    if version is None or int(version[0]) < OLDEST_JAVA:
        return f"needs Java {OLDEST_JAVA} or newer; found {said.splitlines()[0]}"
    return None


@pytest.fixture(scope="session")
def spark_environment() -> None:
    """Have Spark's Python processes find what is tested: they are started by the JVM, which inherits this."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ["PYSPARK_PYTHON"] = sys.executable


@pytest.fixture(scope="session")
def connect_port() -> int:
    """A free port for Spark Connect, which cannot be asked for the one it chose."""
    return free_port()


@pytest.fixture(scope="session")
def spark(spark_environment: None, connect_port: int) -> Iterator[SparkSession]:
    """The session of this run; the format is found by Spark itself."""
    import embermq_spark

    settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(connect_port)}
    session = embermq_spark.session("tests", master="local[2]", settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> GoldenStores:
    """RocketMQ's golden stores, which tests only read."""
    return GoldenStores(tmp_path_factory.mktemp("golden"))


@pytest.fixture(autouse=True)
def pushdown_as_in_our_sessions(request: pytest.FixtureRequest) -> None:
    """Have each test begin with filters pushed down."""
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").conf.set("spark.sql.python.filterPushdown.enabled", "true")


@pytest.fixture(scope="session")
def connect_address(spark: SparkSession, connect_port: int) -> str:
    """Where the run's Spark serves Spark Connect."""
    return f"sc://127.0.0.1:{connect_port}"


@pytest.fixture(scope="session")
def ember(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One `ember serve` for all tests; each uses topics of its own."""
    with serving(tmp_path_factory.mktemp("ember")) as served:
        yield served
