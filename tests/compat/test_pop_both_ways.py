"""A store directory changes hands while messages are with consumers that popped them, both ways.

Of eight messages two are acknowledged before the change, two after it with handles of before, two are given more time
after it, and two are forgotten. Whoever comes next redelivers the last two, and the changed ones later.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import ClientTool, Facts
from tests.compat.one_directory import EMBER, ROCKETMQ, OneDirectory
from tests.compat.popping import Popper, bodies
from tests.compat.scene import scene_of

TOPIC, GROUP, ORDERED = "orders", "pops", "pops-in-order"
INVISIBLE_MS = 45_000  # longer than a change of hands takes


def pop_all(popper: Popper, count: int, **asked: object) -> list[Facts]:
    found = popper.pop_until(count, **{"poll_ms": 2_000, **asked})
    assert len(found) == count, bodies(found)
    return sorted(found, key=lambda message: int(bytes.fromhex(message["bodyHex"])))


@pytest.mark.parametrize(
    ("first", "second"), [(ROCKETMQ, EMBER), pytest.param(EMBER, ROCKETMQ, marks=pytest.mark.slow)]
)
def test_what_was_popped_from_one_is_continued_by_the_other(
    first: str, second: str, client_tool: ClientTool, java_classes: str, tmp_path: Path
) -> None:
    directory = OneDirectory(tmp_path, java_classes, {"reviveQueueNum": 2})
    with directory.served_by(first) as cluster, scene_of(client_tool, cluster) as scene:
        scene.topic(2, name=TOPIC)
        scene.save_group(GROUP)
        scene.save_group(ORDERED)
        scene.producer().send_ok(*scene.messages(TOPIC, range(8)))
        popper, in_order = Popper(scene, TOPIC, GROUP), Popper(scene, TOPIC, ORDERED)
        popped = pop_all(popper, 8, invisible_ms=INVISIBLE_MS)
        popper.ack(popped[0])
        popper.ack_batch([popped[1]])
        ordered = in_order.pop(4, queue=0, order=True, invisible_ms=600_000, poll_ms=5_000)["messages"]
        in_order.ack(ordered[0])
    with directory.served_by(second) as cluster, scene_of(client_tool, cluster) as scene:
        popper, in_order = Popper(scene, TOPIC, GROUP), Popper(scene, TOPIC, ORDERED)
        wait_until(lambda: scene.find_route(TOPIC) is not None, seconds=60)
        assert in_order.pop(4, queue=0, order=True)["messages"] == [], "an ordered queue is no longer blocked"
        popper.ack(popped[2])
        popper.ack_batch([popped[3]])
        for message in popped[4:6]:
            assert popper.change(message, INVISIBLE_MS)["status"] == "OK"
        assert popper.pop(32)["messages"] == [], "messages that are with a consumer came to another"
        again = pop_all(popper, 2, tries=90)
        assert bodies(again) == ["6", "7"]
        assert {message["reconsumeTimes"] for message in again} == {1}
        popper.ack_batch(again)
        for message in ordered[1:]:
            in_order.ack(message)
        rest = 4 - len(ordered)
        assert len(in_order.pop(4, queue=0, order=True, poll_ms=1_000)["messages"]) == rest
        assert bodies(pop_all(popper, 2, tries=90)) == ["4", "5"]
    directory.check()
