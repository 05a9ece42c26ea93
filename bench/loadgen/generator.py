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

from loadgen.peers import GENERATOR_CORE, QUEUES, ROOT, TOPIC, PeerError, Server, pinned

SOURCES = Path(__file__).parent
CACHE = ROOT / ".cache" / "bench"
COMPILER = ("gcc", "-O2", "-std=gnu11", "-Wall", "-Wextra")


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
    server: Server, work: str, shape: Shape, *, seconds: float, warmup: float = 0.5, limit: int = 0, size: int = 1024
) -> dict[str, Any]:
    """Send or consume for some seconds after a warm-up; messages, rate, latencies, CPU time per message and errors."""
    numbers = {"port": server.port, "connections": shape.connections, "window": shape.window, "queues": QUEUES}
    numbers |= {"size": size, "limit": limit, "pid": server.process.pid}
    options = [f"{name}={value}" for name, value in numbers.items()]
    options += [f"warmup={warmup}", f"seconds={seconds}", f"topic={TOPIC}"]
    command = [*pinned(GENERATOR_CORE), str(program()), server.protocol, work, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + warmup + 120, check=False)
    if done.returncode:
        raise PeerError(done.stderr.strip() or f"the generator ended with {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def fill(server: Server, count: int) -> None:
    """Put `count` messages into the server's queues, the same number into each."""
    done = drive(server, "fill", Shape(QUEUES, 128), seconds=0, limit=count)
    if done["errors"] or done["messages"] != count:
        raise PeerError(f"{done['messages']} of {count} messages were filled in: {done['error']}")
