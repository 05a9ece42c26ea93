"""A store to be damaged, and what may come of it."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from embermq import Message, Store
from embermq.errors import CorruptRecord
from embermq.store.reader import StoreReader
from embermq.store.settings import StoreSettings
from embermq.store.verify import Verdict, verify_store
from tests.builders import SMALL_SIZES, a_store

COUNT = 240
TOPICS = ("orders", "bills")
QUEUES = 2
LOG_FILE = SMALL_SIZES["log_file_size"]
MAGICS = (0xDAA320A7, 0xDAA320AB)


def message_of(number: int) -> Message:
    return Message(
        TOPICS[number % 2],
        random.Random(number).randbytes((COUNT - number) * 37 % 1_200),  # the last is a short one
        tags=f"tag{number % 3}",
        keys=[f"key-{number}"],
        properties={"number": str(number)},
        queue=number // 2 % QUEUES,
    )


class Stores(NamedTuple):
    """One store at three moments."""

    stopped: Path  # closed, with all messages
    crashed: Path  # killed, with all messages, half of them behind the checkpoint
    older: Path  # at that checkpoint, with half of the messages


def make_stores(folder: Path, **settings: Any) -> Stores:
    stores = Stores(folder / "stopped", folder / "crashed", folder / "older")
    with a_store(stores.stopped, **settings) as store:
        for number in range(0, COUNT, 8):
            if number == COUNT // 2:
                store.checkpoint()
                shutil.copytree(store.path, stores.older)
            store.put_many(message_of(each) for each in range(number, number + 8))
        shutil.copytree(store.path, stores.crashed)
    return stores


@dataclass(slots=True)
class Survey:
    """What a damaged store gives back."""

    right: int = 0
    wrong_bodies: int = 0
    wrong_fields: int = 0  # the body is right, but something beside it is not
    misplaced: int = 0  # a message of another queue or offset
    refused: int = 0  # reading one raised CorruptRecord
    stuck: int = 0  # neither a message nor an error, nor a way on
    missing: int = 0

    @property
    def is_whole(self) -> bool:
        return self.right == COUNT


def survey(store: Store) -> Survey:
    """Read every message alone, so that one that is damaged hides no other."""
    result = Survey()
    for topic in TOPICS:
        for queue in range(QUEUES):
            _survey_queue(store, topic, queue, result)
    result.missing = COUNT - result.right - result.refused - result.stuck - result.wrong_fields
    return result


def _survey_queue(store: Store, topic: str, queue: int, result: Survey) -> None:
    begin, end = store.offsets(topic, queue=queue)
    for offset in range(begin, min(end, COUNT)):  # damage can make a queue seem very long
        try:
            batch = store.get(topic, queue=queue, offset=offset, limit=1)
        except CorruptRecord:
            result.refused += 1
            continue
        if not batch.messages:
            result.stuck += batch.next_offset <= offset
            continue
        message = batch[0]
        number = offset * len(TOPICS) * QUEUES + queue * 2 + TOPICS.index(topic)
        sent = message_of(number)
        if (message.queue, message.offset, message.topic) != (queue, offset, topic):
            result.misplaced += 1
        elif message.body != sent.body:
            result.wrong_bodies += 1
        elif (message.tags, message.keys, message.properties.get("number"), message.flag) != (
            sent.tags, tuple(sent.keys), str(number), sent.flag,
        ):  # fmt: skip
            result.wrong_fields += 1
        else:
            result.right += 1


def keys_found(store: Store) -> int:
    """How many of the messages are found by their key, and nothing else with them."""
    return sum(_is_found(store, number) for number in range(COUNT))


def _is_found(store: Store, number: int) -> bool:
    try:
        found = store.query(message_of(number).topic, f"key-{number}")
    except CorruptRecord:
        return False
    return [message.properties.get("number") for message in found] == [str(number)]


def verify(path: Path, **settings: Any) -> Verdict:
    with StoreReader(path, StoreSettings.make({**SMALL_SIZES, **settings})) as reader:
        return verify_store(reader)


def iter_records(path: Path) -> Iterator[tuple[int, int]]:
    """Position and size of every record, found by hand: sizes are added up."""
    for file in sorted((path / "commitlog").iterdir()):
        data, at = file.read_bytes(), 0
        while at + 8 <= len(data):
            size, magic = struct.unpack_from(">II", data, at)
            if magic not in MAGICS:
                break
            yield int(file.name) + at, size
            at += size


def overwrite(path: Path, position: int, data: bytes) -> None:
    """Change bytes of the log."""
    with (path / "commitlog" / f"{position // LOG_FILE * LOG_FILE:020d}").open("r+b") as file:
        file.seek(position % LOG_FILE)
        file.write(data)


def flip(file: Path, bit: int) -> None:
    """Turn one bit of a file over."""
    with file.open("r+b") as opened:
        opened.seek(bit // 8)
        byte = opened.read(1)[0]
        opened.seek(bit // 8)
        opened.write(bytes([byte ^ 1 << bit % 8]))
