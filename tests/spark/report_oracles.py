"""Plain Python answers to the questions of reports, from what RocketMQ's decoder read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from embermq.model.delay import DEFAULT_DELAY_LEVELS
from tests.spark.golden_rows import Facts, GoldenStores

Row = tuple[Any, ...]


def records_of(stores: GoldenStores, name: str) -> list[Facts]:
    return [facts for place, facts in stores.records.items() if place[0] == name]


def unique_key(facts: Facts) -> str:
    return str(facts["properties"]["UNIQ_KEY"])


def copies(records: Sequence[Facts]) -> set[Row]:
    """Topic, unique key and how many have it. In a batch, all have that of the batch: RocketMQ 5.3.3 writes it so."""
    found = Counter(
        (facts["topic"], unique_key(facts))
        for facts in records
        if "UNIQ_KEY" in facts["properties"] and not facts["topic"].startswith(("%", "rmq_sys_"))
    )
    return {(*place, count) for place, count in found.items() if count > 1}


def filled_queues(records: Sequence[Facts]) -> set[Row]:
    """Topic, queue, and how many messages it has."""
    found = Counter((facts["topic"], facts["queueId"]) for facts in records)
    return {(*place, count) for place, count in found.items()}


def hottest(records: Sequence[Facts]) -> set[Row]:
    """Topic, key and how many messages have it, as far as the topic is no system's."""
    found = Counter(
        (facts["topic"], key) for facts in records for key in set(facts["properties"].get("KEYS", "").split(" ")) - {""}
    )
    return {(*place, count) for place, count in found.items()}


def out_of_order(records: Sequence[Facts]) -> set[Row]:
    """Topic, sharding key, queue and offset of messages that the one before them should not be before."""
    before: dict[tuple[str, str], Facts] = {}
    found = set()
    for facts in sorted(records, key=lambda facts: facts["physicalOffset"]):
        key = facts["properties"].get("__SHARDINGKEY")
        if key is None:
            continue
        last = before.get((facts["topic"], key))
        if last is not None and (last["queueId"] != facts["queueId"] or facts["bornTimestamp"] < last["bornTimestamp"]):
            found.add((facts["topic"], key, facts["queueId"], facts["queueOffset"]))
        before[facts["topic"], key] = facts
    return found


def given_back(records: Sequence[Facts], topic: str, group: str) -> set[Row]:
    """Group, state, topic, unique key, retries, offset of the dead letter, queue and offset of the original."""
    originals = {unique_key(facts): facts for facts in records if facts["topic"] == topic}
    retries = Counter(unique_key(facts) for facts in records if facts["topic"] == f"%RETRY%{group}")
    dead = {unique_key(facts): facts for facts in records if facts["topic"] == f"%DLQ%{group}"}
    return {
        (
            group, "dead" if key in dead else "retrying", topic, key, retries[key],
            dead[key]["queueOffset"] if key in dead else None, originals[key]["queueId"], originals[key]["queueOffset"],
        )
        for key in retries.keys() | dead.keys()
    }  # fmt: skip


def put_off(records: Sequence[Facts]) -> dict[Row, tuple[str, int]]:
    """State, and time in ms, by topic, unique key and count of retries; nobody waits any more."""
    delivered = {(facts["topic"], unique_key(facts), facts["reconsumeTimes"]) for facts in records}
    cancels = {facts["properties"].get("TIMER_DEL_UNIQKEY") for facts in records}
    found: dict[Row, tuple[str, int]] = {}
    for facts in records:
        properties = facts["properties"]
        if facts["topic"] not in ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer") or "TIMER_DEL_UNIQKEY" in properties:
            continue
        place = properties["REAL_TOPIC"], unique_key(facts), facts["reconsumeTimes"]
        is_cancelled = f"{place[0]}+{place[1]}" in cancels
        state = "delivered" if place in delivered else "cancelled" if is_cancelled else "overdue"
        level = DEFAULT_DELAY_LEVELS[facts["queueId"]]
        due = int(properties.get("TIMER_OUT_MS", facts["storeTimestamp"] + level))
        found[place] = state, max(due, found.get(place, ("", 0))[1])
    return found


def consumed(expected: Facts) -> set[Row]:
    """Topic, group, queue and offset, from the table of offsets that a store has."""
    table = expected["config"]["consumerOffset.json"]["offsetTable"]
    return {
        (*place.split("@"), int(queue), offset) for place, queues in table.items() for queue, offset in queues.items()
    }


def unfinished(expected: Facts, records: Sequence[Facts]) -> set[Row]:
    """State, unique key and offset of transactions; what is before the broker's own progress is done."""
    table = expected["config"]["consumerOffset.json"]["offsetTable"]
    progress = table["RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"]
    done: set[tuple[int, int]] = set()
    for facts in records:
        if facts["topic"] == "RMQ_SYS_TRANS_OP_HALF_TOPIC":
            numbers = bytes.fromhex(facts["bodyHex"]).decode().split(",")
            done |= {(facts["queueId"], int(number)) for number in numbers if number}
    return {
        ("open", unique_key(facts), facts["queueOffset"])
        for facts in records
        if facts["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"
        and (facts["queueId"], facts["queueOffset"]) not in done
        and facts["queueOffset"] >= progress[str(facts["queueId"])]
    } | {
        ("given up", unique_key(facts), facts["queueOffset"])
        for facts in records
        if facts["topic"] == "TRANS_CHECK_MAX_TIME_TOPIC"
    }
