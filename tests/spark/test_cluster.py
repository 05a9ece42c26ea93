"""A standalone cluster of two workers, started by `ember spark cluster`: it reads, writes, and runs every job."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.cli.report import PURPOSES
from tests.e2e.conftest import Served
from tests.free_ports import free_port
from tests.spark.golden_rows import GoldenStores
from tests.spark.served import bodies
from tests.unit.jobs.compacting import newest_of, read_compacted

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


def test_a_cluster_reads_streams_writes_and_runs_every_job(
    master: str, stores: GoldenStores, ember: Served, tmp_path: Path
) -> None:
    table = shutil.copytree(stores.paths["compaction"], tmp_path / "table")
    paths = (stores.paths["basic"], table, tmp_path / "output")
    command = [sys.executable, str(CLIENT), master, *map(str, paths), ember.namesrv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    records = [facts for place, facts in stores.records.items() if place[0] == "basic"]
    expected = Counter(facts["topic"] for facts in records)
    total = expected.total()
    counted = {"counts": expected, "streamed": total, "archived": total, "rebuilt": total}
    queues = {(facts["topic"], facts["queueId"]) for facts in records}
    kept = newest_of(read_compacted(table, "CompactTopic"))
    found = {"damages": 0, "same": True, "skewed": len(queues), "kept": sum(map(len, kept.values()))}
    assert seen == {**counted, **found, "executors": WORKERS, "reported": sorted(PURPOSES)}
    assert read_compacted(tmp_path / "output" / "compacted", "CompactTopic") == kept
    queue = Path("consumequeue", next(iter(expected)), "0", f"{0:020d}")
    assert (tmp_path / "output" / "rebuilt" / queue).read_bytes() == (stores.paths["basic"] / queue).read_bytes()
    assert bodies(ember, "replayed").total() == bodies(ember, "streamed").total() == total
    assert bodies(ember, "cluster") == Counter(b"%d" % number for number in range(100))
