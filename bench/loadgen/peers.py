"""The servers that `send` and `consume` drive, each alone on the machine: started on a fresh folder, stopped, removed.

    ember-async     EmberMQ, answers before the disk has it; flushed at least every 500 ms
    ember-sync      EmberMQ, answers when the disk has it
    redis-everysec  Redis streams, append-only file synced once a second
    redis-always    Redis streams, append-only file synced before every answer
    nats            NATS JetStream, file store with its defaults
    rocketmq        RocketMQ's own broker, asynchronous flush

A server gets one core and the load generator another. RocketMQ gets all cores, because it stands still on one, and
stays for all rounds, stopped by a signal between them, because its compiler needs long to warm up.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
SERVER_CORE, GENERATOR_CORE = "0", "1"
TOPIC, QUEUES = "bench", 4

JVM = (
    *("-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=1g"),
    *("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"),
    *("--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED"),
)


class PeerError(Exception):
    """A server that did not start, or refused what a bench needs."""


@dataclass
class Server:
    """A running server; `protocol` is the load generator's name for what it speaks."""

    protocol: str
    port: int
    process: subprocess.Popen[bytes]
    stays: bool = False  # for all rounds of a bench

    def memory_mib(self) -> dict[str, int]:
        """Resident memory, and the part of it that is not mapped files."""
        sizes = {}
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("VmRSS", "RssAnon"):
                sizes[name] = int(value.split()[0]) // 1024
        return {"resident_mib": sizes["VmRSS"], "anonymous_mib": sizes["RssAnon"]}

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@dataclass(frozen=True)
class Peer:
    """How to start one kind of server in a folder, and what must be installed for it."""

    name: str
    start: Callable[[Path], Server]
    needs: Sequence[str] = ()
    stays: bool = False


