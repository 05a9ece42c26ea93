"""RocketMQ's own Java clients and mqadmin, for tests: the process in java/…/client/ClientTool.java, driven from here.

`ClientTool` is the process; it answers requests of several threads at once. `Clients` makes clients in it that
talk to one cluster, and closes those that are left.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from tests.compat.store_tool import JVM

Facts = dict[str, Any]
T = TypeVar("T")
ANSWER_TIMEOUT = 150.0  # seconds
_numbers = itertools.count(1)


class Refused(Exception):
    """What RocketMQ's client or tool threw."""

    def __init__(self, request: str, error: Mapping[str, Any]) -> None:
        super().__init__(f"{request}: {error['type']}, code {error['code']}: {error['message']}")
        self.type: str = error["type"]
        self.code: int | None = error["code"]
        self.text: str = error["message"]


class ClientTool:
    """One Java process; `properties` are its system properties."""

    def __init__(self, classes: str, home: Path, properties: Mapping[str, object] | None = None) -> None:
        self.home = home
        self._log = home / "client-tool.log"
        given = [f"-D{name}={value}" for name, value in (properties or {}).items()]
        command = ["java", *JVM, f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", *given, "-cp", classes]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "embermq.compat.client.ClientTool"],
                cwd=home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._waiting: dict[int, Future[Facts]] = {}
        self._unread: list[Future[Facts]] = []  # answers that nobody waits for
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, op: str, *, wait_s: float = 0, **fields: Any) -> Any:
        """The result of a request, which itself may wait for `wait_s`; raises Refused."""
        facts = self._send({"op": op, **fields}).result(ANSWER_TIMEOUT + wait_s)
        if "error" in facts:
            what = " ".join(str(fields[name]) for name in ("target", "method", "args", "name") if name in fields)
            raise Refused(f"{op} {what}", facts["error"])
        return facts["result"]

    def tell(self, op: str, **fields: Any) -> None:
        """A request whose answer is looked at when the process is closed."""
        self._unread.append(self._send({"op": op, **fields}))

    def _send(self, request: Facts) -> Future[Facts]:
        number, answer = next(_numbers), Future[Facts]()
        assert self._process.stdin is not None
        with self._lock:
            self._waiting[number] = answer
            self._process.stdin.write(json.dumps({"id": number, **request}).encode() + b"\n")
            self._process.stdin.flush()
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer: Facts = json.loads(line)
            self._waiting.pop(answer["id"]).set_result(answer)
        for each in self._waiting.values():
            each.set_exception(RuntimeError(f"ClientTool ended; it said\n{self._log.read_text()[-2000:]}"))

    def kill(self) -> None:
        """End the process, and all its clients, as a crash does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def close(self) -> None:
        """End the process; clients that are still open are not missed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        failures = [facts for facts in (each.result(ANSWER_TIMEOUT) for each in self._unread) if "error" in facts]
        if self._process.poll() is None:
            self._process.stdin.close()  # it ends when its stdin does
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()
        assert not failures, failures


class Client:
    """One client of the process, by its name there."""

    def __init__(self, tool: ClientTool, name: str, client_id: str) -> None:
        self.tool = tool
        self.name = name
        self.client_id = client_id
        self.is_open = True

    def call(self, method: str, *arguments: Any, part: str = "") -> Any:
        """Any public method of the client, or of what its getter `part` gives."""
        target = f"{self.name}.{part}" if part else self.name
        return self.tool.ask("call", target=target, method=method, args=list(arguments))

    def close(self, *, wait: bool = True) -> None:
        if self.is_open:
            self.is_open = False
            (self.tool.ask if wait else self.tool.tell)("close", target=self.name)


class Producer(Client):
    def send(self, *messages: Facts, mode: str = "sync") -> list[Facts]:
        """What came of each message, refusals included; of a batch, one result."""
        results: list[Facts] = self.tool.ask("send", target=self.name, mode=mode, messages=list(messages))
        return results

    def send_ok(self, *messages: Facts, mode: str = "sync") -> list[Facts]:
        """The same, where every message must be accepted."""
        results = self.send(*messages, mode=mode)
        for result in results:
            assert result.get("status") == "SEND_OK", result
        return results

    def refusal(self, message: Facts) -> Facts:
        """The error of a message that must not be accepted."""
        (result,) = self.send(message)
        assert "error" in result, f"accepted: {result}"
        error: Facts = result["error"]
        return error


