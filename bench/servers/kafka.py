"""Kafka: broker and controller in one process, one replica, its defaults otherwise; its jars come through Maven.

It flushes nothing by itself, and leaves that to the system, as it does by default.
"""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from functools import partial
from pathlib import Path

from bench.servers.server import ROOT, PeerError, Server, all_cores, free_port, launch, wait_for

POM = Path(__file__).with_name("pom.xml")
CACHE = ROOT / ".cache" / "bench"
HEAP = "1g"  # what its own start script gives it
CREATE_TOPICS, LIST_OFFSETS = 19, 2
NEWEST = -1  # the time that stands for the end of a partition
LEADER_SECONDS = 30.0


def start_kafka(folder: Path) -> Server:
    port, controller = free_port(), free_port()
    settings = {
        **{"process.roles": "broker,controller", "node.id": 1, "controller.listener.names": "CONTROLLER"},
        **{"controller.quorum.voters": f"1@127.0.0.1:{controller}", "inter.broker.listener.name": "PLAINTEXT"},
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        **{"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}", "log.dirs": folder / "data"},
        **{"offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1},
        **{"log.retention.bytes": 2 << 30, "log.segment.bytes": 256 << 20},  # of one partition
    }
    (folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", "-cp", f"{jars()}/*"]
    identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    properties = str(folder / "server.properties")
    made = subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={identity}", f"--config={properties}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise PeerError(f"Kafka's folder was not made: {made.stdout}{made.stderr}")
    process = launch([*java, "kafka.Kafka", properties], folder, cores=all_cores())
    wait_for(port, process, folder)
    return Server("kafka", port, process, folder, partial(make_topic, port), has_batches=True)


def version() -> str:
    found = re.search(r"<version>(\d+\.\d+\.\d+)</version>", POM.read_text())
    return f"Kafka {found[1] if found else '?'}"


def jars() -> Path:
    """Fetch the jars, unless that was done."""
    folder = CACHE / f"kafka-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}"
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as unfinished:
        target = Path(unfinished) / "jars"
        command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        done = subprocess.run([*command, f"-DoutputDirectory={target}"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeerError(f"Maven did not bring Kafka: {done.stdout[-1000:]}")
        target.rename(folder)
    return folder


# -- topics, in requests whose sizes and counts are fixed: size, api, version, correlation, client id, request


def make_topic(port: int, name: str, queues: int) -> None:
    """Make a topic, and wait until each of its partitions is led. Raises PeerError if that does not come."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        topic = _string(name) + struct.pack(">ihii", queues, 1, 0, 0)  # partitions, replicas, no places, no settings
        answer = _ask(connection, CREATE_TOPICS, 4, struct.pack(">i", 1) + topic + struct.pack(">ib", 30_000, 0))
        code = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))[0]
        if code != 0:
            raise PeerError(f"Kafka made no topic {name}: error {code}")
        deadline = time.monotonic() + LEADER_SECONDS
        while not _is_led(connection, name, queues):
            if time.monotonic() > deadline:
                raise PeerError(f"no leader for topic {name} in {LEADER_SECONDS:.0f} s")
            time.sleep(0.1)


def _is_led(connection: socket.socket, name: str, queues: int) -> bool:
    """Whether the broker tells the newest offset of every partition, as only a leader does."""
    partitions = b"".join(struct.pack(">iq", partition, NEWEST) for partition in range(queues))
    topic = _string(name) + struct.pack(">i", queues) + partitions
    answer = _ask(connection, LIST_OFFSETS, 1, struct.pack(">ii", -1, 1) + topic)
    each = struct.Struct(">ihqq")  # partition, error, time, offset
    at = 4 + 2 + len(name) + 4
    return all(each.unpack_from(answer, at + each.size * index)[1] == 0 for index in range(queues))


def _ask(connection: socket.socket, api: int, api_version: int, request: bytes) -> bytes:
    text = struct.pack(">hhi", api, api_version, 7) + _string("bench") + request
    connection.sendall(struct.pack(">i", len(text)) + text)
    with connection.makefile("rb") as answers:
        size, correlation = struct.unpack(">ii", answers.read(8))
        if correlation != 7:
            raise PeerError(f"Kafka answers request {correlation}, which nobody asked")
        return answers.read(size - 4)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()
