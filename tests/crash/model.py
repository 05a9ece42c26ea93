"""What must hold when a store is opened after a crash, against a plain dict of what was acknowledged.

Always:
    every message that is there is one that was sent, byte for byte, at the offset of its record
    the offsets of a queue are dense, from its first to its last
    a key finds exactly the messages that are there and have it
    what was acknowledged and lies before the log's end is there, where the receipt said
    puts go on at the next offset; a second opening finds all in order and changes nothing
    `verify` finds no damage in the log before, and none anywhere after

In `sync` and `async` nothing that was acknowledged lies behind the log's end after a kill;
in `pooled`, and in `async` after a power loss, only what was flushed is sure to be there.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embermq import Message, Store, StoredMessage, open_store
from embermq.store.reader import StoreReader
from embermq.store.settings import StoreSettings
from embermq.store.verify import Damage, DamageKind, verify_store
from tests.builders import wait_until
from tests.crash.plan import AFTERWARDS, NUMBER, QUEUES, TOPICS, message_of
from tests.crash.victim import Acknowledged

Place = tuple[str, int, int]  # topic, queue, offset
EVERYTHING = 10**9
TORN = ("unknown magic 0x00000000", "as a torn write leaves them")  # how `verify` tells of it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check found."""

    present: int
    lost: list[Acknowledged]  # they lay behind the log's end
    afterwards: list[Acknowledged]  # what the check put itself


def check_reopened(
    path: Path,
    settings: Mapping[str, Any],
    seed: int,
    acknowledged: Iterable[Acknowledged],
    *,
    may_lose: bool = False,
    durable: int = 0,
    next_number: int = AFTERWARDS,
) -> Outcome:
    """Open the store after its crash, compare, put one more message into every queue, and open it again."""
    acknowledged = list(acknowledged)
    if (path / "commitlog").is_dir():
        last = max((each.position for each in acknowledged), default=-1)
        kinds = {DamageKind.RECORD, DamageKind.HOLE, DamageKind.CHECKPOINT}
        check_verified(path, settings, kinds=kinds, torn_behind=-1 if may_lose else last)
    with open_store(path, **settings) as store:
        found = read_everything(store)
        check_messages(found, seed)
        lost = check_acknowledged(store, found, seed, acknowledged)
        if not may_lose:
            assert not lost, f"{len(lost)} acknowledged messages are lost: {lost[:3]}"
        unsafe = [each for each in lost if each.position < durable]
        assert not unsafe, f"{len(unsafe)} messages are lost though a checkpoint had vouched for them: {unsafe[:3]}"
        check_begin(store, settings)
        check_keys(store, found, seed, [*acknowledged, *lost])
        afterwards = put_into_every_queue(store, found, seed, next_number)
        found = read_everything(store)
    check_unchanged(path, settings, found)
    check_verified(path, settings)
    return Outcome(len(found), lost, afterwards)


def read_everything(store: Store) -> dict[Place, StoredMessage]:
    """Every message by its place; the offsets of each queue must be dense."""
    found: dict[Place, StoredMessage] = {}
    for topic in TOPICS:
        for queue in range(QUEUES):
            offset, end = store.offsets(topic, queue=queue)
            while offset < end:
                batch = store.get(topic, queue=queue, offset=offset, limit=100)
                assert batch.next_offset > offset, f"{topic}/{queue} stands still at {offset}: {batch.status}"
                assert [message.offset for message in batch] == list(range(offset, batch.next_offset)), (
                    f"{topic}/{queue} has a hole behind {offset}: {batch.status}"
                )
                found |= {(topic, queue, message.offset): message for message in batch}
                offset = batch.next_offset
    return found


def check_messages(found: Mapping[Place, StoredMessage], seed: int) -> None:
    """All that is there was sent like this, and is there once."""
    numbers: set[int] = set()
    positions: set[int] = set()
    for (topic, queue, offset), message in found.items():
        number = number_of(message)
        sent = message_of(seed, number)
        assert (message.topic, message.queue, message.offset) == (topic, queue, offset)
        assert same(message, sent), f"message {number} at {topic}/{queue}/{offset} is not what was sent"
        assert number not in numbers, f"message {number} is there twice"
        assert message.position not in positions
        numbers.add(number)
        positions.add(message.position)


def same(message: StoredMessage, sent: Message) -> bool:
    """Whether a stored message is the one that was sent."""
    return (
        (message.topic, message.body, message.tags, message.keys, message.properties, message.flag)
        == (sent.topic, sent.body, sent.tags, tuple(sent.keys), sent.properties, sent.flag)
    ) and sent.queue in (None, message.queue)


def number_of(message: StoredMessage) -> int:
    return int(message.properties[NUMBER])


