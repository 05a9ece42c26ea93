"""What EmberMQ sees in a directory, in the words and shapes of RocketMQ's side."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from embermq import Store
from embermq.errors import CorruptRecord
from embermq.format.record import Record, decode_record, scan_record
from embermq.format.record_facts import record_facts
from embermq.model.flags import SysFlag
from embermq.model.message import time_of
from tests.compat.expected import Facts, Queues

QUEUE_FOLDERS = {"SimpleCQ": "consumequeue", "BatchCQ": "batchconsumequeue"}
DERIVED_FOLDERS = ("consumequeue", "batchconsumequeue", "consumequeue_ext", "index")


def iter_records(path: Path, *, torn: bool = False) -> Iterator[Record]:
    """The records that lie in the log files. If the log may be `torn`, they end where it is."""
    for file in sorted(path.glob("commitlog*/*"), key=lambda file: file.name):
        data, at, start = memoryview(file.read_bytes()), 0, int(file.name)
        try:
            while (found := scan_record(data, at, start + at, check_body=True)) is not None:
                yield decode_record(data[at : at + found.size], start + at)
                at += found.size
        except CorruptRecord:
            if torn:
                return
            raise


def our_records(path: Path, *, torn: bool = False) -> list[Facts]:
    """The same, as RocketMQ's side prints them."""
    return [record_facts(record) for record in iter_records(path, torn=torn)]


def our_queues(store: Store) -> Queues:
    """All queues that have a directory, read through the open store."""
    found: Queues = {}
    for kind, folder in QUEUE_FOLDERS.items():
        for path in sorted((store.path / folder).glob("*/*")):
            found.setdefault(path.parent.name, {})[path.name] = _queue(store, path.parent.name, int(path.name), kind)
    return {topic: dict(sorted(queues.items())) for topic, queues in sorted(found.items())}


def _queue(store: Store, topic: str, queue: int, kind: str) -> Facts:
    begin, end = store.offsets(topic, queue=queue)
    units: list[list[int]] = []
    messages: list[Facts] = []
    codes: list[int] = []

    def take(code: int) -> bool:
        codes.append(code)
        return True

    offset = begin
    while offset < end:
        found = store.read(topic, queue=queue, offset=offset, limit=1_000, max_bytes=2**20, accept=take)
        assert found.next_offset > offset, f"{topic}/{queue} stands still at {offset}: {found.status}"
        offset = found.next_offset
        ends = [at for at, _, _ in found.records[1:]] + [offset]
        for (at, position, data), after in zip(found.records, ends, strict=True):
            unit = [position, len(data), codes[len(units)]]
            units.append([*unit, at, after - at] if kind == "BatchCQ" else unit)
            messages.append(_message(data, position, at))
    return {"type": kind, "minOffset": begin, "maxOffset": end, "units": units, "messages": messages}


def _message(data: memoryview, position: int, offset: int) -> Facts:
    record = decode_record(data, position)
    properties = record.property_map()
    body = zlib.decompress(record.body) if record.sys_flag & SysFlag.COMPRESSED else record.body
    return {
        "offset": offset,
        "topic": record.topic,
        "queueId": record.queue,
        "queueOffset": record.offset,
        "physicalOffset": record.position,
        "properties": properties,
        "body": hashlib.sha256(body).hexdigest(),
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
    }


def our_answers(store: Store, queries: Iterable[Facts]) -> list[list[int]]:
    """Where the messages with each key lie, newest first, as RocketMQ's index tells them."""
    return [
        [message.position for message in reversed(store.query(query["topic"], query["key"], limit=query["maxNum"]))]
        for query in queries
    ]


def our_offsets_by_time(store: Store, asked: Iterable[Facts]) -> list[Facts]:
    answers = []
    for question in asked:
        place: dict[str, Any] = {"queue": question["queueId"], "time": time_of(question["timestamp"])}
        topic = question["topic"]
        lower, upper = (store.find_offset(topic, **place, upper=upper) for upper in (False, True))
        answers.append(question | {"lower": lower, "upper": upper})
    return answers


def derived_files(path: Path, folders: Iterable[str] = DERIVED_FOLDERS) -> dict[str, bytes]:
    """The files of queues and index, by name."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for folder in folders
        for file in sorted((path / folder).rglob("*"))
        if file.is_file()
    }
