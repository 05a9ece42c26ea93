"""A standalone cluster of two workers, started by `ember spark cluster`: it reads, writes, and runs every job."""

from __future__ import annotations

import json
import os
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
from tests.spark.golden_rows import Facts, GoldenStores
from tests.spark.report_oracles import (
    Row,
    consumed,
    copies,
    filled_queues,
    given_back,
    hottest,
    out_of_order,
    put_off,
    records_of,
    unfinished,
)
from tests.spark.served import bodies
from tests.unit.jobs.compacting import newest_of, read_compacted

CLIENT = Path(__file__).with_name("cluster_client.py")
WORKERS = 2
# Of each report, the golden store that it is made of, and the columns that the oracle tells. None of them was traced.
REPORTS = {
    "skew": ("basic", ["topic", "queueId", "messages"]),
    "keys": ("compaction", ["topic", "key", "messages"]),
    "duplicates": ("batch", ["topic", "uniqKey", "copies"]),
    "order": ("ordered", ["topic", "shardingKey", "queueId", "queueOffset"]),
    "dlq": (
        "retry-dlq",
        ["group", "state", "originTopic", "uniqKey", "retries", "deadOffset", "originQueue", "originOffset"],
    ),
    "delay": ("timer", ["topic", "uniqKey", "reconsumeTimes", "state"]),
    "transactions": ("transaction", ["state", "uniqKey", "queueOffset"]),
    "lag": ("ordered", ["topic", "group", "queueId", "offset"]),
    "trace": ("basic", ["topic", "messages"]),
}


@pytest.fixture
def master(spark_environment: None) -> Iterator[str]:
    """The address of a cluster that runs; it ends without leaving a process."""
    command = [sys.executable, "-m", "embermq", "spark", "cluster", "--workers", str(WORKERS)]
    with subprocess.Popen([*command, "--port", str(free_port())], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        ready = re.fullmatch(rf"ready master=(spark://127.0.0.1:\d+) workers={WORKERS} cores=1 memory=1g\n", said)
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
    wanted = {name: (str(stores.paths[source]), columns) for name, (source, columns) in REPORTS.items()}
    command = [sys.executable, str(CLIENT), master, *map(str, paths), ember.namesrv, json.dumps(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    records = [facts for place, facts in stores.records.items() if place[0] == "basic"]
    expected = Counter(facts["topic"] for facts in records)
    total = expected.total()
    counted = {"counts": expected, "streamed": total, "archived": total, "rebuilt": total}
    kept = newest_of(read_compacted(table, "CompactTopic"))
    found = {"damages": 0, "differences": 0, "kept": sum(map(len, kept.values()))}
    reported = {name: sorted(map(tuple, rows)) for name, rows in seen.pop("reported").items()}
    assert seen == {**counted, **found, "executors": WORKERS}
    assert reported == {name: sorted(rows) for name, rows in reports_of(stores).items()}
    assert reported.keys() == PURPOSES.keys()
    assert read_compacted(tmp_path / "output" / "compacted", "CompactTopic") == kept
    queue = Path("consumequeue", next(iter(expected)), "0", f"{0:020d}")
    assert (tmp_path / "output" / "rebuilt" / queue).read_bytes() == (stores.paths["basic"] / queue).read_bytes()
    assert bodies(ember, "replayed").total() == bodies(ember, "streamed").total() == total
    assert bodies(ember, "cluster") == Counter(b"%d" % number for number in range(100))
    check_commands(master, stores.paths["basic"], tmp_path, total)


def check_commands(master: str, store: Path, tmp_path: Path, records: int) -> None:
    """Commands run there, too, whatever `python3` is where they are typed; and say it in a line where they cannot."""
    elsewhere = os.pathsep.join(
        path for path in os.environ["PATH"].split(os.pathsep) if path != str(Path(sys.executable).parent)
    )
    environment = {**os.environ, "PATH": elsewhere}
    del environment["PYSPARK_PYTHON"]
    command = [sys.executable, "-m", "embermq", "store", "rebuild", str(store), "--spark", master, "--json", "--out"]
    for name, more in (("wrong", {"PYSPARK_PYTHON": "/bin/false"}), ("right", {})):
        done = subprocess.run(
            [*command, str(tmp_path / name)], env={**environment, **more}, capture_output=True, text=True, check=False
        )
        if more:
            said = [line for line in done.stderr.splitlines() if line.startswith("ember: ")]
            assert done.returncode == 1 and len(said) == 1 and "PYSPARK_PYTHON" in said[0], done.stderr
            assert "Traceback" not in done.stderr and not (tmp_path / name).exists()
        else:
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout.splitlines()[-1])["records"] == records


def reports_of(stores: GoldenStores) -> dict[str, set[Row]]:
    """What plain Python says to the same questions."""

    def records(name: str) -> list[Facts]:
        return records_of(stores, REPORTS[name][0])

    states = put_off(records("delay"))
    return {
        "skew": filled_queues(records("skew")),
        "keys": hottest(records("keys")),
        "duplicates": copies(records("duplicates")),
        "order": out_of_order(records("order")),
        "dlq": given_back(records("dlq"), "RetryTopic", "GID_retry"),
        "delay": {(*place, state) for place, (state, _) in states.items()},
        "transactions": unfinished(stores.expected("transaction"), records("transactions")),
        "lag": consumed(stores.expected("ordered")),
        "trace": set(),
    }
