"""We write the bytes that RocketMQ writes, and make its queues and index again from its log, byte for byte."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from embermq import open_store
from embermq.format.record import Draft, Record
from embermq.model.properties import format_properties, parse_properties
from tests.builders import ManualClock
from tests.compat.agreement import check_we_see
from tests.compat.expected import CRC, Facts
from tests.compat.samples import BATCH_TOPIC, ROCKETMQ, SETTINGS, TOPICS, for_rocketmq, open_samples
from tests.compat.store_tool import StoreTool
from tests.compat.views import DERIVED_FOLDERS, derived_files, iter_records, our_records
from tests.conftest import GOLDEN, Golden

INDEX_HEAD = 40 + 4 * SETTINGS["index_slots"]
SECONDS_OF_FIRST_ENTRY = slice(INDEX_HEAD + 20 + 12, INDEX_HEAD + 20 + 16)
FILLED_IN = ("INNER_BASE", "INNER_MULTI_QUEUE_OFFSET")  # by the store that assigns the offsets


class Way(NamedTuple):
    """How both write: settings of RocketMQ, ours, and what is in all its messages."""

    config: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    fields: Mapping[str, Any] = {}


WAYS = {
    "plain": Way(),
    "ipv6": Way(settings={"store_host": "[::1]:10911"}, fields={"storeHost": "::1:10911"}),
    "checksums": Way(config={"enabledAppendPropCRC": True}, settings={"property_crc": True}),
    "extended": Way(config={"enableConsumeQueueExt": True}, settings={"extended_queues": True}),
}
# Of these we make all queues again. The others: in cq-ext a broker added filter bits that are nowhere else,
# rocksdb-cq has other queues, and those that crashed lacked what we add.
REBUILT = sorted(
    path.name.removesuffix(".tar.xz")
    for path in (GOLDEN / "stores").glob("*.tar.xz")
    if not re.match("cq-ext|rocksdb-cq|crashed|torn-", path.name)
)


class Twins(NamedTuple):
    """Two directories with one beginning: the first went on with RocketMQ, by these puts; the second stands still."""

    theirs: Path
    begun: Path
    puts: list[Facts]


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


@pytest.fixture(scope="module")
def twins(store_tool: StoreTool, tmp_path_factory: pytest.TempPathFactory, way: Way) -> Twins:
    work = tmp_path_factory.mktemp("twins")
    theirs, begun = work / "theirs", work / "begun"
    theirs.mkdir()
    config = {**ROCKETMQ, **way.config}
    first, second = ([put | way.fields for put in for_rocketmq(seed, count=90)] for seed in (1, 2))
    store_tool.write(theirs, first, config=config, topics=TOPICS)
    shutil.copytree(theirs, begun)
    return Twins(theirs, begun, store_tool.write(theirs, second, config=config))


def test_what_we_append_to_a_store_of_rocketmq_is_what_rocketmq_appends(twins: Twins, way: Way, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    shutil.copytree(twins.begun, ours)
    before = len(our_records(ours))
    groups = list(iter_groups(list(iter_records(twins.theirs))[before:], twins.puts))
    clock = ManualClock()
    with open_samples(ours, clock, **way.settings) as store:
        for records in groups:
            clock.time_ms = records[0].store_time
            store.put_drafts(lambda records=records: list(map(as_draft, records)), together=len(records) > 1)

    for mine, theirs in zip(iter_records(ours), iter_records(twins.theirs), strict=True):
        assert as_compared(mine) == as_compared(theirs)
    assert queue_files(ours) == queue_files(twins.theirs)
    assert index_files(ours) == index_files(twins.theirs)


def iter_groups(records: Sequence[Record], puts: Sequence[Facts]) -> Iterator[list[Record]]:
    """The records of each put."""
    at = 0
    for put in puts:
        count = 1 if put["topic"] == BATCH_TOPIC else put["count"]
        yield list(records[at : at + count])
        at += count
    assert at == len(records)


def as_draft(record: Record) -> Draft:
    """What a broker would hand over to get this record: without what the store fills in."""
    properties = record.properties.partition(CRC.encode())[0]
    values = parse_properties(properties)
    if any(name in values for name in FILLED_IN):
        properties = format_properties({name: value for name, value in values.items() if name not in FILLED_IN})
    return Draft(
        record.topic.encode(), record.queue, record.body, properties, record.flag, record.sys_flag, record.born_time,
        record.born_host, record.reconsume_times, record.prepared_position,
    )  # fmt: skip


def as_compared(record: Record) -> Record | tuple[object, ...]:
    """The record; but where the store filled in properties, in whatever order RocketMQ's hash map has them."""
    properties = record.property_map()
    if not any(name in properties for name in FILLED_IN):
        return record
    checksum = properties.pop(CRC, None)
    return (*record._replace(properties=b""), properties, checksum is None)


def queue_files(path: Path) -> dict[str, bytes]:
    return derived_files(path, DERIVED_FOLDERS[:-1])


def index_files(path: Path) -> list[bytes]:
    """Their bytes in the order of their names, which are times.

    The first entry of a file after the first tells seconds since the end of the file before, in RocketMQ.
    """
    contents = list(map(bytearray, derived_files(path, ["index"]).values()))
    for content in contents[1:]:
        content[SECONDS_OF_FIRST_ENTRY] = bytes(4)
    return list(map(bytes, contents))


def test_queues_and_index_made_again_from_the_log_are_those_of_rocketmq(twins: Twins, way: Way, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    shutil.copytree(twins.theirs, ours)
    lose_derived(ours)
    with open_samples(ours, **way.settings) as store:
        check_we_see(store, our_records(ours))
    assert queue_files(ours) == queue_files(twins.theirs)
    assert index_files(ours) == index_files(twins.theirs)


@pytest.mark.parametrize("name", REBUILT)
def test_queues_and_index_of_a_golden_store_are_made_again_as_they_were(name: str, golden: Golden) -> None:
    path = golden.store(name)
    queues, index = queue_files(path), index_files(path)
    lose_derived(path)
    levels = golden.expected(name)["brokerConf"].get("messageDelayLevel")
    settings = {**SETTINGS, "durability": "async"} | ({"delay_levels": levels} if levels else {})
    with open_store(path, **settings):
        pass
    assert queue_files(path) == queues
    assert index_files(path) == index


@pytest.mark.parametrize("gone", ["consumequeue*", "batchconsumequeue", "index"])
def test_one_kind_of_files_that_is_gone_is_made_again(twins: Twins, way: Way, tmp_path: Path, gone: str) -> None:
    ours = tmp_path / "ours"
    shutil.copytree(twins.theirs, ours)
    with open_samples(ours, **way.settings):
        pass  # leaves a checkpoint that counts entries
    for folder in ours.glob(gone):
        shutil.rmtree(folder)
    with open_samples(ours, **way.settings) as store:
        check_we_see(store, our_records(ours))
    assert queue_files(ours) == queue_files(twins.theirs)
    assert index_files(ours) == index_files(twins.theirs)


def lose_derived(path: Path) -> None:
    for folder in DERIVED_FOLDERS:
        shutil.rmtree(path / folder, ignore_errors=True)
