"""NATS JetStream: a file store with its defaults, which are a sync every two minutes."""

from __future__ import annotations

import json
import socket
from functools import partial
from pathlib import Path

from bench.servers.server import SERVER_CORE, PeerError, Server, first_line, free_port, launch, wait_for


def start_nats(folder: Path) -> Server:
    port = free_port()
    store = f'jetstream {{ store_dir: "{folder}", max_file: 20GB }}'
    (folder / "nats.conf").write_text(f"host: 127.0.0.1\nport: {port}\n{store}\n")
    process = launch(["nats-server", "-c", str(folder / "nats.conf")], folder, cores=SERVER_CORE)
    wait_for(port, process, folder)
    return Server("nats", port, process, folder, partial(make_stream, port))


def make_stream(port: int, topic: str, queues: int) -> None:
    """One stream, whose subjects are the queues; there is one topic in a run."""
    del queues  # a subject is made by its first message
    config = {"name": "BENCH", "subjects": [f"{topic}.*"], "storage": "file", "retention": "limits"}
    body = json.dumps({**config, "max_bytes": 4 << 30, "discard": "old", "num_replicas": 1}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection, connection.makefile("rb") as answers:
        connection.sendall(b'CONNECT {"verbose":false}\r\nSUB _INBOX.make 1\r\n')
        connection.sendall(b"PUB $JS.API.STREAM.CREATE.BENCH _INBOX.make %d\r\n%s\r\n" % (len(body), body))
        while not answers.readline().startswith(b"MSG"):
            pass
        answer = json.loads(answers.readline())
    if "error" in answer:
        raise PeerError(f"no stream: {answer['error']}")


def version() -> str:
    return "NATS " + first_line("nats-server", "--version").rpartition("v")[2]
