"""A broker gives the bytes of its store's files: those that are shared, as far as they are visible, and no others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from embermq.broker.broker import Broker
from embermq.broker.shared_files import LARGEST_READ
from embermq.format.store_body import decode_folders, decode_queues
from embermq.model.codes import ResponseCode
from embermq.store.archive_marks import find_archived
from tests.unit.broker.brokers import Client, until, with_broker

LOOK, LIST, READ, MARK = 30_005, 30_006, 30_007, 30_008
FIRST = f"{0:020}"


def run(path: Path, work: Callable[[Broker, Client], Awaitable[None]], **settings: Any) -> None:
    """Let `work` use a broker with some messages of two topics."""

    async def with_messages(broker: Broker) -> None:
        client = Client(broker)
        for number in range(300):
            sent = await client.send(("orders", "bills")[number % 2], b"%d" % number * 100, queue=number % 3)
            assert sent.code == 0, sent
        await work(broker, client)

    with_broker(path, with_messages, **settings)


def read_fields(path: str, begin: int = 0, size: int = LARGEST_READ) -> dict[str, str]:
    return {"path": path, "begin": str(begin), "size": str(size)}


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
def test_a_look_tells_of_log_and_queues(tmp_path: Path, durability: str) -> None:
    async def work(broker: Broker, client: Client) -> None:
        answer = await client.ask(LOOK)
        assert (answer.fields["brokerName"], int(answer.fields["logBegin"])) == ("broker-a", 0)
        assert int(answer.fields["logEnd"]) == broker.store.dispatched
        spans = {(span.topic, span.queue): (span.begin, span.end) for span in decode_queues(answer.data)}
        assert spans == {
            (topic, queue): broker.store.offsets(topic, queue=queue)
            for topic in ("orders", "bills")
            for queue in range(3)
        }
        some = await client.ask(LOOK, {"topics": "bills;nothing"})
        assert {span.topic for span in decode_queues(some.data)} == {"bills"}

    run(tmp_path, work, durability=durability)


def test_folders_are_listed_as_they_are_and_nothing_else(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        root = decode_folders((await client.ask(LIST, {"folder": ""})).data)[""]
        assert [each.name for each in root] == ["abort", "checkpoint", "commitlog", "consumequeue"]
        deep = decode_folders((await client.ask(LIST, {"folder": "consumequeue", "deep": "true"})).data)
        for folder, entries in deep.items():
            there = sorted((tmp_path / "consumequeue" / folder).iterdir())
            assert [(each.name, each.is_folder) for each in entries] == [(each.name, each.is_dir()) for each in there]
        assert len(deep) == 1 + 2 + 6
        (log,) = decode_folders((await client.ask(LIST, {"folder": "commitlog"})).data).values()
        assert [each.name for each in log] == [file.path.name for file in broker.store.log_files().files]
        assert decode_folders((await client.ask(LIST, {"folder": "index"})).data) == {"": ()}

    run(tmp_path, work, index_enabled=False)


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
def test_the_bytes_of_files_are_given_and_of_the_log_those_that_are_visible(tmp_path: Path, durability: str) -> None:
    async def work(broker: Broker, client: Client) -> None:
        store, given = broker.store, b""
        visible = store.dispatched  # less than there is while write buffers have some
        for file in store.log_files().files:
            given += (await client.ask(READ, read_fields(f"commitlog/{file.path.name}"))).data
        assert 0 < visible <= len(given) <= store.dispatched <= store.log_files().end
        assert given == b"".join(bytes(file.view) for file in store.log_files().files)[: len(given)]
        await until(lambda: store.dispatched == store.log_files().end)  # from now on no file changes
        for path in (f"consumequeue/orders/0/{FIRST}", "checkpoint", "abort"):
            assert (await client.ask(READ, read_fields(path))).data == (tmp_path / path).read_bytes()
        part = await client.ask(READ, read_fields(f"commitlog/{FIRST}", 1000, 10))
        assert part.data == given[1000:1010]
        beyond = await client.ask(
            READ, read_fields(f"commitlog/{file.path.name}", store.log_files().end - file.start, 10)
        )
        assert (beyond.code, beyond.data) == (0, b"")

    run(tmp_path, work, durability=durability)


def test_what_is_not_in_memory_is_fetched_and_given_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from embermq.files import memory

    async def work(broker: Broker, client: Client) -> None:
        before = (await client.ask(READ, read_fields(f"commitlog/{FIRST}", 0, 5000))).data
        monkeypatch.setattr(memory, "is_resident", lambda *_: False)
        assert (await client.ask(READ, read_fields(f"commitlog/{FIRST}", 0, 5000))).data == before

    run(tmp_path, work)


@pytest.mark.parametrize(
    "path",
    ["config/topics.json", "config/access.json", "lock", "staged/j/t.chunks", "/etc/passwd", "../x", "commitlog",
     "commitlog/../config/topics.json", f"commitlog/{FIRST}/..", "commitlog/lock", "index/..", "index/../lock",
     f"consumequeue/../consumequeue/0/{FIRST}", f"consumequeue/./0/{FIRST}", f"consumequeue/orders/../{FIRST}",
     "consumequeue/orders/0/..", f"consumequeue/orders/0/{FIRST}\0", f"consumequeue//0/{FIRST}", "checkpoint/",
     f"consumequeue/orders/0/{FIRST}/x", "commitlog/" + "1" * 21, "commitlog/٣", "abort\0"],
)  # fmt: skip
def test_no_name_leads_elsewhere(tmp_path: Path, path: str) -> None:
    async def work(broker: Broker, client: Client) -> None:
        answer = await client.ask(READ, read_fields(path))
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "no file that is shared" in (answer.remark or "")
        listed = await client.ask(LIST, {"folder": path, "deep": "true"})
        assert listed.code == (0 if path == "commitlog" else ResponseCode.INVALID_PARAMETER)

    run(tmp_path, work)


@pytest.mark.parametrize(
    ("begin", "size"), [(-1, 10), (2**48, 10), (0, 0), (0, -1), (0, LARGEST_READ + 1), (2**63 - 1, 1)]
)
@pytest.mark.parametrize("path", [f"commitlog/{FIRST}", "checkpoint"])
def test_ranges_that_cannot_be_are_refused(tmp_path: Path, path: str, begin: int, size: int) -> None:
    async def work(broker: Broker, client: Client) -> None:
        assert (await client.ask(READ, read_fields(path, begin, size))).code == ResponseCode.INVALID_PARAMETER

    run(tmp_path, work)


@pytest.mark.parametrize("path", [f"commitlog/{10**19}", "commitlog/1", f"consumequeue/none/0/{FIRST}", "index/1"])
def test_a_file_that_is_gone_is_told(tmp_path: Path, path: str) -> None:
    async def work(broker: Broker, client: Client) -> None:
        assert (await client.ask(READ, read_fields(path))).code == ResponseCode.QUERY_NOT_FOUND

    run(tmp_path, work)


def test_the_mark_of_an_archive_is_kept_if_it_can_be_one(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        end = broker.store.dispatched
        good = {"archive": "5f" * 16, "position": str(end), "target": "s3://somewhere"}
        for bad in ({"archive": "../abort"}, {"position": str(end + 1)}, {"position": "-1"}):
            assert (await client.ask(MARK, good | bad)).code != ResponseCode.SUCCESS
        assert find_archived(broker.store.path) == 0
        assert (await client.ask(MARK, good)).code == ResponseCode.SUCCESS
        assert find_archived(broker.store.path) == end
        assert [path.name for path in (broker.store.path / "archived").iterdir()] == [f"{'5f' * 16}.json"]

    run(tmp_path, work)
