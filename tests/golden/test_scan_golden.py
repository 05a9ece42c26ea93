"""Every store that RocketMQ wrote, read as columns: whole and in parts, each message once and as RocketMQ read it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from embermq.format.batch import iter_batch
from embermq.model.flags import SysFlag
from embermq.model.properties import parse_properties
from embermq.model.topic import is_system_topic
from embermq.scan.columns import ALL_COLUMNS
from embermq.scan.numpy_engine import NumpyEngine
from embermq.scan.planner import list_queues, plan
from embermq.scan.reading import read_split
from embermq.scan.split_context import MakeEngine
from embermq.scan.wanted import OffsetRange, Wanted
from tests.conftest import GOLDEN, Golden

NAMES = sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "stores").glob("*.tar.xz"))
AS_STORED = Wanted(system_topics=True, columns=ALL_COLUMNS, decode_body=False)
Facts = dict[str, Any]


class Opened:
    """A golden store, and what RocketMQ says of it."""

    def __init__(self, name: str, path: Path, golden: Golden) -> None:
        self.name = name
        self.path = str(path)
        self.expected = golden.expected(name)
        self.records: list[Facts] = self.expected["commitLog"]["records"]
        self.queues: dict[tuple[str, int], Facts] = {
            (topic, int(queue)): facts
            for topic, queues in self.expected["consumeQueues"].items()
            for queue, facts in queues.items()
            if facts.get("units") and name != "rocksdb-cq"  # whose queues are no files
        }

    @property
    def topics(self) -> list[str]:
        return sorted({facts["topic"] for facts in self.records})


@pytest.fixture(scope="module", params=NAMES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    golden = Golden(tmp_path_factory.mktemp("golden"))
    return Opened(request.param, golden.store(request.param), golden)


@pytest.fixture(params=["compiled", "numpy"])
def engine(request: pytest.FixtureRequest) -> MakeEngine:
    if request.param == "numpy":
        return NumpyEngine
    pytest.importorskip("numba")
    from embermq.scan.compiled_engine import CompiledEngine

    return CompiledEngine


def read(path: str, wanted: Wanted, engine: MakeEngine = NumpyEngine, **how: Any) -> list[Facts]:
    splits = plan(path, wanted, **how)
    batches = [batch for split in splits for batch in read_split(split, wanted, make_engine=engine)]
    return [row for batch in batches for row in batch.to_pylist()]


def facts_of(row: Facts) -> Facts:
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


def comparable(facts: Facts) -> Facts:
    """What a row tells of a golden record."""
    left_out = {"storedPhysicalOffset", "magic", "msgId", "plainBodySha256", "plainBodySize"}
    digests = {name: facts[name].lower() for name in ("bodyHex", "bodySha256") if name in facts}
    return {**{name: value for name, value in facts.items() if name not in left_out}, **digests}


def positions(rows: list[Facts]) -> list[int]:
    return [row["physicalOffset"] for row in rows]


@pytest.mark.parametrize("split_size", [None, 5_003])
def test_every_record_is_read_once_and_as_rocketmq_read_it(
    opened: Opened, engine: MakeEngine, split_size: int | None
) -> None:
    rows = read(opened.path, AS_STORED, engine, split_size=split_size)
    assert list(map(facts_of, rows)) == list(map(comparable, opened.records))


def test_bodies_are_unpacked_and_batches_taken_apart(opened: Opened, engine: MakeEngine) -> None:
    pytest.importorskip("lz4.frame")
    pytest.importorskip("zstandard")
    stored = {row["physicalOffset"]: row for row in read(opened.path, AS_STORED, engine)}
    expected = []
    for facts in opened.records:
        position = facts["physicalOffset"]
        if facts["sysFlag"] & SysFlag.INNER_BATCH:
            elements = list(iter_batch(stored[position]["body"]))
            assert len(elements) == int(facts["properties"]["INNER_NUM"])
            expected += [
                (position, facts["queueOffset"] + number, sha256(element.body), parse_properties(element.properties))
                for number, element in enumerate(elements)
            ]
        else:
            digest = facts.get("plainBodySha256", sha256(stored[position]["body"])).lower()
            expected.append((position, facts["queueOffset"], digest, facts["properties"]))
    rows = read(opened.path, Wanted(system_topics=True, columns=ALL_COLUMNS), engine, split_size=7_001)
    assert [
        (row["physicalOffset"], row["queueOffset"], sha256(row["body"]), dict(row["properties"])) for row in rows
    ] == expected


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_topic_is_read_alone(opened: Opened, engine: MakeEngine) -> None:
    for topic in opened.topics:
        rows = read(opened.path, replace(AS_STORED, topics=frozenset({topic})), engine)
        assert positions(rows) == positions([facts for facts in opened.records if facts["topic"] == topic])


def test_system_topics_are_left_out_unless_asked_for(opened: Opened) -> None:
    rows = read(opened.path, replace(AS_STORED, system_topics=False))
    assert positions(rows) == positions([facts for facts in opened.records if not is_system_topic(facts["topic"])])


def test_queues_have_the_offsets_that_rocketmq_says(opened: Opened) -> None:
    found = {(state.topic, state.queue): (state.begin, state.end) for state in list_queues(opened.path)}
    for queue, facts in opened.queues.items():
        if "minOffset" in facts:
            assert found[queue] == (facts["minOffset"], facts["maxOffset"]), queue


def test_every_queue_is_read_through_its_entries(opened: Opened, engine: MakeEngine) -> None:
    for (topic, queue), facts in opened.queues.items():
        rows = read(opened.path, replace(AS_STORED, ranges=(OffsetRange(topic, queue),)), engine)
        assert [(row["physicalOffset"], row["storeSize"]) for row in rows] == [
            tuple(unit[:2]) for unit in facts["units"]
        ]


def test_a_range_of_offsets_is_read_and_nothing_else(opened: Opened, engine: MakeEngine) -> None:
    everything = read(opened.path, replace(AS_STORED, decode_body=True), engine)
    for state in list_queues(opened.path):
        begin, end = state.begin + (state.end - state.begin) // 3, state.begin + (state.end - state.begin) * 2 // 3
        if begin == end or state.topic.startswith("%LMQ%"):
            continue
        part = OffsetRange(state.topic, state.queue, begin, end)
        rows = read(opened.path, replace(AS_STORED, decode_body=True, ranges=(part,)), engine)
        assert rows == [
            row
            for row in everything
            if (row["topic"], row["queueId"]) == part[:2] and begin <= row["queueOffset"] < end
        ]
        assert len(rows) == end - begin


def test_a_range_of_times_is_read_and_nothing_else(opened: Opened, engine: MakeEngine) -> None:
    times = sorted(facts["storeTimestamp"] for facts in opened.records)
    begin, end = times[len(times) // 4], times[len(times) * 3 // 4]
    rows = read(opened.path, replace(AS_STORED, begin_time_ms=begin, end_time_ms=end), engine, split_size=9_001)
    assert positions(rows) == positions([facts for facts in opened.records if begin <= facts["storeTimestamp"] < end])


def test_keys_find_their_messages(opened: Opened, engine: MakeEngine) -> None:
    keys = {key for facts in opened.records[::17] for key in facts["properties"].get("KEYS", "").split(" ") if key}
    for key in sorted(keys)[:6]:
        rows = read(opened.path, replace(AS_STORED, keys=frozenset({key})), engine)
        assert positions(rows) == positions(
            [facts for facts in opened.records if key in facts["properties"].get("KEYS", "").split(" ")]
        )


def test_unique_keys_find_their_messages(opened: Opened, engine: MakeEngine) -> None:
    keys = sorted({facts["properties"].get("UNIQ_KEY", "") for facts in opened.records[::29]} - {""})
    wanted = frozenset(keys[:5])
    rows = read(opened.path, replace(AS_STORED, unique_keys=wanted), engine)
    assert positions(rows) == positions(
        [facts for facts in opened.records if facts["properties"].get("UNIQ_KEY") in wanted]
    )


def test_tags_choose_messages(opened: Opened, engine: MakeEngine) -> None:
    tags = sorted({facts["properties"].get("TAGS", "") for facts in opened.records} - {""})[:2]
    rows = read(opened.path, replace(AS_STORED, filter_text=" || ".join(tags) or "*"), engine)
    assert positions(rows) == positions(
        [facts for facts in opened.records if not tags or facts["properties"].get("TAGS") in tags]
    )
