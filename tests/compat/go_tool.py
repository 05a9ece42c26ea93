"""RocketMQ's Go client, for tests: the program in go/, built once, and told what to do line by line.

    python tests/compat/go_tool.py       fetch and build now, so that the tests need not

What is built stays in .cache/compat, under a name made from its sources. The requests and answers are described
in go/main.go.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "go"
CACHE = HERE.parents[1] / ".cache" / "compat"
OLDEST_GO = (1, 19)
ANSWER_TIMEOUT = 60.0  # seconds
WAIT_MS = 15_000  # how long `received` waits for what must come

Message = Mapping[str, Any]
Delivery = dict[str, Any]


class GoToolError(Exception):
    """The Go client refused, or its process ended."""


def missing() -> str | None:
    """Why the Go client cannot be built here; None if it can."""
    wanted = ".".join(map(str, OLDEST_GO))
    if not shutil.which("go"):
        return f"needs Go {wanted} or newer; not found: go"
    said = subprocess.run(["go", "version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"go(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < OLDEST_GO:
        return f"needs Go {wanted} or newer; found {said.strip()}"
    return None


def program() -> Path:
    """Build the program, unless that was done; safe in several processes at once."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    built = CACHE / f"go-client-{digest.hexdigest()[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "go-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            print("fetching and building RocketMQ's Go client, once", file=sys.stderr, flush=True)
            _build(built)
    return built


def _build(target: Path) -> None:
    """Build into a file of another name, which gets its own only when it is whole."""
    with tempfile.TemporaryDirectory(prefix="unfinished-", dir=CACHE) as folder:
        unfinished = Path(folder) / "client"
        command = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", str(unfinished), "."]
        done = subprocess.run(
            command,
            cwd=SOURCES,
            env={**os.environ, "CGO_ENABLED": "0"},  # so that no C compiler is needed
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if done.returncode:
            raise GoToolError(f"go build failed:\n{done.stdout}{done.stderr}")
        unfinished.rename(target)


class GoTool:
    """One process of the Go client against one cluster; producers and consumers live in it by name."""

    def __init__(self, built: Path, home: Path, *, namesrv: str, broker: str) -> None:
        self._home = home  # the client keeps the offsets of broadcasting consumers in the home directory
        self._namesrv = namesrv
        self._broker = broker
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [built],
                cwd=home,
                env={**os.environ, "HOME": str(home)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def make_topic(self, topic: str, *, queues: int = 4) -> None:
        self.ask("topic", broker=self._broker, topic=topic, queues=queues)

    def producer(self, name: str, *, select: str = "round") -> GoProducer:
        """Start a producer; `select` is how it chooses queues: round, hash (of the sharding key) or manual."""
        self.ask("producer", name=name, group=name, select=select)
        return GoProducer(self, name)

    def push_consumer(
        self,
        name: str,
        topic: str,
        *,
        group: str,
        expression: str = "*",
        model: str = "clustering",
        orderly: bool = False,
        retries: int = 0,
        retry_level: int = 1,
    ) -> GoConsumer:
        """Start a push consumer; it asks for every message again until it was tried `retries` times."""
        how = {"expression": expression, "model": model, "orderly": orderly}
        again = {"retries": retries, "retryLevel": retry_level}
        self.ask("push", name=name, group=group, topic=topic, **how, **again)
        return GoConsumer(self, name)

    def transaction_producer(self, name: str) -> GoTransactions:
        self.ask("transaction", name=name, group=name)
        return GoTransactions(self, name)

    def pull_consumer(self, name: str, topic: str, *, group: str) -> GoConsumer:
        self.ask("pull", name=name, group=group, topic=topic)
        return GoConsumer(self, name)

    def ask(self, command: str, **fields: Any) -> Any:
        request = {"command": command, "namesrv": self._namesrv, **fields}
        line = self._exchange(json.dumps(request).encode() + b"\n")
        if not line:
            raise GoToolError(f"{command}: no answer; the process said\n{self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise GoToolError(f"{command}: {answer['error']}\n{self._last_words()}")
        return answer["result"]

    def _exchange(self, request: bytes) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(request)
            self._process.stdin.flush()
            if select.select([self._process.stdout], [], [], ANSWER_TIMEOUT)[0]:
                return self._process.stdout.readline()
        return b""

    def close(self) -> None:
        """End the process, and with it every producer and consumer that still runs."""
        try:
            self._process.communicate(timeout=10)  # it ends when its stdin does
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]

    @property
    def _log(self) -> Path:
        return self._home / "go-client.log"


class GoProducer:
    """A producer that runs in the Go process."""

    def __init__(self, tool: GoTool, name: str) -> None:
        self._tool = tool
        self.name = name

    def send(self, messages: Sequence[Message], *, how: str = "sync") -> list[dict[str, Any]]:
        """Send one after the other (sync), all at once (async), unanswered (oneway) or as one (batch); the results."""
        results: list[dict[str, Any]] = self._tool.ask("send", name=self.name, how=how, messages=list(messages))
        return results

    def request(self, message: Message, *, timeout_ms: int = 10_000) -> Delivery:
        """Send a message that asks for a reply; the reply."""
        reply: Delivery = self._tool.ask("request", name=self.name, message=message, timeoutMs=timeout_ms)
        return reply

    def stop(self) -> None:
        self._tool.ask("stop", name=self.name)


class GoTransactions:
    """A transaction producer that runs in the Go process; messages say in their property `fate` how they end."""

    def __init__(self, tool: GoTool, name: str) -> None:
        self._tool = tool
        self.name = name

    def transact(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self._tool.ask("transact", name=self.name, messages=list(messages))
        return results

    def questions(self, count: int = 0, *, wait_ms: int = WAIT_MS) -> list[Delivery]:
        """What the broker asked until now; waits until it has asked `count` times, but not longer than `wait_ms`."""
        asked: list[Delivery] = self._tool.ask("questions", name=self.name, count=count, timeoutMs=wait_ms)
        return asked

    def stop(self) -> None:
        self._tool.ask("stop", name=self.name)


class GoConsumer:
    """A push or pull consumer that runs in the Go process."""

    def __init__(self, tool: GoTool, name: str) -> None:
        self._tool = tool
        self.name = name

    def received(self, count: int = 0, *, wait_ms: int = WAIT_MS) -> list[Delivery]:
        """Every delivery until now, in its order; waits until there are `count`, but not longer than `wait_ms`."""
        came: list[Delivery] = self._tool.ask("received", name=self.name, count=count, timeoutMs=wait_ms)
        return came

    def stop(self) -> None:
        self._tool.ask("stop", name=self.name)


if __name__ == "__main__":
    reason = missing()
    if reason is None:
        program()
    else:
        print(f"the tests with RocketMQ's Go client will be skipped: {reason}", file=sys.stderr)