@contextlib.contextmanager
def running(peer: Peer) -> Iterator[Server]:
    """The server on a fresh folder, stopped and removed at the end."""
    with tempfile.TemporaryDirectory(prefix=f"bench-{peer.name}-", ignore_cleanup_errors=True) as folder:
        server = peer.start(Path(folder))
        try:
            yield server
        finally:
            stop(server.process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End it at once: its folder goes too, so there is nothing that it could save."""
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def missing(peer: Peer) -> list[str]:
    """The programs that this peer needs and that are not there."""
    return [program for program in peer.needs if shutil.which(program) is None]


# -- EmberMQ


def start_ember(durability: str) -> Callable[[Path], Server]:
    def start(folder: Path) -> Server:
        anywhere = "127.0.0.1:0"
        command = [sys.executable, "-m", "embermq", "serve", "--data", str(folder / "data"), "--durability", durability]
        command += ["--listen", anywhere, "--namesrv-listen", anywhere]
        process = launch(command, folder, cores=SERVER_CORE)
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        if not line.startswith("ready "):
            stop(process)
            raise PeerError(f"ember serve said {line!r} and not `ready …`:\n{said(folder)}")
        words = dict(word.split("=", 1) for word in line.split()[1:])
        port = int(words["broker"].rpartition(":")[2])
        make_topic(port)
        return Server("rocketmq", port, process)

    return start


# -- RocketMQ


def start_rocketmq(folder: Path) -> Server:
    port = free_port()
    settings = {
        **{"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": 0, "brokerIP1": "127.0.0.1"},
        **{"listenPort": port, "haListenPort": free_port(), "storePathRootDir": folder / "store"},
        **{"flushDiskType": "ASYNC_FLUSH", "diskMaxUsedSpaceRatio": 95},
        "waitTimeMillsInSendQueue": 5_000,  # by default it refuses what waited 200 ms, as all does before it is warm
    }
    (folder / "conf").mkdir()
    (folder / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = ["java", *JVM, f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}", "-cp", rocketmq_class_path()]
    command += ["org.apache.rocketmq.broker.BrokerStartup", "-c", str(folder / "broker.conf")]
    process = launch(command, folder, cores=f"0-{(os.cpu_count() or 1) - 1}")
    wait_for(port, process, folder)
    make_topic(port)
    return Server("rocketmq", port, process, stays=True)


def rocketmq_class_path() -> str:
    """The jars that the compatibility tests use."""
    sys.path.append(str(ROOT))
    from tests.compat.store_tool import class_path

    return class_path()


def make_topic(port: int) -> None:
    """UPDATE_AND_CREATE_TOPIC, as mqadmin sends it."""
    fields = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
    texts = {name: str(value) for name, value in fields.items()}
    header = {"code": 17, "extFields": texts, "flag": 0, "language": "JAVA", "opaque": 1, "version": 479}
    text = json.dumps({**header, "serializeTypeCurrentRPC": "JSON"}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack(">II", 4 + len(text), len(text)) + text)
        size, header_size = struct.unpack(">II", answers.read(8))
        answer = json.loads(answers.read(size - 4)[: header_size & 0xFFFFFF])
    if answer["code"] != 0:
        raise PeerError(f"no topic {TOPIC}: {answer}")


# -- Redis


def start_redis(sync: str) -> Callable[[Path], Server]:
    def start(folder: Path) -> Server:
        port = free_port()
        settings = {"port": port, "dir": folder, "save": "", "appendonly": "yes", "appendfsync": sync}
        settings |= {"auto-aof-rewrite-percentage": 0, "bind": "127.0.0.1"}
        options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
        process = launch(["redis-server", *options], folder, cores=SERVER_CORE)
        wait_for(port, process, folder)
        return Server("redis", port, process)

    return start


# -- NATS


def start_nats(folder: Path) -> Server:
    port = free_port()
    store = f'jetstream {{ store_dir: "{folder}", max_file: 20GB }}'
    (folder / "nats.conf").write_text(f"host: 127.0.0.1\nport: {port}\n{store}\n")
    process = launch(["nats-server", "-c", str(folder / "nats.conf")], folder, cores=SERVER_CORE)
    wait_for(port, process, folder)
    make_stream(port)
    return Server("nats", port, process)


def make_stream(port: int) -> None:
    config = {"name": "BENCH", "subjects": [f"{TOPIC}.*"], "storage": "file", "retention": "limits"}
    body = json.dumps({**config, "max_bytes": 2 << 30, "discard": "old", "num_replicas": 1}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, connection.makefile("rb") as answers:
        connection.sendall(b'CONNECT {"verbose":false}\r\nSUB _INBOX.make 1\r\n')
        connection.sendall(b"PUB $JS.API.STREAM.CREATE.BENCH _INBOX.make %d\r\n%s\r\n" % (len(body), body))
        while not answers.readline().startswith(b"MSG"):
            pass
        answer = json.loads(answers.readline())
    if "error" in answer:
        raise PeerError(f"no stream: {answer['error']}")


# -- processes


def launch(command: Sequence[str], folder: Path, *, cores: str) -> subprocess.Popen[bytes]:
    """Start a server on some cores; what it says goes to a file, except for the lines that EmberMQ is asked for."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "ROCKETMQ_HOME": str(folder)}
    with (folder / "said").open("wb") as output:
        return subprocess.Popen(
            [*pinned(cores), *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if "embermq" in command else output,
            stderr=output,
        )


def pinned(cores: str) -> list[str]:
    """Puts a command on some cores; on a machine with one there is nothing to choose."""
    return ["taskset", "-c", cores] if (os.cpu_count() or 1) > 1 else []


def wait_for(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            stop(process)
            raise PeerError(f"nothing listens at port {port}:\n{said(folder)}")
        time.sleep(0.05)


def said(folder: Path) -> str:
    return (folder / "said").read_text(errors="replace")[-2000:]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


PEERS = [
    Peer("ember-async", start_ember("async")),
    Peer("ember-sync", start_ember("sync")),
    Peer("redis-everysec", start_redis("everysec"), needs=["redis-server"]),
    Peer("redis-always", start_redis("always"), needs=["redis-server"]),
    Peer("nats", start_nats, needs=["nats-server"]),
    Peer("rocketmq", start_rocketmq, needs=["java", "javac", "mvn"], stays=True),
]
