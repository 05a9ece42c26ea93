"""Messages of every kind, and the same for RocketMQ's side: what the tests of this folder write.

    python -m tests.compat.samples DIRECTORY DURABILITY     writes them and tells how far it is, until it is killed

Times come from a clock that moves with the puts, so every run makes the same records.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from embermq import Message, Receipt, Store, open_store
from embermq.format.batch import BatchElement, encode_batch
from embermq.format.record import Draft
from embermq.model.flags import SysFlag
from embermq.model.properties import format_properties
from embermq.model.topic import TopicConfig
from tests.builders import SMALL_SIZES, ManualClock, wait_until
from tests.compat.store_tool import SMALL

BATCH_TOPIC = "batches"
SETTINGS: dict[str, Any] = {
    **SMALL_SIZES,
    "reserve_bytes": 0,
    "retention_hours": 10**6,
    "light_queues": True,
    "flush_interval_ms": 20,
    "flush_thorough_interval_ms": 20,
}
ROCKETMQ: dict[str, Any] = {
    **SMALL,
    "mapperFileSizeBatchConsumeQueue": SMALL_SIZES["batch_queue_file_size"],
    "mappedFileSizeConsumeQueueExt": SMALL_SIZES["extended_queue_file_size"],
    "enableLmq": True,
    "enableMultiDispatch": True,
}
SECOND_SESSION: dict[str, Any] = {"store_host": "[::1]:10911", "property_crc": True}
TOPICS = [{"name": BATCH_TOPIC, "attributes": {"queue.type": "BatchCQ"}}]

LONG_TOPICS = ["%RETRY%" + "g" * 121, "%RETRY%" + "h" * 248]  # the shortest and the longest of version 2
LARGEST_BODY = 65_536 - 8 - 91 - len("large")  # its record and the BLANK behind it fill a log file
LARGEST_PROPERTIES = 32_767
TAGS = (None, "eu", "größe", "polygenelubricants", "📦", "pay_success")
BORN_V6 = bytes.fromhex("20010db8000000000000000000000001") + (50_002).to_bytes(4, "big")
LOCAL = bytes([127, 0, 0, 1]) + (50_001).to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class Put:
    """One call of a store: messages, or drafts as a broker makes them."""

    messages: tuple[Message, ...] = ()
    drafts: tuple[Draft, ...] = ()
    together: bool = False


def every_kind(seed: int = 0, count: int = 120, *, largest: bool = False) -> list[Put]:
    """Puts of all kinds, mixed; `count` of the plain ones, and on demand the largest there can be."""
    chance = random.Random(seed)
    puts = [_plain(chance, number) for number in range(count)]
    puts += [_batch(chance, 40, "together"), *_long_topics(chance), *_delayed(), *_light(chance)]
    puts += [_inner_batch(chance, number) for number in range(25)]
    puts += [_client_batch(chance, number) for number in range(10)]
    puts += _transactional(chance)
    puts += _unusual(chance)
    chance.shuffle(puts)
    if largest:
        puts[5:5] = _largest()
    return puts


class Filled(NamedTuple):
    """A store that has taken all kinds and is still open."""

    store: Store
    receipts: list[Receipt]
    safe: int  # how many of these records outlive the process by now


def fill(path: Path, durability: str, report: Callable[[int, int], None] = lambda count, safe: None) -> Filled:
    """Put every kind into a new store: one half, and after a clean stop the rest, with checksums and another address.

    `report` is told after every put how many records there are, and how many outlive the process.
    """
    clock, puts = ManualClock(), every_kind(largest=True)
    half, rest = len(puts) // 2, len(puts) * 3 // 4
    with open_samples(path, clock, durability=durability) as store:
        receipts = write(store, clock, puts[:half])
    store = open_samples(path, clock, durability=durability, **SECOND_SESSION)
    receipts += write(store, clock, puts[half:rest])
    wait_until(lambda: store.state().flush_behind == 0)
    store.checkpoint()
    safe = len(receipts)
    for put in puts[rest:]:
        receipts += write(store, clock, [put])
        if durability != "pooled":
            safe = len(receipts)
        report(len(receipts), safe)
    return Filled(store, receipts, safe)


def write(store: Store, clock: ManualClock | None, puts: Iterable[Put]) -> list[Receipt]:
    """Put them one after the other; time passes in steps of many sizes, also none, or as it does."""
    receipts: list[Receipt] = []
    for put, step in zip(puts, cycle((3, 0, 1, 7, 0, 250, 1_300, 0)), strict=False):
        if clock is not None:
            clock.advance(ms=step)
        if put.messages:
            receipts += store.put_many(put.messages)
        else:
            receipts += store.put_drafts(lambda put=put: put.drafts, together=put.together)
    return receipts


def open_samples(path: Path, clock: ManualClock | None = None, **settings: Any) -> Store:
    """A store that takes all kinds."""
    store = open_store(path, clock=clock, **{**SETTINGS, "durability": "async", **settings})
    if store.find_topic(BATCH_TOPIC) is None:
        store.save_topic(TopicConfig(BATCH_TOPIC, attributes={"queue.type": "BatchCQ"}))
    return store


def _plain(chance: random.Random, number: int) -> Put:
    messages = [
        Message(
            chance.choice(("orders", "clicks", "a|b_c-%d")),
            chance.randbytes(chance.choice((1, 10, 100, 1_000, 4_000))),
            tags=chance.choice(TAGS),
            keys=[f"order-{number}", f"Schlüssel-{number % 5}", "all"][: chance.randrange(4)],
            properties={"Größe": "大 😀", f"p{number}": "x=1"} if number % 2 else {},
            flag=chance.choice((0, 7, -1, 2**31 - 1)),
        )
        for _ in range(chance.randrange(1, 4))
    ]
    return Put(messages=(*messages, Message("orders", b"", queue=3)))


def _largest() -> list[Put]:
    """Where a log file, a size field and the first version of records end."""
    body = bytes(range(256)) * (LARGEST_BODY // 256) + b"!" * (LARGEST_BODY % 256)
    properties = {"p": "x" * (LARGEST_PROPERTIES - len("p\x01\x02"))}
    return [
        Put(messages=(Message("large", body), Message("large", b"", properties=properties), Message("t" * 127, b"")))
    ]


def _long_topics(chance: random.Random) -> list[Put]:
    return [Put(messages=(Message(topic, chance.randbytes(20), tags="eu"),) * 3) for topic in LONG_TOPICS]


def _delayed() -> list[Put]:
    """Parked messages, as a broker parks them; level 25 is beyond the last."""
    puts = []
    for level in (*range(1, 19), 25):
        properties = {"DELAY": str(level), "REAL_TOPIC": "orders", "REAL_QID": "1", "KEYS": f"late-{level}"}
        queue = min(level, 18) - 1
        puts.append(Put(drafts=(a_draft("SCHEDULE_TOPIC_XXXX", b"later", properties, queue=queue),) * 2))
    return puts


def _light(chance: random.Random) -> list[Put]:
    """Messages that are filed under one to three light queues, too."""
    names = ["%LMQ%a", "%LMQ%b", "%LMQ%größe"]
    return [
        Put(
            messages=(
                Message(
                    "orders",
                    chance.randbytes(30),
                    tags="light",
                    properties={"INNER_MULTI_DISPATCH": ",".join(chance.sample(names, 1 + number % 3))},
                ),
            )
            * 2
        )
        for number in range(30)
    ]


def _inner_batch(chance: random.Random, number: int) -> Put:
    """A client's batch that stays one record, or a message alone, in a topic of batches."""
    if number % 4 == 0:
        return Put(messages=(Message(BATCH_TOPIC, b"alone", tags="one", keys=[f"alone-{number}"], queue=number % 2),))
    elements = [BatchElement(0, chance.randbytes(20), b"") for _ in range(chance.randrange(1, 9))]
    properties = {"UNIQ_KEY": f"BATCH{number:027}", "INNER_NUM": str(len(elements)), "TAGS": "many"}
    flags = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
    body = encode_batch(elements)
    return Put(drafts=(a_draft(BATCH_TOPIC, body, properties, queue=number % 2, sys_flag=flags),))


