"""The load generator: compiled with gcc at its first use, kept in .cache, run beside a server."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench.servers.server import GENERATOR_CORE, QUEUES, ROOT, PeerError, Server, pinned

SOURCES = Path(__file__).parent
CACHE = ROOT / ".cache" / "bench"
COMPILER = ("gcc", "-O2", "-std=gnu11", "-Wall", "-Wextra")
KIB = 1024
FILL_BATCH = 8  # divides 32 and 1000, so that a pull of either is whole batches


@dataclass(frozen=True)
class Shape:
    """How many connections, and how many requests each has in flight: `4x128`."""

    connections: int
    window: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        connections, _, window = text.partition("x")
        return cls(int(connections), int(window))

    def __str__(self) -> str:
        return f"{self.connections}x{self.window}"


@dataclass(frozen=True)
class Load:
    """What the generator does to a server: `work` is send, pull or relay (see loadgen.c)."""

    work: str
    shape: Shape
    size: int = KIB
    batch: int = 1
    per_pull: int = 32
    topics: int = 1
    queues: int = QUEUES  # of each topic
    due: int = 0  # when messages are to be delivered, in ms since 1970
    commits: bool = False  # every message begins a transaction, which is committed


@cache
def program() -> Path:
    """Build the generator, unless that was done."""
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".c", ".h"))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    built = CACHE / f"loadgen-{digest}"
    if not built.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            unfinished = Path(folder) / "loadgen"
            files = [str(path) for path in sources if path.suffix == ".c"]
            subprocess.run([*COMPILER, "-o", str(unfinished), *files], check=True)
            unfinished.rename(built)
    return built


def drive(
    server: Server, load: Load, topic: str, *, seconds: float, warmup: float = 0.5, limit: int = 0
) -> dict[str, Any]:
    """Run a load for some seconds after a warm-up; messages, rate, latencies, CPU time per message and errors.

    What the server acknowledged, from the first message on, is added to what it must hold.
    """
    numbers = {"port": server.port, "connections": load.shape.connections, "window": load.shape.window}
    numbers |= {"topics": load.topics, "queues": load.queues, "size": load.size, "batch": load.batch}
    numbers |= {"per_pull": load.per_pull, "limit": limit, "pid": server.process.pid}
    numbers |= {"due": load.due, "commits": int(load.commits)}
    options = [f"{name}={value}" for name, value in numbers.items()]
    options += [f"warmup={warmup}", f"seconds={seconds}", f"topic={topic}"]
    command = [*pinned(GENERATOR_CORE), str(program()), server.protocol, load.work, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + warmup + 900, check=False)
    if done.returncode:
        raise PeerError(done.stderr.strip() or f"the generator ended with {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    server.stored[topic] = server.stored.get(topic, 0) + result["acknowledged"]
    server.refused += result["refused"]
    return result


def fill(server: Server, topic: str, count: int, *, size: int = KIB) -> None:
    """Put `count` messages into the topic's queues, the same number into each; in batches, if there are any."""
    batch = FILL_BATCH if server.has_batches else 1
    done = drive(server, Load("fill", Shape(QUEUES, 32), size=size, batch=batch), topic, seconds=0, limit=count)
    if done["errors"] or done["acknowledged"] != count:
        raise PeerError(f"{done['acknowledged']} of {count} messages were filled in: {done['error']}")