class TransactionProducer(Producer):
    """Ends transactions as the property `fate` of their messages says, see java/…/Deciding.java."""

    def transact(self, *messages: Facts) -> list[Facts]:
        """Send each in a transaction of its own; what came of them."""
        results: list[Facts] = self.tool.ask("transact", target=self.name, messages=list(messages))
        return results

    def questions(self, count: int = 0, *, seconds: float = 60.0) -> list[Facts]:
        """All that the broker asked so far, as soon as there are `count`; fewer when that does not happen in time."""
        facts: list[Facts] = self.tool.ask(
            "questions", target=self.name, count=count, timeoutMs=int(seconds * 1000), wait_s=seconds
        )
        return facts


class PushConsumer(Client):
    def deliveries(self, count: int = 0, *, seconds: float = 20.0) -> list[Facts]:
        """All so far, as soon as there are `count`; fewer when that does not happen in time."""
        facts: list[Facts] = self.tool.ask(
            "deliveries", target=self.name, count=count, timeoutMs=int(seconds * 1000), wait_s=seconds
        )
        return facts

    def bodies(self, count: int = 0, *, seconds: float = 20.0) -> list[str]:
        return [text(delivery) for delivery in self.deliveries(count, seconds=seconds)]

    def queues(self, topic: str) -> list[int]:
        """The numbers of the topic's queues that this consumer has now."""
        info = self.call("consumerRunningInfo", part="defaultMQPushConsumerImpl")
        return sorted(int(key.rsplit("/", 1)[1]) for key in info["mqTable"] if key.startswith(f"{topic}/"))


class LitePullConsumer(Client):
    def poll(self, count: int, *, seconds: float = 15.0) -> list[Facts]:
        """Messages, until there are `count` or the time is over."""
        facts: list[Facts] = self.tool.ask(
            "poll", target=self.name, count=count, timeoutMs=int(seconds * 1000), wait_s=seconds
        )
        return facts


class Clients:
    """Makes clients for one cluster; a context that closes them. With a user, they sign what they ask."""

    def __init__(self, tool: ClientTool, namesrv: str, *, user: tuple[str, str] | None = None) -> None:
        self.tool = tool
        self.namesrv = namesrv
        self.credentials = {} if user is None else {"accessKey": user[0], "secretKey": user[1]}
        self._made: list[Client] = []

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        for client in reversed(self._made):
            client.close(wait=False)  # a shutdown takes seconds, and the next test has other topics and groups

    def producer(self, group: str = "producers", **settings: Any) -> Producer:
        return self._make(Producer, "producer", group, settings)

    def transaction_producer(self, group: str, **settings: Any) -> TransactionProducer:
        return self._make(TransactionProducer, "transaction", group, settings)

    def push(
        self,
        group: str,
        subscribe: Mapping[str, str | tuple[str, str]],
        *,
        listener: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> PushConsumer:
        """A push consumer of the topics in `subscribe`, with the tags that it wants of each, or (text, "SQL92")."""
        settings = {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "pollNameServerInterval": 1_000,
            # A listener tells of a message before the client counts it as done, which one that is closed still does.
            "awaitTerminationMillisWhenShutdown": 5_000,
        } | settings  # fmt: skip
        more = {"subscribe": _wanted(subscribe), "listener": dict(listener or {})}
        return self._make(PushConsumer, "push", group, settings, **more)

    def pull(self, group: str, **settings: Any) -> Client:
        return self._make(Client, "pull", group, settings)

    def lite(
        self, group: str, subscribe: Mapping[str, str | tuple[str, str]] | None = None, **settings: Any
    ) -> LitePullConsumer:
        settings = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"} | settings
        more = {"subscribe": _wanted(subscribe or {})}
        return self._make(LitePullConsumer, "lite", group, settings, **more)

    def admin(self, **settings: Any) -> Client:
        return self._make(Client, "admin", "", settings)

    def _make(self, kind: Callable[..., T], java_kind: str, group: str, settings: Facts, **more: Any) -> T:
        name = f"{java_kind}-{next(_numbers)}"
        settings = {"namesrvAddr": self.namesrv, **settings}
        more = {"settings": settings, "group": group, "start": True, **self.credentials, **more}
        client = kind(self.tool, name, self.tool.ask("make", name=name, kind=java_kind, **more))
        assert isinstance(client, Client)
        self._made.append(client)
        return client


def _wanted(subscribe: Mapping[str, str | tuple[str, str]]) -> list[list[str]]:
    """Topics with what is wanted of them, as java/…/Clients.java reads it."""
    return [[topic, *([wanted] if isinstance(wanted, str) else wanted)] for topic, wanted in subscribe.items()]


def text(message: Mapping[str, Any]) -> str:
    """A message's body."""
    return bytes.fromhex(message["bodyHex"]).decode()


def texts(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    return [text(message) for message in messages]


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run all of them at the same time; their results, in order."""
    if not tasks:
        return []
    with ThreadPoolExecutor(len(tasks)) as pool:
        return [each.result() for each in [pool.submit(task) for task in tasks]]