def _client_batch(chance: random.Random, number: int) -> Put:
    return _batch(chance, chance.randrange(2, 12), f"batch-{number}")


def _batch(chance: random.Random, count: int, key: str) -> Put:
    """A client's batch that becomes one record for each element, all in one file."""
    unique = key.rjust(32, "0")
    drafts = [
        a_draft("clicks", chance.randbytes(900), {"KEYS": f"{key} {key}-{each}", "UNIQ_KEY": unique}, queue=2)
        for each in range(count)
    ]
    return Put(drafts=tuple(drafts), together=True)


def _transactional(chance: random.Random) -> list[Put]:
    """Records as old brokers kept them: those prepared or rolled back are in no queue."""
    flags = (SysFlag.PREPARED, SysFlag.COMMITTED, SysFlag.ROLLED_BACK)
    return [
        Put(drafts=(a_draft("orders", chance.randbytes(9), {"KEYS": f"deal-{number}"}, sys_flag=flag),))
        for number, flag in enumerate(flags * 2)
    ]


def _unusual(chance: random.Random) -> list[Put]:
    packed = zlib.compress(b"packed " * 100)
    fields = {"reconsume_times": 3, "prepared_position": 99, "flag": -5, "queue": 7}
    return [
        Put(drafts=(a_draft("orders", b"v6", {"TAGS": "eu"}, born_host=BORN_V6),)),
        Put(drafts=(a_draft("orders", packed, {}, sys_flag=SysFlag.COMPRESSED | SysFlag.ZLIB),)),
        Put(drafts=(a_draft("orders", chance.randbytes(9), {"UNIQ_KEY": "C0A8" * 8, "WAIT": "false"}, **fields),)),
    ]


