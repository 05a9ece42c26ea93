"""Checks that a directory shows what follows from its records, to RocketMQ and to us."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embermq import Store
from tests.compat import expected
from tests.compat.expected import Facts, Queues
from tests.compat.samples import BATCH_TOPIC, ROCKETMQ
from tests.compat.store_tool import StoreTool
from tests.compat.views import our_answers, our_offsets_by_time, our_queues, our_records


class Content:
    """All that must be seen in a store with these records."""

    def __init__(self, records: Sequence[Facts]) -> None:
        self.records = list(records)
        self.queues = expected.queues(records, batch_topics=[BATCH_TOPIC])
        found = expected.positions(records)
        self.queries = [{"topic": topic, "key": key, "maxNum": expected.MOST_FOUND} for topic, key in found]
        self.positions = list(found.values())
        self.times = expected.times(self.queues, records)
        self.offsets = expected.offsets_by_time(self.queues, records, self.times)


def check_rocketmq_sees(
    tool: StoreTool, directory: Path, records: Sequence[Facts], *, config: Mapping[str, Any] = ROCKETMQ
) -> Facts:
    """Open the store with RocketMQ and close it cleanly; returns what else it said."""
    content = Content(records)
    facts = tool.read(directory, config=config, queries=content.queries, times=content.times)
    log = facts["commitLog"]
    # Behind the end there may be more: RocketMQ cuts without erasing.
    assert [record for record in log["records"] if record["physicalOffset"] < log["maxOffset"]] == content.records
    facts["extended"] = {
        (topic, number): queue.pop("ext", [])
        for topic, queues in facts["consumeQueues"].items()
        for number, queue in queues.items()
    }
    assert _with_hashes(_without_empty(facts["consumeQueues"])) == content.queues
    for answer, wanted in zip(facts["index"]["queries"], content.positions, strict=True):
        # A record with a key twice is listed twice, and so is, after a crash, the last record that was known.
        found = [place for place in dict.fromkeys(answer["physicalOffsets"]) if place >= log["minOffset"]]
        is_full = len(answer["physicalOffsets"]) == answer["maxNum"]
        assert found == (wanted[: len(found)] if is_full else wanted), answer
    check_times(facts["offsetByTime"], content.offsets)
    return facts


def check_we_see(store: Store, records: Sequence[Facts]) -> None:
    """The open store shows these records, and all that follows from them."""
    content = Content(records)
    assert our_records(store.path) == content.records
    for queue in (queue for queues in content.queues.values() for queue in queues.values()):
        del queue["maxPhysicOffset"]
    assert _without_empty(our_queues(store)) == content.queues
    assert our_answers(store, content.queries) == content.positions
    check_times(our_offsets_by_time(store, content.times), content.offsets)
    for record in content.records:
        message = store.find(record["msgId"])
        assert message is not None and message.position == record["physicalOffset"]


def _without_empty(queues: Queues) -> Queues:
    """Without the queues that only lost what they had."""
    filled = {topic: {name: queue for name, queue in each.items() if queue["units"]} for topic, each in queues.items()}
    return {topic: each for topic, each in filled.items() if each}


def _with_hashes(queues: Queues) -> Queues:
    """With the hash of each body in its place."""
    for message in (each for by_queue in queues.values() for queue in by_queue.values() for each in queue["messages"]):
        message["body"] = hashlib.sha256(bytes.fromhex(message.pop("bodyHex"))).hexdigest()
    return queues


def check_times(answers: Iterable[Facts], wanted: Iterable[Facts]) -> None:
    for answer, facts in zip(answers, wanted, strict=True):
        assert {name: answer[name] for name in facts} == facts
