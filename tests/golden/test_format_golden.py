"""Every record, queue entry, index entry and table that RocketMQ wrote, through our codecs and back."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from embermq.errors import CorruptRecord
from embermq.format import tables
from embermq.format.batch import encode_batch, iter_batch
from embermq.format.batch_entry import decode_batch_entries, encode_batch_entry
from embermq.format.checkpoint import decode_checkpoint, decode_progress, encode_checkpoint, encode_page
from embermq.format.extended_entry import ExtendedEntry, decode_extended_entry, encode_extended_entry
from embermq.format.index_entry import (
    FIRST_ENTRY,
    IndexEntry,
    decode_index_entry,
    decode_index_header,
    decode_slot,
    encode_index_entry,
    encode_index_header,
    entry_at,
    index_file_size,
    slot_at,
)
from embermq.format.lenient_json import format_compact, format_fastjson, parse_lenient
from embermq.format.message_id import decode_message_id, decode_unique_id, encode_unique_id
from embermq.format.queue_entry import decode_queue_entries, encode_queue_entry, is_address, real_of, tags_code
from embermq.format.record import (
    MAGIC_BLANK,
    Draft,
    Record,
    decode_record,
    encode_blank,
    encode_draft,
    encode_drafts,
    encode_record,
    read_frame,
    scan_record,
    verify_property_crc,
)
from embermq.format.record_facts import format_host, record_facts
from embermq.model.flags import SysFlag
from embermq.model.hashing import key_hash
from embermq.model.properties import find_property, parse_properties

DATA = Path(__file__).parent / "data" / "stores"
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in DATA.glob("*.tar.xz"))
WHOLE = [name for name in NAMES if name != "crashed" and not name.startswith("torn-")]
METRICS = ("timermetrics", "transactionMetrics")

Facts = dict[str, Any]


@dataclass(frozen=True)
class Golden:
    """One store of RocketMQ's: its folder, and what RocketMQ read from it."""

    folder: Path
    expected: Facts

    def files(self, *parts: str) -> dict[int, bytes]:
        """The files of one folder by the numbers they are named after."""
        folder = self.folder.joinpath(*parts)
        return {int(path.name): path.read_bytes() for path in sorted(folder.glob("*")) if path.is_file()}

    def records(self) -> Iterator[tuple[Facts, memoryview]]:
        """What is expected of each record, with the bytes from its first to the end of its file."""
        file_size = self.expected["commitLog"]["fileSize"]
        files = {start: memoryview(data) for start, data in self.files("commitlog").items()}
        for facts in self.expected["commitLog"]["records"]:
            start = facts["physicalOffset"] // file_size * file_size
            yield facts, files[start][facts["physicalOffset"] - start :]


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Golden]:
    return {name: _unpack(name, tmp_path_factory.mktemp(name)) for name in NAMES}


