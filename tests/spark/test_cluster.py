"""A standalone cluster, master and two workers, made of what is in PySpark's package: it reads, streams and writes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.conftest import Served
from tests.free_ports import free_address
from tests.spark.golden_rows import GoldenStores
from tests.spark.served import bodies

CLIENT = Path(__file__).with_name("cluster_client.py")
START_TIMEOUT_S = 60.0
WORKERS = 2


@pytest.fixture
def master(spark_environment: None, tmp_path: Path) -> Iterator[str]:
    """The address of a cluster that runs."""
    import pyspark

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    host, _, port = free_address().rpartition(":")
    address = f"spark://{host}:{port}"
    here = ["--host", host, "--webui-port", "0"]
    commands = [["org.apache.spark.deploy.master.Master", *here, "--port", port]]
    for number in range(WORKERS):
        room = ["-c", "1", "-m", "700m", "-d", str(tmp_path / f"worker-{number}")]
        commands.append(["org.apache.spark.deploy.worker.Worker", *here, *room, address])
    log = tmp_path / "cluster.log"
    with ExitStack() as stack:
        output = stack.enter_context(log.open("w"))
        for command in commands:
            process = subprocess.Popen([str(spark_class), *command], stdout=output, stderr=output)
            stack.callback(process.wait)
            stack.callback(process.kill)
        deadline = time.monotonic() + START_TIMEOUT_S
        while log.read_text().count("Successfully registered with master") < WORKERS:
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        yield address


def test_a_cluster_reads_streams_and_writes(master: str, stores: GoldenStores, ember: Served, tmp_path: Path) -> None:
    command = [sys.executable, str(CLIENT), master, str(stores.paths["basic"]), str(tmp_path / "output"), ember.namesrv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    expected = Counter(facts["topic"] for place, facts in stores.records.items() if place[0] == "basic")
    assert seen == {"counts": expected, "streamed": expected.total(), "executors": WORKERS}
    assert bodies(ember, "cluster") == Counter(b"%d" % number for number in range(100))
