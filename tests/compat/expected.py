"""What a store must show, worked out from the records of its log alone, in RocketMQ's words and without our code.

A record is the dictionary that RocketMQ's side prints for it (java/…/Records.java). From a list of
them follow all queues with their entries, every answer of the index, and the searches by time.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

Facts = dict[str, Any]
Queues = dict[str, dict[str, Facts]]

CRC = "__CRC32#"
DELAY_MS = [1_000 * n for n in (1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200)]
NOT_QUEUED = 0x4  # prepared and rolled-back records have this bit
ROLLED_BACK = 0xC
MOST_FOUND = 64  # by one look-up in RocketMQ's index


def queues(records: Iterable[Facts], *, batch_topics: Iterable[str] = (), light: bool = True) -> Queues:
    """Every queue that the log calls for, as RocketMQ's side prints it; of the messages' bodies their hashes."""
    found: Queues = {}
    for record in records:
        if record["sysFlag"] & NOT_QUEUED:
            continue
        places = [(record["topic"], record["queueId"], record["queueOffset"])]
        if light:
            places += light_places(record)
        for topic, queue, offset in places:
            batch = topic in batch_topics
            facts = found.setdefault(topic, {}).setdefault(str(queue), _empty_queue(offset, batch=batch))
            _add(facts, record, offset, batch=batch)
    return {topic: dict(sorted(by_queue.items())) for topic, by_queue in sorted(found.items())}


def _empty_queue(offset: int, *, batch: bool) -> Facts:
    kind = "BatchCQ" if batch else "SimpleCQ"
    return {"type": kind, "minOffset": offset, "maxOffset": offset, "maxPhysicOffset": 0, "units": [], "messages": []}


def _add(queue: Facts, record: Facts, offset: int, *, batch: bool) -> None:
    assert offset == queue["maxOffset"], "offsets are dense"
    count = int(record["properties"].get("INNER_NUM", 1)) if batch else 1
    position, size = record["physicalOffset"], record["totalSize"]
    unit = [position, size, tags_code(record)]
    queue["units"].append([*unit, offset, count] if batch else unit)
    queue["messages"].append(message(record, offset))
    queue["maxOffset"] = offset + count
    queue["maxPhysicOffset"] = position if batch else position + size


def message(record: Facts, offset: int) -> Facts:
    """A record as a consumer of some queue gets it, there at `offset`."""
    properties = record["properties"]
    facts = {name: record[name] for name in ("topic", "queueId", "queueOffset", "physicalOffset", "properties")}
    return facts | {
        "offset": offset,
        "body": body_hash(record),
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
    }


def body_hash(record: Facts) -> str:
    """The SHA-256 of the body as a consumer sees it, which is unpacked."""
    for name in ("plainBodySha256", "bodySha256"):
        if name in record:
            return str(record[name])
    return hashlib.sha256(bytes.fromhex(record["bodyHex"])).hexdigest()


def light_places(record: Facts) -> list[tuple[str, int, int]]:
    """The light queues that a record is filed under, and its offsets there."""
    properties = record["properties"]
    names, offsets = properties.get("INNER_MULTI_DISPATCH"), properties.get("INNER_MULTI_QUEUE_OFFSET")
    if not names or not offsets:
        return []
    pairs = zip(names.split(","), offsets.split(","), strict=True)
    return [(name, 0, int(offset)) for name, offset in pairs]


def tags_code(record: Facts) -> int:
    properties = record["properties"]
    if record["topic"] == "SCHEDULE_TOPIC_XXXX" and "DELAY" in properties:
        level = min(int(properties["DELAY"]), len(DELAY_MS))
        return int(record["storeTimestamp"]) + DELAY_MS[level - 1]
    return java_hash(properties.get("TAGS", ""))


def java_hash(text: str) -> int:
    """String.hashCode: over UTF-16 units, in 32 bits with a sign."""
    units = text.encode("utf-16-be")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFF_FFFF
    return value - (value >> 31 << 32)


def keys(record: Facts) -> list[str]:
    """What a record is found by."""
    if record["sysFlag"] & ROLLED_BACK == ROLLED_BACK:
        return []
    properties = record["properties"]
    unique = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
    return unique + [key for key in properties.get("KEYS", "").split(" ") if key]


def positions(records: Iterable[Facts]) -> dict[tuple[str, str], list[int]]:
    """Where the records of a topic with a key lie, newest first and as many as RocketMQ finds at once."""
    found: dict[tuple[str, str], list[int]] = {("orders", "nobody-has-it"): []}
    for record in records:
        for key in dict.fromkeys(keys(record)):
            found.setdefault((record["topic"], key), []).insert(0, record["physicalOffset"])
    return {wanted: places[:MOST_FOUND] for wanted, places in found.items()}


def times(found: Queues, records: Iterable[Facts]) -> list[Facts]:
    """Searches by time in every queue: before, at and behind some of its records.

    In a batch queue only at times that one entry alone has. RocketMQ looks into one of its files, and
    finds the last entry there, wherever it should find the first of the next file, or one stored at the same time.
    """
    stored = {record["physicalOffset"]: record["storeTimestamp"] for record in records}
    asked = []
    for topic, by_queue in found.items():
        for queue, facts in by_queue.items():
            at = Counter(stored[unit[0]] for unit in facts["units"])
            moments = sorted(at)
            some = {moments[0], moments[-1], *moments[:: max(1, len(moments) // 4)]}
            for time in sorted({time + step for time in some for step in (-1, 0, 1)}):
                if facts["type"] == "SimpleCQ" or at[time] == 1:
                    asked.append({"topic": topic, "queueId": int(queue), "timestamp": time})
    return asked


def offsets_by_time(found: Queues, records: Iterable[Facts], asked: Iterable[Facts]) -> list[Facts]:
    """The answers. In a batch queue `upper` is not compared: what RocketMQ says there depends on its search."""
    stored = {record["physicalOffset"]: record["storeTimestamp"] for record in records}
    answers = []
    for question in asked:
        queue, time = found[question["topic"]][str(question["queueId"])], question["timestamp"]
        if queue["type"] == "BatchCQ":
            bases = [unit[3] for unit in queue["units"] if stored[unit[0]] >= time]
            answers.append(question | {"lower": bases[0] if bases else queue["units"][-1][3]})
            continue
        at = [stored[unit[0]] for unit in queue["units"]]
        before = sum(moment < time for moment in at)
        until = sum(moment <= time for moment in at)
        first = queue["minOffset"]
        answers.append(question | {"lower": first + before, "upper": first + max(until - 1, 0)})
    return answers
