"""/metrics and /healthz over real sockets."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from embermq.errors import DiskFull
from embermq.model.message import Host
from embermq.net.server import bind, host_of
from embermq.server.exposition import Family, Row
from embermq.server.http import MOST_AT_ONCE, MOST_REQUEST_BYTES, HttpServer, Reply, health_of
from tests.builders import a_store

FAMILIES = [Family("a_number", "gauge", "of things", ("name",), [Row(('x"\n\\',), 7)])]


async def exchange(request: bytes, *, health: Reply | None = None, idle: int = 0) -> tuple[int, bytes, bytes]:
    """Send bytes to a server and read what it answers: status, head and body. So many others are silent meanwhile."""
    server = HttpServer(families=lambda: FAMILIES, health=lambda: health or Reply(HTTPStatus.OK))
    listener = bind(Host("127.0.0.1", 0))
    address = host_of(listener)
    await server.start(listener)
    others = [await asyncio.open_connection(address.address, address.port) for _ in range(idle)]
    try:
        reader, writer = await asyncio.open_connection(address.address, address.port)
        writer.write(request)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), head, body
    finally:
        for _, other in others:
            other.close()
        await server.stop()


def ask(path: str, *, method: str = "GET", accept: str = "*/*", **options: int) -> tuple[int, bytes, bytes]:
    request = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n".encode()
    return asyncio.run(exchange(request, **options))  # type: ignore[arg-type]


def test_metrics_are_what_prometheus_reads() -> None:
    status, head, body = ask("/metrics")
    assert status == 200
    assert b"text/plain" in head
    (family,) = text_string_to_metric_families(body.decode())
    assert [(sample.name, sample.labels, sample.value) for sample in family.samples] == [
        ("a_number", {"name": 'x"\n\\'}, 7.0)
    ]


def test_openmetrics_are_given_to_who_asks_for_them() -> None:
    _, head, body = ask("/metrics?x=1", accept="application/openmetrics-text; version=1.0.0")
    assert b"application/openmetrics-text" in head
    assert body.endswith(b"# EOF\n")


def test_a_head_request_gets_no_body() -> None:
    status, head, body = ask("/metrics", method="HEAD")
    assert (status, body) == (200, b"")
    assert b"Content-Length: 0" not in head


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/", "GET", 404), ("/metrics/", "GET", 404), ("/../etc/passwd", "GET", 404), ("/metrics", "POST", 405)],
)
def test_everything_else_is_refused(path: str, method: str, status: int) -> None:
    assert ask(path, method=method)[0] == status


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\xff\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * MOST_REQUEST_BYTES + b"\r\n\r\n", 431),
    ],
)
def test_nonsense_is_refused(request_bytes: bytes, status: int) -> None:
    assert asyncio.run(exchange(request_bytes))[0] == status


def test_so_many_at_once_and_no_more() -> None:
    assert ask("/metrics", idle=MOST_AT_ONCE - 1)[0] == 200
    with pytest.raises((ConnectionError, IndexError)):  # closed, with or without what we sent
        ask("/metrics", idle=MOST_AT_ONCE)


def test_health_tells_whether_messages_are_taken_and_why_not(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        well = asyncio.run(exchange(b"GET /healthz HTTP/1.1\r\n\r\n", health=health_of(store.state(), is_ready=True)))
        assert well[0] == 200
        facts = json.loads(well[2])
        assert (facts["ready"], facts["durability"], facts["refusal"]) == (True, "async", None)
        assert facts["dispatchBehindBytes"] == 0
        assert health_of(store.state(), is_ready=False).status == 503

        store._writer.gate.refuse(DiskFull(tmp_path, free=0, limit="1"))
        ill = health_of(store.state(), is_ready=True)
        assert ill.status == 503
        assert "disk full" in json.loads(ill.body)["refusal"]
    assert health_of(store.state(), is_ready=True).status == 503


def test_the_library_for_metrics_is_imported_at_the_first_scrape_only() -> None:
    program = (
        "import sys, embermq.server.http, embermq.server.metrics as metrics; "
        "from embermq.server.exposition import render; print('prometheus_client' in sys.modules); "
        "render([]); print('prometheus_client' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "True"]
