"""One store directory that RocketMQ and EmberMQ serve in turn, at the same addresses and with the same broker.conf."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.compat.cluster import Cluster, ClusterError
from tests.compat.store_tool import HERE, JVM
from tests.free_ports import LOCAL, free_port

START_S: Final = 60.0
STOP_S: Final = 60.0
DELAY_LEVELS: Final = "1s 5s 20s 30s 1m"
EMBER: Final = "ember"
ROCKETMQ: Final = "rocketmq"
TORN: Final = "its properties end in zeros"


class OneDirectory:
    """The directory, its settings, and whoever serves it at the moment."""

    def __init__(self, home: Path, classes: str, more: Mapping[str, object] | None = None) -> None:
        """`more` are settings of broker.conf, over those that all tests have."""
        self._home = home
        self._classes = classes
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = False
        self.store = home / "store"
        ports = free_port(), free_port(), free_port()
        self.namesrv, self.broker = f"{LOCAL}:{ports[0]}", f"{LOCAL}:{ports[1]}"
        settings = {
            **{"brokerClusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": 0, "brokerIP1": LOCAL},
            **{"listenPort": ports[1], "haListenPort": ports[2], "namesrvAddr": self.namesrv},
            **{"storePathRootDir": self.store, "diskMaxUsedSpaceRatio": 95, "flushDiskType": "ASYNC_FLUSH"},
            **{"mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 2_000, "maxMessageSize": 1 << 14},
            **{"maxHashSlotNum": 500, "maxIndexNum": 2_000, "mappedFileSizeTimerLog": 1 << 20},
            **{"messageDelayLevel": DELAY_LEVELS, "autoCreateTopicEnable": "false"},
            **(more or {}),
        }
        (home / "conf").mkdir(parents=True)
        (home / "namesrv.conf").write_text(f"listenPort={ports[0]}\n")
        self._conf = home / "broker.conf"
        self._conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def kill(self) -> None:
        """End who serves it, in the middle of whatever it does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._is_killed = True

    @contextlib.contextmanager
    def served_by(self, who: str) -> Iterator[Cluster]:
        """Have it served; stopped cleanly at the end, unless it was killed."""
        log = self._home / f"{who}.log"
        command, environment = self._ember() if who == EMBER else self._rocketmq()
        with log.open("ab") as output:
            process = subprocess.Popen(command, cwd=self._home, env=environment, stdout=output, stderr=output)
        self._process, self._is_killed = process, False
        try:
            for address in (self.namesrv, self.broker):
                _wait_for(address, process, log)
            yield Cluster(self.namesrv, self.broker, is_ember=who == EMBER)
            if self._is_killed:
                return
            if process.poll() is not None:
                raise ClusterError(f"{who} ended with {process.returncode} by itself:\n{_end_of(log)}")
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_S)
            if (self.store / "abort").exists():
                raise ClusterError(f"{who} did not stop cleanly: its file abort is there\n{_end_of(log)}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def check(self, *, rocketmq_was_killed: bool = False) -> None:
        """Every record, queue entry and key is as it should be; for a directory that nobody serves.

        RocketMQ, killed while it copies a record into its file, leaves one whose properties are torn, and takes it
        for good when it comes back. So it is kept, and `verify` says what it lacks.
        """
        command = [sys.executable, "-m", "embermq", "store", "verify", "--json", str(self.store)]
        checked = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
        damages = json.loads(checked.stdout)["damage"]
        if rocketmq_was_killed and len(damages) == 1 and TORN in damages[0]["detail"]:
            return
        assert checked.returncode == 0, checked.stdout + checked.stderr

    def _ember(self) -> tuple[list[str], dict[str, str]]:
        command = [sys.executable, "-m", "embermq", "serve", "-c", str(self._conf), "--data", str(self.store)]
        command += ["--listen", self.broker, "--namesrv-listen", self.namesrv]
        return command, _environment()

    def _rocketmq(self) -> tuple[list[str], dict[str, str]]:
        command = ["java", *JVM, "-XX:MaxDirectMemorySize=512m", f"-Duser.home={self._home}", "-cp", self._classes]
        command += ["embermq.compat.client.RealServers", str(self._home / "namesrv.conf"), str(self._conf)]
        return command, {**os.environ, "ROCKETMQ_HOME": str(self._home)}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src")}


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, port = address.split(":")
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.5):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise ClusterError(f"nothing listens at {address}; it said\n{_end_of(log)}")
        time.sleep(0.05)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-3_000:]
