"""Every store that RocketMQ wrote, read as columns: whole and in parts, each message once and as RocketMQ read it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from embermq.scan.columns import ALL_COLUMNS
from embermq.scan.planner import list_queues, plan
from embermq.scan.reading import read_split
from embermq.scan.wanted import Wanted
from tests.conftest import GOLDEN, Golden

NAMES = sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "stores").glob("*.tar.xz"))
AS_STORED = Wanted(system_topics=True, columns=ALL_COLUMNS, decode_body=False)


class Opened:
    """A golden store, and what RocketMQ says of it."""

    def __init__(self, name: str, path: Path, golden: Golden) -> None:
        self.name = name
        self.path = str(path)
        self.expected = golden.expected(name)
        self.records: list[dict[str, Any]] = self.expected["commitLog"]["records"]


@pytest.fixture(scope="module", params=NAMES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    golden = Golden(tmp_path_factory.mktemp("golden"))
    return Opened(request.param, golden.store(request.param), golden)


def read(path: str, wanted: Wanted, **how: Any) -> list[dict[str, Any]]:
    splits = plan(path, wanted, **how)
    return [row for split in splits for batch in read_split(split, wanted) for row in batch.to_pylist()]


def facts_of(row: dict[str, Any]) -> dict[str, Any]:
    """A row in the words of the golden data."""
    body, properties = row["body"], dict(row["properties"])
    assert (row["tags"], row["keys"], row["uniqKey"]) == tuple(map(properties.get, ("TAGS", "KEYS", "UNIQ_KEY")))
    return {
        **{name: row[name] for name in ("physicalOffset", "topic", "queueId", "queueOffset", "flag", "sysFlag")},
        **{name: row[name] for name in ("bodyCRC", "bornHost", "storeHost", "reconsumeTimes")},
        "preparedTransactionOffset": row["preparedTransactionOffset"],
        "totalSize": row["storeSize"],
        "bornTimestamp": milliseconds_of(row["bornTimestamp"]),
        "storeTimestamp": milliseconds_of(row["storeTimestamp"]),
        "properties": properties,
        "bodySize": len(body),
        **({"bodyHex": body.hex()} if len(body) <= 256 else {"bodySha256": hashlib.sha256(body).hexdigest()}),
    }


def milliseconds_of(time: Any) -> int:
    return round(time.timestamp() * 1000)


def comparable(facts: dict[str, Any]) -> dict[str, Any]:
    """What a row tells of a golden record."""
    left_out = {"storedPhysicalOffset", "magic", "msgId", "plainBodySha256", "plainBodySize"}
    digests = {name: facts[name].lower() for name in ("bodyHex", "bodySha256") if name in facts}
    return {**{name: value for name, value in facts.items() if name not in left_out}, **digests}


@pytest.mark.parametrize("split_size", [None, 5_003])
def test_every_record_is_read_once_and_as_rocketmq_read_it(opened: Opened, split_size: int | None) -> None:
    rows = read(opened.path, AS_STORED, split_size=split_size)
    assert list(map(facts_of, rows)) == list(map(comparable, opened.records))


def queues_of(expected: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for topic, queues in expected["consumeQueues"].items():
        for queue, facts in queues.items():
            yield topic, int(queue), facts


def test_queues_have_the_offsets_that_rocketmq_says(opened: Opened) -> None:
    if opened.name == "rocksdb-cq":
        pytest.skip("its queues are no files")
    found = {(state.topic, state.queue): (state.begin, state.end) for state in list_queues(opened.path)}
    for topic, queue, facts in queues_of(opened.expected):
        if facts.get("units") and "minOffset" in facts:
            assert found[topic, queue] == (facts["minOffset"], facts["maxOffset"]), (topic, queue)
