"""Transactions of the Python client against a real server: seen when the block ends well, and otherwise never."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq import AsyncClient, Client
from embermq.errors import EmberError
from tests.builders import wait_until
from tests.e2e.conftest import Served, serving
from tests.e2e.test_client import a_name, run

SOON = """
[broker]
transaction_timeout_ms = 500
transaction_check_interval_ms = 500
"""


class No(Exception):
    pass


def bodies(mq: Client, topic: str) -> list[bytes]:
    return sorted(message.body for message in mq.read(topic))


def test_messages_are_seen_when_the_block_ends(ember: Served) -> None:
    topic = a_name("payments")
    with Client(ember.namesrv) as mq:
        mq.send(topic, b"first")
        with mq.transaction(topic) as tx:
            tx.send(b"paid", tags="eu", keys=["p-1"], properties={"amount": "12"})
            tx.send(b"x" * 10_000, sharding_key="k")
            assert bodies(mq, topic) == [b"first"]
        assert bodies(mq, topic) == [b"first", b"paid", b"x" * 10_000]
        (paid,) = [message for message in mq.read(topic) if message.body == b"paid"]
        assert (paid.tags, paid.keys, paid.properties["amount"]) == ("eu", ("p-1",), "12")


def test_nothing_is_seen_of_a_block_that_ends_by_an_exception(ember: Served) -> None:
    topic = a_name("payments")
    with Client(ember.namesrv) as mq:
        mq.send(topic, b"first")
        with pytest.raises(No), mq.transaction(topic) as tx:
            tx.send(b"not paid")
            raise No
        assert bodies(mq, topic) == [b"first"]


def test_the_same_with_asyncio(ember: Served) -> None:
    topic = a_name("payments")

    async def work() -> None:
        async with AsyncClient(ember.namesrv) as mq:
            async with mq.transaction(topic) as tx:
                await tx.send(b"paid")
            with pytest.raises(No):
                async with mq.transaction(topic) as tx:
                    await tx.send(b"not paid")
                    raise No
            assert [message.body async for message in mq.read(topic)] == [b"paid"]

    run(work)


def test_a_broker_that_did_not_hear_the_end_asks_and_is_told(tmp_path: Path) -> None:
    """It is away when the block ends, and comes back."""
    (tmp_path / "ember.toml").write_text(SOON)
    options = ("-c", str(tmp_path / "ember.toml"))
    with serving(tmp_path, *options, durability="sync") as served:
        addresses = {"listen": served.broker, "namesrv_listen": served.namesrv}
        mq = Client(served.namesrv, timeout=20)
        mq.send("payments", b"first")
        transaction = mq.transaction("payments", timeout=1)
        tx = transaction.__enter__()
        tx.send(b"paid")
        assert served.stop() == 0
    with pytest.raises(EmberError):
        transaction.__exit__(None, None, None)
    with serving(tmp_path, *options, durability="sync", **addresses), mq:
        mq.send("payments", b"last")
        wait_until(lambda: bodies(mq, "payments") == [b"first", b"last", b"paid"], seconds=60)
