"""The main job from end to end in a temporary directory: serve, send, consume as a group, retry, read, files, Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from embermq import Client, Message, SendReceipt, open_store

ANY_PORT = "127.0.0.1:0"
QUIET_S = 2.0  # a group that gets nothing for so long has had everything
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


@contextmanager
def broker(data: Path) -> Iterator[str]:
    """`ember serve` in a process of its own; gives the address of its name server."""
    command = [sys.executable, "-m", "embermq", "serve", "--data", str(data)]
    command += ["--listen", ANY_PORT, "--namesrv-listen", ANY_PORT, "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()  # `ready namesrv=… broker=… data=… durability=…`
            said = dict(word.split("=", 1) for word in line.split()[1:])
            print(f"serve    name server {said['namesrv']}, broker {said['broker']}, durability {said['durability']}")
            yield said["namesrv"]
        finally:
            process.terminate()


def send(mq: Client) -> None:
    receipt = mq.send("orders", b'{"amount": 12}', tags="eu", keys=["o-1"])
    print(f"send     {receipt.topic} queue {receipt.queue} offset {receipt.offset}, id {receipt.message_id}")
    orders = [Message("orders", b"order %d" % n, tags="us" if n % 2 else "eu", keys=[f"o-{n}"]) for n in range(2, 1001)]
    outcomes = mq.send_many(orders, timeout=30)
    print(f"send     {sum(isinstance(outcome, SendReceipt) for outcome in outcomes)} more in batches; all are on disk")


def consume(mq: Client) -> None:
    done = failed = 0
    for message in mq.consume("orders", group="billing", filter="eu", timeout=QUIET_S):
        if message.keys == ("o-500",) and message.attempt == 1:
            message.give_back(timedelta(seconds=1))  # an exception inside `with message:` does the same
            failed += 1
            continue
        with message:  # acked at its end
            done += 1
        if message.attempt > 1:
            print(f"retry    {message.keys[0]} came again, attempt {message.attempt}")
    print(f"consume  group billing: {done} with tag eu, {failed} failed at first")


def query(data: Path) -> None:
    """Ask Spark about the files."""
    if shutil.which("java") is None:
        print("spark    left out: it needs Java 17, and there is no `java` here")
        return
    import embermq_spark

    spark = embermq_spark.session("demo", settings=QUIET)
    spark.read.format("rocketmq").option("subscribe", "orders").load(str(data)).createOrReplaceTempView("orders")
    question = "SELECT tags, count(*) AS messages, sum(length(body)) AS bytes FROM orders GROUP BY tags ORDER BY tags"
    for tags, messages, size in spark.sql(question).collect():
        print(f"spark    {messages} orders from {tags}, {size} bytes")
    spark.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        with broker(data) as namesrv, Client(namesrv) as mq:
            send(mq)
            consume(mq)
            count = sum(1 for _ in mq.read("orders", since=timedelta(minutes=1)))
            print(f"read     without a group: {count} messages of the last minute; no offset moved")
        with open_store(data, reserve_bytes=0) as store:  # the same files, without a server
            found = store.query("orders", key="o-500")
            print(f"store    key o-500 is in the log at position {found[0].position}: {found[0].body.decode()}")
        query(data)


if __name__ == "__main__":
    main()
