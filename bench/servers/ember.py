"""EmberMQ: with its engine or without, in any durability, and the check that its log holds what it acknowledged."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from subprocess import run

from bench.servers.remoting import make_topics
from bench.servers.server import ROOT, SERVER_CORE, PeerError, Server, kill, launch, said
from embermq import __version__

ENGINE_SECONDS = 5.0  # how long an engine whose kernels are compiled may take until it is on
ENGINE_ON = "engine on"  # what the server's log says then
EMBER = (sys.executable, "-m", "embermq")


def start_ember(durability: str, *, engine: bool = True) -> Callable[[Path], Server]:
    """How to start it; without its engine, it runs as if numba were not installed."""

    def start(folder: Path) -> Server:
        if engine:
            warm_up()
        anywhere = "127.0.0.1:0"
        command = [*EMBER, "serve", "--data", str(folder / "data"), "--durability", durability]
        command += ["--listen", anywhere, "--namesrv-listen", anywhere]
        process = launch(command, folder, cores=SERVER_CORE, env=environment(engine), piped=True)
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        if not line.startswith("ready "):
            kill(process)
            raise PeerError(f"ember serve said {line!r} and not `ready …`:\n{said(folder)}")
        words = dict(word.split("=", 1) for word in line.split()[1:])
        port = int(words["broker"].rpartition(":")[2])
        server = Server("rocketmq", port, process, folder, partial(_make_topic, port), has_batches=True)
        server.notes["engine"] = wait_for_engine(folder) if engine else False
        return server

    return start


def version() -> str:
    return f"EmberMQ {__version__}"


def environment(engine: bool) -> dict[str, str]:
    """The engine is on unless it is turned off, whatever the bench itself was started with."""
    return {"PYTHONPATH": str(ROOT / "src"), "EMBERMQ_ENGINE": "on" if engine else "off"}


@cache
def warm_up() -> None:
    """Compile the kernels, unless that was done, so that no measurement has a compiler beside it."""
    done = run(
        [*EMBER, "warm-up"], capture_output=True, text=True, env={**os.environ, **environment(True)}, check=False
    )
    if done.returncode:
        raise PeerError(f"`ember warm-up` failed: {done.stderr.strip()}")


def wait_for_engine(folder: Path) -> bool:
    """Whether the server's log said, within some seconds, that its engine is on."""
    deadline = time.monotonic() + ENGINE_SECONDS
    while ENGINE_ON not in (folder / "said").read_text(errors="replace"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def check_store(server: Server) -> None:
    """Every record is sound, and there are exactly the messages that were acknowledged. Raises PeerError otherwise."""
    data = server.folder / "data"
    found = read_counts(data)
    for topic, acknowledged in server.stored.items():
        stored = found.get(topic, 0)
        if not acknowledged <= stored <= acknowledged + server.refused:
            raise PeerError(f"topic {topic}: {acknowledged} messages were acknowledged and {stored} are stored")
    verified = json.loads(ember_says("store", "verify", str(data), "--json").splitlines()[-1])
    if not verified["sound"] or verified["records"] != sum(found.values()):
        raise PeerError(f"{sum(found.values())} messages in queues, and `ember store verify` says {verified}")
    server.notes["verified"] = verified["records"]


def read_counts(data: Path) -> dict[str, int]:
    """The messages of every topic, by its queues; topics that differ in their last four digits count as one."""
    topics = json.loads(ember_says("store", "info", str(data), "--json"))["topics"]
    counts: dict[str, int] = {}
    for name, queues in topics.items():
        family = name[:-4] if name[-4:].isdigit() else name
        counts[family] = counts.get(family, 0) + sum(queue["max"] - queue["min"] for queue in queues.values())
    return counts


def ember_says(*arguments: str) -> str:
    """What a command of `ember` prints. Raises PeerError if it fails."""
    done = run(
        [*EMBER, *arguments], capture_output=True, text=True, env={**os.environ, **environment(True)}, check=False
    )
    if done.returncode:
        raise PeerError(
            f"ember {' '.join(arguments)} ended with {done.returncode}: {(done.stderr or done.stdout)[-1000:]}"
        )
    return done.stdout


def _make_topic(port: int, name: str, queues: int) -> None:
    make_topics(port, [name], queues)
