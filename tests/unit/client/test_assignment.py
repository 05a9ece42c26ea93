"""Who of a group reads which queues: as RocketMQ's own clients divide them."""

from __future__ import annotations

import json
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from embermq.client.assignment import assign_queues
from embermq.format.heartbeat_body import decode_heartbeat
from embermq.format.wire_json import BrokerQueue
from tests.conftest import GOLDEN


def test_two_members_divide_as_rocketmqs_clients_did() -> None:
    """What each of two Java consumers pulled last, after both had joined."""
    members: dict[int, str] = {}
    pulled: dict[str, dict[BrokerQueue, int]] = defaultdict(dict)
    for number, line in enumerate((GOLDEN / "wire" / "rebalance-two-consumers.jsonl").read_text().splitlines()):
        frame = json.loads(line)
        fields = frame.get("header", {}).get("extFields") or {}
        if frame.get("dir") != "c2s" or frame.get("peer") != "broker":
            continue
        if frame["code"] == 34:
            members[frame["conn"]] = decode_heartbeat(bytes.fromhex(frame["body_hex"])).client_id
        if frame["code"] == 11 and fields["topic"] == "WireTopic":
            queue = BrokerQueue(fields["bname"], fields["topic"], int(fields["queueId"]))
            pulled[members[frame["conn"]]][queue] = number
    first, second = sorted(pulled)
    every = {queue for queues in pulled.values() for queue in queues}
    assert len(every) == 2
    for queue in assign_queues(every, [second, first], first):
        assert pulled[first][queue] > pulled[second].get(queue, -1)
    for queue in assign_queues(every, [first, second], second):
        assert pulled[second][queue] > pulled[first].get(queue, -1)


@given(queues=st.integers(0, 40), members=st.integers(1, 12))
def test_every_queue_has_one_reader_and_shares_differ_by_one_at_most(queues: int, members: int) -> None:
    every = [BrokerQueue(f"broker-{number % 3}", "orders", number) for number in range(queues)]
    names = [f"10.0.0.{number}@1" for number in range(members)]
    shares = [assign_queues(reversed(every), names, name) for name in names]  # type: ignore[arg-type]
    assert sorted(queue for share in shares for queue in share) == sorted(every)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_the_first_members_get_one_more_and_neighbours_stay_together() -> None:
    queues = [BrokerQueue("b", "orders", number) for number in range(5)]
    assert [queue.queue for queue in assign_queues(queues, ["m2", "m1"], "m1")] == [0, 1, 2]
    assert [queue.queue for queue in assign_queues(queues, ["m2", "m1"], "m2")] == [3, 4]


def test_who_is_no_member_reads_nothing() -> None:
    assert assign_queues([BrokerQueue("b", "orders", 0)], ["other"], "me") == []


def test_ten_comes_after_nine_in_queues_but_before_it_in_names() -> None:
    queues = [BrokerQueue("b", "orders", number) for number in range(11)]
    share = assign_queues(queues, ["c@10", "c@9"], "c@10")
    assert [queue.queue for queue in share] == [0, 1, 2, 3, 4, 5]