def check_acknowledged(
    store: Store, found: Mapping[Place, StoredMessage], seed: int, acknowledged: Iterable[Acknowledged]
) -> list[Acknowledged]:
    """What was acknowledged is where it was said to be, has expired, or lay behind the end: that is returned."""
    lost: list[Acknowledged] = []
    recovered_end, begin = store.state().recovered.scan.end, store.state().log_begin
    for each in acknowledged:
        sent = message_of(seed, each.number)
        assert zlib.crc32(sent.body) == each.crc
        if each.position < begin:
            continue  # expired
        if each.position >= recovered_end:
            lost.append(each)
            continue
        message = found.get((sent.topic, each.queue, each.offset))
        assert message is not None, f"{each} is missing, the log holds [{begin}, {recovered_end})"
        assert (number_of(message), message.position) == (each.number, each.position)
    return lost


def check_begin(store: Store, settings: Mapping[str, Any]) -> None:
    """Only what `max_bytes` asks for has expired."""
    state = store.state()
    most = settings.get("max_bytes")
    if most is None:
        assert state.log_begin == 0
    else:
        assert state.log_begin == 0 or state.log_written - state.log_begin > most - 2 * settings["log_file_size"]


def check_keys(
    store: Store, found: Mapping[Place, StoredMessage], seed: int, acknowledged: Iterable[Acknowledged]
) -> None:
    """Every key, also of what is lost or expired, finds what is there and nothing else."""
    expected: dict[tuple[str, str], set[int]] = defaultdict(set)
    for message in found.values():
        for key in message.keys:
            expected[message.topic, key].add(message.position)
    for each in acknowledged:
        sent = message_of(seed, each.number)
        for key in sent.keys:
            expected.setdefault((sent.topic, key), set())
    for (topic, key), positions in expected.items():
        answer = [message.position for message in store.query(topic, key, limit=EVERYTHING)]
        assert answer == sorted(positions), f"key {key!r} of {topic}: {answer} found, {sorted(positions)} are there"


def put_into_every_queue(
    store: Store, found: Mapping[Place, StoredMessage], seed: int, next_number: int
) -> list[Acknowledged]:
    """Every queue takes a message at its next offset."""
    put: list[Acknowledged] = []
    for number in range(next_number, next_number + len(TOPICS) * QUEUES):
        message = message_of(seed, number)
        queue = message.queue
        assert queue is not None
        end = store.offsets(message.topic, queue=queue)[1]
        receipt = store.put(message)
        assert receipt.offset == end, f"{message.topic}/{queue} goes on at {receipt.offset} instead of {end}"
        put.append(Acknowledged(number, receipt.queue, receipt.offset, receipt.position, zlib.crc32(message.body)))
    wait_until(lambda: store.state().dispatch_behind == 0)  # in pooled mode they are visible a little later
    return put


def check_unchanged(path: Path, settings: Mapping[str, Any], found: Mapping[Place, StoredMessage]) -> None:
    """Opening and closing after a clean stop reads no record and changes no byte."""
    before = tree(path)
    with open_store(path, **settings) as store:
        recovered = store.state().recovered
        assert (recovered.clean, recovered.scan.records, recovered.kept) == (True, 0, ())
        assert read_everything(store) == found
    assert tree(path) == before


def check_verified(
    path: Path,
    settings: Mapping[str, Any],
    *,
    kinds: Collection[DamageKind] = tuple(DamageKind),
    torn_behind: int | None = None,
) -> None:
    """There is no damage of these kinds: every record, queue entry and key is as it should be.

    Behind `torn_behind`, the last position that was acknowledged, a hole is what a kill in the middle of a write
    leaves: the first record's size and magic come last. Behind that hole, a later record may be torn. The size alone is
    what a write of size and magic leaves that stops half-way.
    """
    with StoreReader(path, StoreSettings.make(settings)) as reader:
        first = {f"{each.topic}/{each.queue}": each.min_offset for each in reader.queues()}
        damage = [each for each in verify_store(reader).damage if each.kind in kinds]
    # Below the first offset of a queue, entries may be missing: their files expired before they were dispatched.
    damage = [each for each in damage if not _is_expired(each, first)]
    if torn_behind is not None:
        damage = [each for each in damage if each.position <= torn_behind or not _is_torn(each)]
    assert not damage, damage


def _is_torn(damage: Damage) -> bool:
    return damage.kind is DamageKind.HOLE or (damage.kind is DamageKind.RECORD and damage.detail.endswith(TORN))


def _is_expired(damage: Damage, first: Mapping[str, int]) -> bool:
    missing = re.match(r"(\S+) offset (?:\d+ to )?(\d+) has no entry, though", damage.detail)
    return missing is not None and int(missing[2]) < first[missing[1]]


def tree(path: Path) -> dict[str, int]:
    """A checksum of every file of log, queues, index and tables."""
    return {
        str(file.relative_to(path)): zlib.crc32(file.read_bytes())
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name not in ("lock", "checkpoint")
    }