def a_draft(topic: str, body: bytes, properties: Mapping[str, str], *, queue: int = 0, **fields: Any) -> Draft:
    values = {"born_time": 1_690_000_000_000, "born_host": LOCAL, **fields}
    return Draft(topic.encode(), queue, body, format_properties(properties), **values)


def for_rocketmq(seed: int, count: int = 40) -> list[dict[str, Any]]:
    """Puts of all kinds for RocketMQ's side."""
    chance = random.Random(seed)
    puts: list[dict[str, Any]] = []
    for number in range(count):
        puts.append(_message(chance, f"theirs-{seed}-{number}"))
        if number % 4 == 0:
            puts.append({"topic": BATCH_TOPIC, "queueId": number % 2, **_elements(chance, f"inner-{seed}-{number}")})
        if number % 5 == 0:
            puts.append({"topic": "clicks", "queueId": 2, **_elements(chance, f"outer-{seed}-{number}")})
        if number % 6 == 0:
            light = {"INNER_MULTI_DISPATCH": "%LMQ%b,%LMQ%größe", "UNIQ_KEY": f"L{seed}{number}".rjust(32, "0")}
            puts.append({"topic": "orders", "bodyHex": "77", "properties": light, "tags": "light"})
            puts.append({"topic": "orders", "queueId": 1, "delayLevel": 1 + number % 18, "bodyHex": "0d"})
            puts.append({"topic": LONG_TOPICS[number // 6 % 2], "bodyHex": "5e", "bornHost": "2001:db8::1:50002"})
        if number % 20 == 0:
            puts.append({"topic": "orders", "sysFlag": (0x4, 0xC)[number // 20 % 2], "keys": f"deal-{seed}-{number}"})
            puts.append({"topic": "large", "queueId": number % 4, "bodyHex": bytes(LARGEST_BODY // 2).hex()})
    return puts


def _message(chance: random.Random, key: str) -> dict[str, Any]:
    put = {
        "topic": chance.choice(("orders", "clicks")),
        "queueId": chance.randrange(4),
        "bodyHex": chance.randbytes(chance.choice((0, 1, 100, 3_000))).hex(),
        "keys": f"{key} all",
        "properties": {"Größe": "大 😀", "UNIQ_KEY": key.rjust(32, "U")},
        "flag": chance.choice((0, -1, 9)),
        "bornTimestamp": 1_690_000_000_000,
        "reconsumeTimes": chance.randrange(3),
    }
    tags = chance.choice(TAGS)
    return put if tags is None else put | {"tags": tags}


def _elements(chance: random.Random, key: str) -> dict[str, Any]:
    elements = [{"bodyHex": chance.randbytes(20).hex(), "keys": f"{key}-{n}"} for n in range(chance.randrange(1, 6))]
    return {"batch": elements, "tags": "many", "properties": {"UNIQ_KEY": key.rjust(32, "B")}}


if __name__ == "__main__":
    fill(Path(sys.argv[1]), sys.argv[2], lambda count, safe: print(count, safe, flush=True))
    sys.stdin.read()
