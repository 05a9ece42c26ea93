"""A standalone cluster of two workers, started by `ember spark cluster`: it reads, streams, writes and archives."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Served
from tests.free_ports import free_port
from tests.spark.golden_rows import GoldenStores
from tests.spark.served import bodies

CLIENT = Path(__file__).with_name("cluster_client.py")
WORKERS = 2


@pytest.fixture
def master(spark_environment: None) -> Iterator[str]:
    """The address of a cluster that runs; it ends without leaving a process."""
    command = [sys.executable, "-m", "embermq", "spark", "cluster", "--workers", str(WORKERS), "--memory", "700m"]
    with subprocess.Popen([*command, "--port", str(free_port())], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        ready = re.fullmatch(rf"ready master=(spark://127.0.0.1:\d+) workers={WORKERS} cores=1 memory=700m\n", said)
        assert ready is not None, said
        try:
            yield ready[1]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    host, _, port = ready[1].removeprefix("spark://").rpartition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port))).close()


def test_a_cluster_reads_streams_and_writes(master: str, stores: GoldenStores, ember: Served, tmp_path: Path) -> None:
    command = [sys.executable, str(CLIENT), master, str(stores.paths["basic"]), str(tmp_path / "output"), ember.namesrv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    expected = Counter(facts["topic"] for place, facts in stores.records.items() if place[0] == "basic")
    total = expected.total()
    counted = {"counts": expected, "streamed": total, "archived": total, "rebuilt": total}
    assert seen == {**counted, "damages": 0, "executors": WORKERS}
    queue = Path("consumequeue", next(iter(expected)), "0", f"{0:020d}")
    assert (tmp_path / "output" / "rebuilt" / queue).read_bytes() == (stores.paths["basic"] / queue).read_bytes()
    assert bodies(ember, "cluster") == Counter(b"%d" % number for number in range(100))
