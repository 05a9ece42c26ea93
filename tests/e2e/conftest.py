"""A real `ember serve`, as its users start it, on a temporary directory."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.free_ports import free_address

SOURCE = Path(__file__).parents[2] / "src"
START_TIMEOUT = 30.0  # seconds
STOP_TIMEOUT = 20.0


@dataclass
class Served:
    """A server that runs."""

    process: subprocess.Popen[str]
    namesrv: str
    broker: str
    data: Path
    log: Path

    def stop(self) -> int:
        """Stop it as an operator does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT)


@contextlib.contextmanager
def serving(
    folder: Path, *options: str, listen: str = "", namesrv_listen: str = "", durability: str = "async"
) -> Iterator[Served]:
    """Run `ember serve` with its files under `folder`; stop it with SIGTERM at the end, which must be clean."""
    data, log = folder / "data", folder / "ember.log"
    command = [sys.executable, "-m", "embermq", "serve", "--data", str(data), "--durability", durability]
    command += ["--listen", listen or free_address(), "--namesrv-listen", namesrv_listen or free_address(), *options]
    with log.open("a") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
    try:
        said = dict(word.split("=", 1) for word in _ready_line(process, log).split()[1:])
        served = Served(process, said["namesrv"], said["broker"], data, log)
        yield served
        if process.poll() is None:
            assert served.stop() == 0, log.read_text()[-3000:]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _ready_line(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], START_TIMEOUT)[0], f"no word in time; it said\n{log.read_text()}"
    line = process.stdout.readline()
    assert line.startswith("ready "), f"got {line!r}; it said\n{log.read_text()}"
    return line


@pytest.fixture(scope="session")
def ember(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests; each uses topics and groups of its own."""
    with serving(tmp_path_factory.mktemp("ember")) as served:
        yield served
