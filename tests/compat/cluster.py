"""The name server and broker that the client tests talk to.

EMBERMQ_COMPAT_TARGET=ember      EmberMQ, started as its users start it (the default)
EMBERMQ_COMPAT_TARGET=rocketmq   RocketMQ's own, so that the tests themselves can be checked
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.compat.store_tool import HERE, JVM, class_path
from tests.free_ports import free_address, free_port

TARGET = os.environ.get("EMBERMQ_COMPAT_TARGET", "ember")
START_TIMEOUT = 60.0  # seconds
STOP_TIMEOUT = 60.0
ENGINE_TIMEOUT = 180.0  # it may have to be compiled


class ClusterError(Exception):
    """The servers did not start, or ended before they should."""


@dataclass(frozen=True)
class Cluster:
    """Addresses as `host:port`."""

    namesrv: str
    broker: str
    is_ember: bool


@contextlib.contextmanager
def running_cluster(home: Path, *, target: str = TARGET) -> Iterator[Cluster]:
    """Start the servers with all they write under `home`; stop them at the end."""
    starts = {"ember": _ember, "rocketmq": rocketmq_process}
    if target not in starts:
        raise ClusterError(f"EMBERMQ_COMPAT_TARGET is {target!r}; it must be one of {', '.join(starts)}")
    with starts[target](home) as cluster:
        yield cluster


@contextlib.contextmanager
def _ember(home: Path) -> Iterator[Cluster]:
    with ember_process(home) as (cluster, process):
        yield cluster
        log = home / "ember.log"
        if process.poll() is not None:
            raise ClusterError(f"it ended with {process.returncode} while tests ran:\n{_end_of(log)}")
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_TIMEOUT)
        if process.returncode:
            raise ClusterError(f"it ended with {process.returncode} after SIGTERM:\n{_end_of(log)}")


@contextlib.contextmanager
def ember_process(
    home: Path, *options: str, broker: str = "", namesrv: str = ""
) -> Iterator[tuple[Cluster, subprocess.Popen[bytes]]]:
    """EmberMQ on the directory `home`/data; killed at the end, unless the caller has stopped it."""
    command = [sys.executable, "-m", "embermq", "serve", "--data", str(home / "data"), "--durability", "sync"]
    command += ["--listen", broker or free_address(), "--namesrv-listen", namesrv or free_address(), *options]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}
    log = home / "ember.log"
    with _process(command, home, log, environment) as process:
        said = dict(word.split("=", 1) for word in _first_line(process, log).split()[1:])
        wait_for_engine(process, log)
        yield Cluster(said["namesrv"], said["broker"], is_ember=True), process


def wait_for_engine(process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the compiled engine is on, or has said why it stays off; EMBERMQ_ENGINE=off leaves all to plain code."""
    deadline = time.monotonic() + ENGINE_TIMEOUT
    while "engine on" not in (said := log.read_text(errors="replace")) and "engine off" not in said:
        if process.poll() is not None or time.monotonic() > deadline:
            raise ClusterError(f"no word of the engine in {ENGINE_TIMEOUT:.0f} s; it said\n{_end_of(log)}")
        time.sleep(0.05)


def _first_line(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], START_TIMEOUT)[0]:
        raise ClusterError(f"no word in {START_TIMEOUT:.0f} s; it said\n{_end_of(log)}")
    line = process.stdout.readline().decode()
    if not line.startswith("ready "):
        raise ClusterError(f"expected `ready …`, got {line!r}; it said\n{_end_of(log)}")
    return line


@contextlib.contextmanager
def rocketmq_process(home: Path, **more: object) -> Iterator[Cluster]:
    """RocketMQ's name server and broker, with `more` settings of the broker."""
    namesrv_port, port = free_port(), free_port()
    cluster = Cluster(f"127.0.0.1:{namesrv_port}", f"127.0.0.1:{port}", is_ember=False)
    settings = {
        **{"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": 0, "brokerIP1": "127.0.0.1"},
        **{"listenPort": port, "haListenPort": free_port(), "namesrvAddr": cluster.namesrv},
        **{"storePathRootDir": home / "store", "diskMaxUsedSpaceRatio": 95, "fileReservedTime": 72},
        **{"mappedFileSizeCommitLog": 64 << 20, "mappedFileSizeConsumeQueue": 20 * 3_000},
        **{"maxHashSlotNum": 5_000, "maxIndexNum": 20_000, "mappedFileSizeTimerLog": 1 << 20},
        **{"enablePropertyFilter": "true", "recallMessageEnable": "true", "flushDiskType": "ASYNC_FLUSH"},
        **more,
    }
    (home / "conf").mkdir(parents=True)
    (home / "namesrv.conf").write_text(f"listenPort={namesrv_port}\n")
    (home / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = ["java", *JVM, "-XX:MaxDirectMemorySize=512m", f"-Duser.home={home}", "-cp", class_path()]
    command += ["embermq.compat.client.RealServers", str(home / "namesrv.conf"), str(home / "broker.conf")]
    log = home / "rocketmq.log"
    with _process(command, home, log, {**os.environ, "ROCKETMQ_HOME": str(home)}) as process:
        for each in (cluster.namesrv, cluster.broker):
            _wait_for(each, process, log)
        yield cluster
        process.kill()  # a clean stop takes it 15 seconds, and nothing of it is tested


@contextlib.contextmanager
def _process(
    command: Sequence[str], home: Path, log: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as errors:
        process = subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=errors, bufsize=0)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, port = address.split(":")
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.5):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise ClusterError(f"nothing listens at {address}; it said\n{_end_of(log)}")
        time.sleep(0.05)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-3_000:]
