"""Redis streams: the append-only file is synced once a second, or before every answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.servers.server import SERVER_CORE, Server, first_line, free_port, launch, wait_for


def start_redis(sync: str) -> Callable[[Path], Server]:
    def start(folder: Path) -> Server:
        port = free_port()
        settings = {"port": port, "dir": folder, "save": "", "appendonly": "yes", "appendfsync": sync}
        settings |= {"auto-aof-rewrite-percentage": 0, "bind": "127.0.0.1"}
        options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
        process = launch(["redis-server", *options], folder, cores=SERVER_CORE)
        wait_for(port, process, folder)
        return Server("redis", port, process, folder, lambda name, queues: None)  # XADD makes a stream

    return start


def version() -> str:
    return "Redis " + first_line("redis-server", "--version").partition("v=")[2].partition(" ")[0]
