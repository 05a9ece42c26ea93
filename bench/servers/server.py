"""A running server, and how one is started on some cores, awaited and ended.

A server gets one core and the load generator another. Those that run on a JVM get all cores, because they stand still
on one, and stay for all rounds, stopped by a signal between them, because their compiler needs long to warm up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.servers.old_folders import OldFolders, memory_size
from bench.servers.unpaced import unpaced

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
STOP_SECONDS = 60.0
SERVER_CORE, GENERATOR_CORE = "0", "1"
QUEUES = 4
_OLD_FOLDERS = OldFolders(memory_size())


class PeerError(Exception):
    """A server that did not start, refused what a bench needs, or does not hold what it acknowledged."""


@dataclass
class Server:
    """A running server; `protocol` is the load generator's name for what it speaks."""

    protocol: str
    port: int
    process: subprocess.Popen[bytes]
    folder: Path
    make_topic: Callable[[str, int], None]  # name, queues
    has_batches: bool = False
    stored: dict[str, int] = field(default_factory=dict)  # per topic, the messages that it acknowledged
    refused: int = 0  # messages of which it is not known whether they are stored
    notes: dict[str, object] = field(default_factory=dict)  # what is worth knowing about this run, for the results

    def need_topic(self, name: str, queues: int = QUEUES) -> None:
        """Have the topic, empty if it is new."""
        if name not in self.stored:
            self.make_topic(name, queues)
            self.stored[name] = 0

    def memory_mib(self) -> dict[str, int]:
        """Resident memory, and the part of it that is not mapped files."""
        sizes = {}
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("VmRSS", "RssAnon"):
                sizes[name] = int(value.split()[0]) // 1024
        return {"resident_mib": sizes["VmRSS"], "anonymous_mib": sizes["RssAnon"]}

    def cpu_seconds(self) -> float:
        """The CPU time of all its threads so far."""
        return time.clock_gettime(~self.process.pid << 3 | 2)  # the clock of a process, see clock_getcpuclockid

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@dataclass(frozen=True)
class Peer:
    """How to start one kind of server in a folder, and what must be installed for it."""

    name: str
    title: str
    start: Callable[[Path], Server]
    version: Callable[[], str]
    needs: Sequence[str] = ()
    stays: bool = False
    check: Callable[[Server], None] | None = None  # after its end: whether it holds what it acknowledged


@contextlib.contextmanager
def running(peer: Peer) -> Iterator[Server]:
    """The server on a fresh folder; at the end stopped, checked if it can be, and its folder removed, some time."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{peer.name}-"))
    try:
        with unpaced():
            server = peer.start(folder)
            try:
                yield server
                if peer.check is not None:
                    end(server.process)
                    peer.check(server)
            finally:
                kill(server.process)
    finally:
        _OLD_FOLDERS.keep(folder)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End it at once: its folder goes too, so there is nothing that it could save."""
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def end(process: subprocess.Popen[bytes]) -> None:
    """Let it come to a clean end. Raises PeerError if it does not."""
    process.terminate()
    try:
        code = process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        raise PeerError(f"it was asked to end, and still ran {STOP_SECONDS:.0f} s later") from None
    if code not in (0, -signal.SIGTERM):
        raise PeerError(f"it was asked to end, and did with code {code}")


def missing(peer: Peer) -> list[str]:
    """The programs that this peer needs and that are not there."""
    return [program for program in peer.needs if shutil.which(program) is None]


def launch(
    command: Sequence[str], folder: Path, *, cores: str, env: Mapping[str, str] | None = None, piped: bool = False
) -> subprocess.Popen[bytes]:
    """Start a server on some cores; what it says goes to a file, its standard output to us if that is `piped`."""
    with (folder / "said").open("wb") as output:
        return subprocess.Popen(
            [*pinned(cores), *command],
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else output,
            stderr=output,
        )


def pinned(cores: str) -> list[str]:
    """Puts a command on some cores; on a machine with one there is nothing to choose."""
    return ["taskset", "-c", cores] if (os.cpu_count() or 1) > 1 else []


def all_cores() -> str:
    return f"0-{(os.cpu_count() or 1) - 1}"


def wait_for(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Until something listens at the port. Raises PeerError with what the server said."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            kill(process)
            raise PeerError(f"nothing listens at port {port}:\n{said(folder)}")
        time.sleep(0.05)


def said(folder: Path) -> str:
    return (folder / "said").read_text(errors="replace")[-2000:]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def first_line(*command: str) -> str:
    """The first line that a program prints, for its version."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).partition("\n")[0].strip()
