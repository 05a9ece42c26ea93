"""A real server is sent nonsense over its sockets: it closes what makes no sense, says why, and serves all others."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest

from embermq.format.command import encode_command, make_request
from embermq.format.frame import MAX_FRAME_SIZE, encode_frame
from tests.builders import wait_until
from tests.e2e.conftest import Served, serving
from tests.e2e.line import PATIENCE_S, Line
from tests.fuzz.hostile import CODES, Hostile
from tests.unit.broker.brokers import pull_fields, send_fields

SLOWEST_BYSTANDER_S = 5.0  # on a busy machine; an event loop that is stuck would be stuck for longer
MEMORY_BOUND = 192 * 1024 * 1024  # how much more a server may have after an attack than before
TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
HTTP = b"GET /metrics HTTP/1.1\r\nHost: broker\r\nAccept: */*\r\n\r\n"
LIES = {
    "negative": struct.pack(">ii", -1, 0),
    "zero": struct.pack(">ii", 0, 0),
    "smaller than a header": struct.pack(">ii", 3, 0),
    "larger than allowed": struct.pack(">ii", MAX_FRAME_SIZE - 3, 10),
    "largest number": struct.pack(">ii", 2**31 - 1, 2),
    "header larger than its frame": struct.pack(">ii", 100, 97),
    "header larger than allowed": struct.pack(">ii", 1_000_000, 70_000),
    "unknown form": struct.pack(">iB3s", 100, 9, b"\0\0\x02"),
    "no JSON": encode_frame(0, b"not json", 0),
    "JSON, but a list": encode_frame(0, b"[1,2,3]", 0),
    "JSON too deep": encode_frame(0, b"[" * 60_000, 0),
    "text for numbers": encode_frame(0, b'{"code":"ten","opaque":1}', 0),
    "binary, cut": encode_frame(1, b"\0\x0a\0", 0),
    "binary, lying": encode_frame(1, struct.pack(">hBhiii", 10, 0, 479, 1, 0, 2**31 - 1), 0),
}


class Bystander:
    """A client that means well, all the time: each message that it sends it must get back."""

    def __init__(self, address: str) -> None:
        self.count = 0
        self.slowest = 0.0
        self.trouble: Exception | None = None
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        before = self.count
        wait_until(lambda: self.count > before + 2 or self.trouble, seconds=PATIENCE_S)
        self._stop.set()
        self._thread.join()
        assert self.trouble is None, self.trouble
        assert self.slowest < SLOWEST_BYSTANDER_S

    def _run(self) -> None:
        try:
            with Line(self._address) as line:
                while not self._stop.is_set():
                    began = time.monotonic()
                    exchange(line, "bystander", b"%d" % self.count)
                    self.slowest = max(self.slowest, time.monotonic() - began)
                    self.count += 1
                    self._stop.wait(0.01)
        except Exception as error:
            self.trouble = error


def exchange(line: Line, topic: str, body: bytes) -> None:
    """Send a message and pull it."""
    sent = line.ask(310, send_fields(topic), body)
    assert sent.code == 0, sent
    pulled = line.ask(11, pull_fields(topic, int(sent.fields["queueOffset"]), consumerGroup="bystanders"))
    assert pulled.code == 0 and body in pulled.data


def memory_of(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def most_memory(process: int, *, seconds: float) -> int:
    """The most that a process has within so many seconds."""
    end, most = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        most = max(most, memory_of(process))
        time.sleep(0.02)
    return most


def files_of(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("fuzzed")) as served:
        yield served
        assert served.process.poll() is None, served.log.read_text()[-3000:]
    log = served.log.read_text()
    for event in ("handler failed", "send failed", "pull failed", "Traceback", "Fatal error", "never retrieved"):
        assert event not in log, log[log.index(event) - 500 :][:3000]


@contextmanager
def unharmed(server: Served, memory_bound: int = MEMORY_BOUND) -> Iterator[Bystander]:
    """Whatever happens inside: another client is served meanwhile, and afterwards memory and files are as before."""
    process = server.process.pid
    with Line(server.broker) as line:
        exchange(line, "before", b"x")
    memory, files = memory_of(process), files_of(process)
    with Bystander(server.broker) as bystander:
        yield bystander
    wait_until(lambda: files_of(process) <= files + 8, seconds=PATIENCE_S)
    grown = memory_of(process) - memory
    print(
        f"bystander served {bystander.count} times, slowest {bystander.slowest:.3f} s; memory {grown / 2**20:+.1f} MiB"
    )
    assert grown < memory_bound
    assert server.process.poll() is None


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_frame_that_lies_closes_its_connection_and_no_other(server: Served, lie: bytes) -> None:
    with Line(server.broker) as good, Line(server.broker) as bad:
        exchange(good, "lies", b"before")
        bad.send(lie)
        assert bad.is_closed_by_peer()
        exchange(good, "lies", b"after")


@pytest.mark.parametrize("words", [HTTP, b"\r\n\r\n", b"SSH-2.0-x\r\n", b"*1\r\n$4\r\nPING\r\n", b"\xff" * 64])
def test_who_speaks_another_language_is_shown_the_door(server: Served, words: bytes) -> None:
    with Line(server.broker) as line:
        line.send(words)
        line.socket.shutdown(socket.SHUT_WR)
        assert line.is_closed_by_peer()


def test_why_a_connection_was_closed_is_in_the_log(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        with Line(served.broker) as line:
            line.send(HTTP)
            assert line.is_closed_by_peer()
            name = "{}:{}".format(*line.socket.getsockname())
        wait_until(lambda: "connection closed" in served.log.read_text())
    closed = [json.loads(line) for line in served.log.read_text().splitlines() if '"connection closed"' in line]
    (said,) = [event for event in closed if event["peer"] == name]
    assert "a frame of 1195725856 bytes" in said["reason"]  # "GET " as a number


@pytest.mark.parametrize("rest", [b"", b"\0" * 500, b"\xff" * 5000, TLS_HELLO * 50])
def test_garbage_behind_a_tls_hello_closes_the_connection(server: Served, rest: bytes) -> None:
    with unharmed(server), Line(server.broker) as line:
        line.send(TLS_HELLO + rest)
        line.socket.shutdown(socket.SHUT_WR)
        assert line.is_closed_by_peer()


def test_who_sends_a_byte_at_a_time_is_served_like_all_others(server: Served) -> None:
    request = encode_command(make_request(310, send_fields("slow"), b"a slow message"))
    with unharmed(server), ExitStack() as stack:
        lines = [stack.enter_context(Line(server.broker)) for _ in range(20)]
        for at in range(len(request)):
            for line in lines:
                line.send(request[at : at + 1])
        assert [line.receive().code for line in lines] == [0] * 20


def test_who_closes_half_is_answered_and_then_closed(server: Served) -> None:
    with Line(server.broker) as line:
        line.send(encode_command(make_request(310, send_fields("half"), b"last words")))
        line.socket.shutdown(socket.SHUT_WR)
        answer = line.receive()
        assert answer.code == 0
        assert line.is_closed_by_peer()


def test_frames_of_the_largest_size_are_answered_and_larger_ones_are_not(server: Served) -> None:
    header = encode_command(make_request(310, send_fields("large")))[8:]
    body = bytes(MAX_FRAME_SIZE - 8 - len(header))
    with unharmed(server), Line(server.broker) as line:
        for _ in range(5):
            line.send(encode_frame(0, header, len(body)) + body)
            answer = line.receive()
            assert answer.code == 13  # no message may be as large as that
            assert answer.remark is not None and "limit" in answer.remark
        line.send(encode_frame(0, header, len(body) + 1))
        assert line.is_closed_by_peer()


def test_frames_that_never_end_cost_what_was_sent_of_them_and_no_more(server: Served) -> None:
    piece, count = bytes(4 * 1024 * 1024), 16
    promise = encode_frame(0, b'{"code":310', MAX_FRAME_SIZE - 1000)
    before = memory_of(server.process.pid)
    with unharmed(server), ExitStack() as stack:
        for _ in range(count):
            line = stack.enter_context(Line(server.broker))
            line.send(promise + piece)
        held = memory_of(server.process.pid) - before
        assert held < 2 * count * len(piece) + MEMORY_BOUND


def test_answers_that_nobody_reads_are_not_made(server: Served) -> None:
    process, asks = server.process.pid, encode_command(make_request(11, pull_fields("unread")))
    with Line(server.broker) as line:
        for _ in range(4):
            assert line.ask(310, send_fields("unread"), bytes(64 * 1024)).code == 0
    before = memory_of(process)
    with unharmed(server), ExitStack() as stack:
        for _ in range(3):
            line = stack.enter_context(Line(server.broker))
            line.socket.settimeout(1.0)
            with suppress(TimeoutError):  # once its requests are not read any more
                line.socket.sendall(asks * 2000)  # for 500 MiB each
        held = most_memory(process, seconds=2.0) - before
        print(f"{held / 2**20:.1f} MiB held")
        assert held < MEMORY_BOUND


def test_connections_that_say_nothing_count_against_the_limit_too(tmp_path: Path) -> None:
    config = tmp_path / "ember.toml"
    config.write_text("[server]\nmax_connections = 20\n")
    with serving(tmp_path, "-c", str(config)) as served, Line(served.broker) as early, ExitStack() as stack:
        exchange(early, "limit", b"before")
        silent = [stack.enter_context(Line(served.broker)) for _ in range(19)]
        with Line(served.broker) as late:
            assert late.is_closed_by_peer()
        exchange(early, "limit", b"meanwhile")
        silent[0].socket.close()
        wait_until(lambda: is_served(served))
    assert "limit 20 (max_connections)" in served.log.read_text()


def is_served(server: Served) -> bool:
    with Line(server.broker) as line:
        line.send(encode_command(make_request(0)))
        try:
            return line.receive().code == 3
        except (AssertionError, ConnectionResetError):
            return False


def come_and_go(server: Served, count: int, chance: random.Random) -> None:
    """Open connections and drop them at once, politely or not, having said something or nothing."""
    for _ in range(count):
        with suppress(OSError), Line(server.broker) as line:
            if chance.random() < 0.5:
                line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST
            match chance.randrange(4):
                case 0:
                    line.send(chance.randbytes(chance.randrange(1, 40)))
                case 1:  # buffers of 256 KiB each, so not more than one at a time here
                    line.send(TLS_HELLO)
                    line.socket.shutdown(socket.SHUT_WR)
                    assert line.is_closed_by_peer()
                case 2:
                    line.send(encode_command(make_request(11, pull_fields("nothing", suspendTimeoutMillis="9000"))))


def test_connections_that_come_and_go_leave_nothing_behind(server: Served) -> None:
    with unharmed(server):
        come_and_go(server, 1500, random.Random(1))


def send_hostile_frames(server: Served, seed: int, count: int) -> None:
    """Spoilt requests of all kinds and damaged frames, on connections that are opened anew when they are closed."""
    hostile = Hostile(f"sockets-{seed}")
    line = Line(server.broker)
    for number in range(count):
        code = hostile.chance.choice(CODES)
        line.send(hostile.damaged(code) if number % 10 == 0 else hostile.frame(code))
        if number % 10 == 0:
            with suppress(OSError):  # closed already
                line.socket.shutdown(socket.SHUT_WR)
            assert line.is_closed_by_peer(), f"seed {seed}, number {number}"
            line.socket.close()
            line = Line(server.broker)
    line.socket.close()


def test_spoilt_requests_over_a_socket_harm_nobody_else(tmp_path: Path) -> None:
    with serving(tmp_path) as served:  # one of its own: they change its settings, too
        send_hostile_frames(served, 1, 3000)
        assert served.process.poll() is None
        with Line(served.broker) as line:
            line.ask(25, {}, b"brokerPermission=6\nautoCreateTopicEnable=true\nmaxMessageSize=4194304\n")
            exchange(line, "survivor", b"still here")
    log = served.log.read_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 1000 :][:4000]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_more_connections_come_and_go(server: Served) -> None:
    with unharmed(server):
        come_and_go(server, 30_000, random.Random(2))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_many_more_spoilt_requests_over_a_socket_harm_nobody(tmp_path: Path, seed: int) -> None:
    with serving(tmp_path) as served:
        memory = memory_of(served.process.pid)
        send_hostile_frames(served, 100 + seed, 25_000)
        assert served.process.poll() is None
        grown = memory_of(served.process.pid) - memory
        print(f"seed={seed}: memory {grown / 2**20:+.1f} MiB")
        assert grown < 2 * MEMORY_BOUND
    assert "Traceback" not in served.log.read_text()
