"""A standalone Spark cluster on this machine, made of what is in PySpark's package: for tests and trials.

    master  spark://127.0.0.1:PORT  ←── worker 1, worker 2, …      each a JVM; executors come with applications

All of it listens on the loopback address, and ends with whoever started it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from embermq.jobs.errors import ClusterFailed

START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 10.0
_HOST: Final = "127.0.0.1"
_LOOK_EVERY_S: Final = 0.1
_IS_UP: Final = "Starting Spark master at "
_HAS_JOINED: Final = "Successfully registered with master"


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """How many workers there are, and what each has for executors."""

    workers: int = 2
    cores: int = 1
    memory: str = "1g"


@contextmanager
def local_cluster(size: ClusterSize, *, port: int = 0) -> Iterator[str]:
    """A cluster that runs; the address of its master. Port 0 is any free one. Raises ClusterFailed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ember-spark-")))
        master = _Process(folder / "master.log", "master.Master", ["--port", str(port)])
        stack.callback(master.stop)
        address = master.wait_for(_IS_UP)
        workers = []
        for number in range(size.workers):
            room = ["-c", str(size.cores), "-m", size.memory, "-d", str(folder / f"worker-{number}")]
            worker = _Process(folder / f"worker-{number}.log", "worker.Worker", [*room, address])
            stack.callback(worker.stop)
            workers.append(worker)
        for worker in workers:
            worker.wait_for(_HAS_JOINED)
        yield address


class _Process:
    """A master or a worker, and what it says."""

    def __init__(self, log: Path, name: str, arguments: Sequence[str]) -> None:
        self._log = log
        self._name = name
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [
            str(spark_class),
            f"org.apache.spark.deploy.{name}",
            "--host",
            _HOST,
            "--webui-port",
            "0",
            *arguments,
        ]
        environment = {**os.environ, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
            )

    def wait_for(self, words: str) -> str:
        """Wait until it says something; what stands behind that in the line. Raises ClusterFailed."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            said = self._log.read_text(errors="replace")
            for line in said.splitlines():
                _, found, behind = line.partition(words)
                if found:
                    return behind.strip()
            last = said.strip().splitlines()[-1:] or ["nothing"]
            if self._process.poll() is not None:
                raise ClusterFailed(self._name, f"it ended with exit code {self._process.returncode}: {last[0]}")
            if time.monotonic() > deadline:
                raise ClusterFailed(self._name, f"not ready within {START_TIMEOUT_S:.0f} s; it said last: {last[0]}")
            time.sleep(_LOOK_EVERY_S)

    def stop(self) -> None:
        """End it and what it started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            os.killpg(self._process.pid, number)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                continue
