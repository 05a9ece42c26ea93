"""A store is scanned through its broker, and gives what its files give; also when the broker goes away meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from embermq import Client, Message
from embermq.access.accounts import Accounts
from embermq.client.blocking import BrokerLine
from embermq.client.store_reading import PIECE_SIZE, BrokerStore
from embermq.errors import NotPermitted, ReadLost
from embermq.model.access import User
from embermq.scan.broker_files import broker_place
from embermq.scan.columns import ALL_COLUMNS
from embermq.scan.planner import list_queues, plan
from embermq.scan.reading import read_split
from embermq.scan.splits import QueueSplit, StorePlace
from embermq.scan.wanted import OffsetRange, Wanted
from tests.e2e.conftest import Served, serving
from tests.e2e.test_access import ADMIN, BILLING, make_config

LOG = f"commitlog/{0:020}"
COUNT = 3000


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with some MiB of messages."""
    with serving(tmp_path_factory.mktemp("filled")) as served:
        fill(served)
        yield served


def fill(served: Served) -> None:
    with Client(served.namesrv, timeout=20) as mq:
        for topic in ("orders", "bills"):
            messages = [Message(topic, b"%d" % number * 500, tags="eu", keys=[f"k{number}"]) for number in range(COUNT)]
            assert not [each for each in mq.send_many(messages) if isinstance(each, Exception)]


def rows(place: StorePlace | str, wanted: Wanted) -> list[dict[str, Any]]:
    splits = plan(place, wanted, split_size=1 << 20)
    return [row for split in splits for batch in read_split(split, wanted) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(system_topics=True, columns=ALL_COLUMNS),
        Wanted(topics=frozenset({"orders"})),
        Wanted(ranges=(OffsetRange("orders", 0, 10, 700), OffsetRange("bills", 3))),
        Wanted(keys=frozenset({"k7"})),
    ],
    ids=["everything", "a topic", "offsets", "a key"],
)
def test_a_broker_gives_what_its_files_give(filled: Served, wanted: Wanted) -> None:
    found = rows(broker_place(filled.broker), wanted)
    assert found
    assert found == rows(str(filled.data), wanted)


def test_queues_are_told_without_reading_them(filled: Served) -> None:
    assert list_queues(broker_place(filled.broker)) == list_queues(str(filled.data))
    wanted = Wanted(ranges=(OffsetRange("orders", 0, 10, 700),))
    assert all(isinstance(split, QueueSplit) for split in plan(broker_place(filled.broker), wanted))


def test_a_file_is_read_in_any_order(filled: Served) -> None:
    whole = (filled.data / LOG).read_bytes()
    file = BrokerStore(BrokerLine(filled.broker)).open(LOG)
    try:
        for size in (1, PIECE_SIZE - 1, PIECE_SIZE, PIECE_SIZE + 1, 3 * PIECE_SIZE):
            buffer, at = memoryview(bytearray(size)), 0
            for begin in (0, size, 2 * size, 100, 100 + size, 50, 50 + size // 2):  # on, and back, and into what comes
                count = file.read_into(buffer, begin)
                assert buffer[:count] == whole[begin : begin + count], (size, begin)
                at = begin + count
            assert at > 0
        end = BrokerStore(BrokerLine(filled.broker)).look().log_end
        assert file.read_into(memoryview(bytearray(PIECE_SIZE)), end - 100) == 100
        assert file.read_into(memoryview(bytearray(100)), end) == 0
    finally:
        file.close()
    with pytest.raises(FileNotFoundError, match="index/1"):
        BrokerStore(BrokerLine(filled.broker)).open("index/1").read_into(memoryview(bytearray(1)), 0)


def test_only_administrators_are_given_raw_bytes(tmp_path: Path) -> None:
    accounts = Accounts(make_config(tmp_path) / "access.json")
    accounts.save_user(User("admin", ADMIN["secret_key"], is_super=True), User("billing", BILLING["secret_key"]))
    with serving(tmp_path, "--access") as served:
        with Client(served.namesrv, **ADMIN) as mq:
            mq.send("orders", b"signed")
        found = rows(broker_place(served.broker, **ADMIN), Wanted(topics=frozenset({"orders"})))
        assert [row["body"] for row in found] == [b"signed"]
        for keys in ({}, BILLING):
            with pytest.raises(NotPermitted, match="the folder /"):
                rows(broker_place(served.broker, **keys), Wanted())
        assert "first-secret" not in repr(broker_place(served.broker, **ADMIN))


def test_a_read_goes_on_when_the_broker_comes_back(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        fill(served)
        addresses = {"listen": served.broker, "namesrv_listen": served.namesrv}
        wanted = Wanted(system_topics=True, columns=ALL_COLUMNS)
        expected = rows(str(served.data), wanted)
        splits = plan(broker_place(served.broker), wanted)
        batches = (row for split in splits for batch in read_split(split, wanted) for row in batch.to_pylist())
        found = [next(batches)]
        served.process.kill()
        served.process.wait()
    with serving(tmp_path, **addresses):
        found += batches
    assert found == expected


def test_a_broker_that_stays_away_is_named_with_the_place(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        fill(served)
        splits = plan(broker_place(served.broker, patience_s=1.0), Wanted())
        batches = read_split(splits[0], Wanted())
        next(batches)
        served.process.kill()
        served.process.wait()
        with pytest.raises(ReadLost, match=rf"broker {served.broker}: commitlog/0{{20}} at byte \d+ could not be read"):
            list(batches)
        with pytest.raises(ReadLost, match="tried again for 1 s; start the broker"):
            plan(broker_place(served.broker, patience_s=1.0), Wanted())
