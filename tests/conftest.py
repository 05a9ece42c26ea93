"""What all tests share: the option --all, how hypothesis searches, and RocketMQ's golden stores."""

from __future__ import annotations

import json
import os
import signal
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from embermq.kernels.cache_name import cache_name

GOLDEN = Path(__file__).parent / "golden" / "data"

# Compiled kernels are kept beside the tests, for these and the processes they start. Tests that import a kernel
# without loading all of them use the same folder, which any change of a kernel leaves behind: numba reads its
# variable once, so it is set before any test module is imported.
os.environ.setdefault("EMBERMQ_CACHE", str(Path(__file__).parents[1] / ".cache"))
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(os.environ["EMBERMQ_CACHE"]) / cache_name()))

# A plain run is repeatable; `--all` looks at new examples every time, and at more of them.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("all", deadline=None, max_examples=1000, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the slow sweeps, too")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("all" if config.getoption("--all") else "repeatable")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell has it for what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # so that commands under test can be interrupted


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    left_out = pytest.mark.skip(reason="a slow sweep; run it with --all")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(left_out)


@pytest.hookimpl(optionalhook=True)  # asked only where pytest-xdist runs tests in several processes
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Shares(LoadScopeScheduling):
        """Tests go to whoever is free, but for those that have much to set up.

        One process has all of Spark, because one JVM is enough, and one all of a file of tests with RocketMQ's clients.
        """

        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/spark/"):
                return "spark"
            return nodeid.partition("::")[0] if nodeid.startswith("tests/compat/") else nodeid

    return Shares(config, log)


class Golden:
    """The stores that RocketMQ itself wrote; tests/golden/data/README.md lists them."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._unpacked = 0

    @property
    def names(self) -> list[str]:
        return sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "stores").glob("*.tar.xz"))

    def store(self, name: str) -> Path:
        """Unpack the store `name` into a directory of its own, which the test may change."""
        self._unpacked += 1
        target = self._work / f"{name}-{self._unpacked}"
        with tarfile.open(GOLDEN / "stores" / f"{name}.tar.xz") as archive:
            # Pythons before 3.11.4 have no filters; the archives are ours.
            archive.extractall(target, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        return target / "store"

    def expected(self, name: str) -> dict[str, Any]:
        """What RocketMQ read from the store; `crashed.recovered` is what it had after a restart."""
        facts: dict[str, Any] = json.loads((GOLDEN / "stores" / f"{name}.expected.json").read_text())
        return facts


@pytest.fixture
def golden(tmp_path: Path) -> Golden:
    return Golden(tmp_path / "golden")