def _unpack(name: str, target: Path) -> Golden:
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        # Pythons before 3.11.4 have no filters; the archives are ours.
        archive.extractall(target, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return Golden(target / "store", json.loads((DATA / f"{name}.expected.json").read_text()))


@pytest.fixture(params=NAMES)
def store(request: pytest.FixtureRequest, unpacked: dict[str, Golden]) -> Golden:
    return unpacked[request.param]


@pytest.fixture(params=WHOLE)
def whole_store(request: pytest.FixtureRequest, unpacked: dict[str, Golden]) -> Golden:
    """A store that was stopped cleanly."""
    return unpacked[request.param]


def test_the_golden_stores_are_there() -> None:
    assert len(NAMES) == 24


def test_a_decoded_record_has_the_fields_that_rocketmq_read(store: Golden) -> None:
    for facts, data in store.records():
        record = decode_record(data, facts["physicalOffset"])
        found = record_facts(record)
        unknown = record.sys_flag & SysFlag.COMPRESSION_MASK in (SysFlag.LZ4, SysFlag.ZSTD)
        expected = {name: value for name, value in facts.items() if not (unknown and name.startswith("plainBody"))}
        assert found == expected
        assert list(found) == list(expected), "the order of the fields differs"


def test_a_record_is_encoded_as_it_was(store: Golden) -> None:
    for facts, data in store.records():
        record = decode_record(data, facts["physicalOffset"])
        assert encode_record(record) == data[: record.size]


def test_a_draft_becomes_the_bytes_that_rocketmq_wrote(store: Golden) -> None:
    for facts, data in store.records():
        record = decode_record(data, facts["physicalOffset"])
        with_crc = verify_property_crc(data[: record.size])
        assert with_crc in (True, None)
        encoded = encode_draft(
            _draft(record),
            offset=record.offset,
            position=facts["physicalOffset"],
            store_time=record.store_time,
            store_host=record.store_host,
            with_property_crc=with_crc is not None,
        )
        assert encoded == data[: record.size]


def test_all_drafts_of_one_batch_become_its_bytes_in_one_go(unpacked: dict[str, Golden]) -> None:
    records = [(decode_record(data, facts["physicalOffset"]), data) for facts, data in unpacked["batch"].records()]
    longest = 0
    for store_time, group in groupby(records, key=lambda pair: pair[0].store_time):
        batch = list(group)
        first, data = batch[0]
        drafts = [_draft(record) for record, _ in batch]
        offsets = [record.offset for record, _ in batch]
        parts, sizes = encode_drafts(drafts, offsets, first.position, store_time, first.store_host)
        assert sizes == [record.size for record, _ in batch]
        assert b"".join(parts) == data[: sum(sizes)]
        longest = max(longest, len(batch))
    assert longest > 10


def _draft(record: Record) -> Draft:
    return Draft(
        record.topic.encode(), record.queue, record.body, record.properties, record.flag, record.sys_flag,
        record.born_time, record.born_host, record.reconsume_times, record.prepared_position,
    )  # fmt: skip


def test_the_property_crc_is_found_where_it_was_switched_on(unpacked: dict[str, Golden]) -> None:
    checks = [verify_property_crc(data[: facts["totalSize"]]) for facts, data in unpacked["prop-crc"].records()]
    assert checks == [True] * 60


def test_a_scan_walks_the_log_record_by_record(store: Golden) -> None:
    """Where the log is damaged, the walk ends with the last record that RocketMQ counts."""
    log = store.expected["commitLog"]
    found, blanks = [], []
    for start, data in store.files("commitlog").items():
        view, at = memoryview(data), 0
        try:
            while (record := scan_record(view, at, start + at, check_body=True)) is not None:
                found.append(record)
                at += record.size
        except CorruptRecord as error:
            assert error.position == start + at == log["endOfRecords"]
            break
        frame = read_frame(view, at)
        if frame.magic == MAGIC_BLANK:
            blanks.append({"physicalOffset": start + at, "size": frame.size})
            assert encode_blank(frame.size) == view[at : at + 8]
    assert blanks == log["blanks"]
    assert [_scanned_facts(record) for record in found] == [_facts_of_a_scan(facts) for facts in log["records"]]


def _scanned_facts(record: Any) -> tuple[object, ...]:
    return (
        record.size, record.topic, record.queue, record.offset, record.position, record.sys_flag,
        record.store_time, parse_properties(record.properties), record.prepared_position,
    )  # fmt: skip


def _facts_of_a_scan(facts: Facts) -> tuple[object, ...]:
    names = (
        "totalSize", "topic", "queueId", "queueOffset", "physicalOffset", "sysFlag",
        "storeTimestamp", "properties", "preparedTransactionOffset",
    )  # fmt: skip
    return tuple(facts[name] for name in names)


def test_every_property_can_be_looked_up_alone(store: Golden) -> None:
    for facts, data in store.records():
        properties = decode_record(data, facts["physicalOffset"]).properties
        for name, value in facts["properties"].items():
            found = find_property(properties, name.encode())
            assert found is not None
            assert found.decode() == value
        assert find_property(properties, b"no such name") is None


def test_message_ids_lead_back_to_the_record(store: Golden) -> None:
    for facts, data in store.records():
        record = decode_record(data, facts["physicalOffset"])
        host, position = decode_message_id(facts["msgId"])
        assert position == facts["physicalOffset"]
        assert host.port == int(format_host(record.store_host).rpartition(":")[2])


def test_unique_ids_of_the_java_client_are_taken_apart_and_put_together(unpacked: dict[str, Golden]) -> None:
    for facts, _ in unpacked["basic"].records():
        text = facts["properties"]["UNIQ_KEY"]
        assert encode_unique_id(decode_unique_id(text)) == text


def test_inner_batches_are_taken_apart_and_put_together(unpacked: dict[str, Golden]) -> None:
    inner = 0
    for facts, data in unpacked["batch-cq"].records():
        if facts["sysFlag"] & SysFlag.INNER_BATCH:
            body = decode_record(data, facts["physicalOffset"]).body
            elements = list(iter_batch(body))
            assert len(elements) == int(facts["properties"]["INNER_NUM"])
            assert encode_batch(elements) == body
            inner += 1
    assert inner > 20


def test_queue_entries_are_those_that_rocketmq_read(store: Golden) -> None:
    extended_ones = 0
    for topic, queue, facts in _queues(store):
        if facts.get("type", "SimpleCQ") != "SimpleCQ":
            continue
        data = b"".join(store.files("consumequeue", topic, queue).values())
        entries = decode_queue_entries(data)
        assert b"".join(map(encode_queue_entry, entries)) == data
        entries = [entry for entry in entries if entry.is_valid]
        extended = _extended_of(store, topic, queue)
        codes = [
            extended[real_of(entry.tags_code)].tags_code if is_address(entry.tags_code) else entry.tags_code
            for entry in entries
        ]
        extended_ones += sum(is_address(entry.tags_code) for entry in entries)
        found = [[entry.position, entry.size, code] for entry, code in zip(entries, codes, strict=True)]
        assert found == facts["units"]
        if "ext" in facts:
            resolved = [extended[real_of(entry.tags_code)] for entry in entries]
            assert resolved == [
                ExtendedEntry(unit["tagsCode"], unit["msgStoreTime"], bytes.fromhex(unit["filterBitMap"]))
                for unit in facts["ext"]
            ]
    assert extended_ones == (120 if (store.folder / "consumequeue_ext").exists() else 0)


def _queues(store: Golden) -> Iterator[tuple[str, str, Facts]]:
    for topic, queues in store.expected["consumeQueues"].items():
        for queue, facts in queues.items():
            yield topic, queue, facts


def _extended_of(store: Golden, topic: str, queue: str) -> dict[int, ExtendedEntry]:
    """The extended entries of a queue by the byte at which each begins."""
    entries = {}
    for start, data in store.files("consumequeue_ext", topic, queue).items():
        at = 0
        while (entry := decode_extended_entry(data, at)) is not None:
            entries[start + at] = entry
            assert encode_extended_entry(entry) == data[at : at + entry.size]
            at += entry.size
    return entries


def test_tags_codes_are_those_of_the_records(store: Golden) -> None:
    by_position = {facts["physicalOffset"]: facts for facts in store.expected["commitLog"]["records"]}
    for topic, _, facts in _queues(store):
        for position, size, code, *_ in facts["units"]:
            if position not in by_position:
                assert store.expected["mode"] == "raw", "only a damaged store points at what is not there"
                continue
            record = by_position[position]
            assert size == record["totalSize"]
            if topic != "SCHEDULE_TOPIC_XXXX":
                assert code == tags_code(record["properties"].get("TAGS"))


def test_batch_entries_are_those_that_rocketmq_wrote(unpacked: dict[str, Golden]) -> None:
    store = unpacked["batch-cq"]
    for topic, queues in store.expected["batchConsumeQueueUnits"].items():
        for queue, facts in queues.items():
            data = b"".join(store.files("batchconsumequeue", topic, queue).values())
            entries = decode_batch_entries(data)
            assert b"".join(map(encode_batch_entry, entries)) == data
            assert [list(entry) for entry in entries if entry.is_valid] == facts["units"]


@pytest.mark.parametrize("name", ["CompactTopic/0", "CompactTopic/1"])
def test_compacted_logs_and_queues_are_those_that_rocketmq_wrote(name: str, unpacked: dict[str, Golden]) -> None:
    store = unpacked["compaction"]
    expected = store.expected["compaction"][name]
    logs = store.files("compaction", "compactionLog", *name.split("/"))
    for facts in expected["records"]:
        position = facts["physicalOffset"]
        start = max(start for start in logs if start <= position)
        record = decode_record(memoryview(logs[start])[position - start :], position)
        assert record_facts(record) == facts
    queues = store.files("compaction", "compactionCq", *name.split("/"))
    for facts in expected["cq"]:
        data = queues.pop(int(facts["file"]))
        entries = decode_batch_entries(data)
        assert b"".join(map(encode_batch_entry, entries)) == data
        assert [list(entry) for entry in entries if any(entry)] == facts["units"]
    assert not queues


def test_index_headers_are_those_that_rocketmq_read(store: Golden) -> None:
    index = store.expected["index"]
    names = {file["name"]: file for file in index["files"]}
    for number, data in store.files("index").items():
        header = decode_index_header(data)
        facts = names.pop(str(number))
        assert list(header) == list(facts.values())[1:]
        assert encode_index_header(header) == data[:40]
        assert len(data) == index_file_size(index["hashSlotNum"], index["indexNum"])
    assert not names


def test_index_entries_are_the_keys_of_the_log_in_order(whole_store: Golden) -> None:
    slots = whole_store.expected["index"]["hashSlotNum"]
    found = []
    for data in whole_store.files("index").values():
        header = decode_index_header(data)
        used = [decode_slot(data, slot_at(slot)) for slot in range(slots)]
        assert sum(newest > 0 for newest in used) == header.used_slots
        newest: dict[int, int] = {}
        for number in range(FIRST_ENTRY, header.next_entry):
            entry = _index_entry(data, entry_at(slots, number))
            found.append((entry.key_hash, entry.position))
            assert entry.previous == newest.get(entry.key_hash % slots, 0)
            newest[entry.key_hash % slots] = number
        assert newest == {slot: number for slot, number in enumerate(used) if number}
    keys = [key for facts in whole_store.expected["commitLog"]["records"] for key in _keys_of(facts)]
    assert found == keys


def _index_entry(data: bytes, at: int) -> IndexEntry:
    entry = decode_index_entry(data, at)
    assert encode_index_entry(entry) == data[at : at + 20]
    return entry


def _keys_of(facts: Facts) -> Iterator[tuple[int, int]]:
    properties = facts["properties"]
    for key in [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]:
        if key:
            yield key_hash(facts["topic"], key), facts["physicalOffset"]


def test_the_checkpoint_is_the_one_that_rocketmq_read(store: Golden) -> None:
    page = (store.folder / "checkpoint").read_bytes()
    checkpoint = decode_checkpoint(page)
    assert list(checkpoint) == list(store.expected["checkpoint"].values())
    assert encode_checkpoint(checkpoint) == page[:40]
    assert decode_progress(page) is None
    assert encode_page(checkpoint, None) == page


def test_tables_are_read_as_rocketmq_reads_them_and_written_as_it_wrote_them(store: Golden) -> None:
    for name, expected in store.expected["config"].items():
        text = (store.folder / "config" / name).read_text()
        value = parse_lenient(text)
        assert _with_text_keys(value) == expected
        # All arrays in these files stand on one line, as tuples do in ours.
        assert (format_compact(value) if name in METRICS else format_fastjson(_with_tuples(value))) == text
        assert parse_lenient(format_fastjson(value)) == value


def test_the_position_checkpoint_of_compaction_is_read_and_written(unpacked: dict[str, Golden]) -> None:
    store = unpacked["compaction"]
    data = (store.folder / "compaction" / "position-checkpoint").read_bytes()
    table = tables.decode_table(data)
    assert table == store.expected["compaction"]["position"]
    assert tables.encode_table(table) == data


def _with_text_keys(value: object) -> object:
    match value:
        case dict():
            return {str(key): _with_text_keys(member) for key, member in value.items()}
        case list():
            return [_with_text_keys(element) for element in value]
    return value


def _with_tuples(value: object) -> object:
    match value:
        case dict():
            return {key: _with_tuples(member) for key, member in value.items()}
        case list():
            return tuple(_with_tuples(element) for element in value)
    return value


TYPED = {
    "topics.json": (tables.decode_topics, tables.encode_topics),
    "subscriptionGroup.json": (tables.decode_groups, tables.encode_groups),
    "consumerOffset.json": (tables.decode_offsets, tables.encode_offsets),
    "lmqConsumerOffset.json": (tables.decode_offsets, tables.encode_light_offsets),
    "delayOffset.json": (tables.decode_delays, tables.encode_delays),
}


def test_typed_tables_keep_every_value_and_every_byte(store: Golden) -> None:
    for name, (decode, encode) in TYPED.items():
        path = store.folder / "config" / name
        if not path.exists():
            continue
        table = decode(path.read_bytes())
        again = encode(table)  # type: ignore[operator]
        assert decode(again) == table
        assert _without_derived(again) == _without_derived(path.read_bytes())
        if "Offset" not in name:
            assert again == path.read_bytes()


def _without_derived(data: bytes) -> dict[str, object]:
    """A table without the order of topics in `groupTopicMap`, which is Java's and which nobody reads."""
    table = tables.decode_table(data)
    groups = table.pop("groupTopicMap", {})
    assert isinstance(groups, dict)
    return {**table, "groupTopicMap": {group: set(topics) for group, topics in groups.items()}}
