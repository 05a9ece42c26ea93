"""mqadmin's commands about groups, their offsets, and clients."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import text
from tests.compat.live_group import LiveGroup, rows
from tests.compat.scene import Scene

GET_ALL_MODES = 402


def settings(scene: Scene, group: str) -> dict[str, str]:
    """What getConsumerConfig prints; nothing for a group that is not there."""
    printed = scene.run_mqadmin("getConsumerConfig", "-g", group)["out"]
    pairs = [line.partition("=") for line in printed.splitlines() if not line.startswith("==")]
    return {name.strip(): value.strip() for name, _, value in pairs}


def test_sub_group(scene: Scene) -> None:
    """mqadmin.updateSubGroup, mqadmin.getConsumerConfig, mqadmin.deleteSubGroup"""
    group = scene.group()
    printed = scene.mqadmin("updateSubGroup", "-c", scene.cluster_name, "-g", group, "-r", 5, "-q", 2, "-d", "true")
    assert f"create subscription group to {scene.broker} success." in printed
    found = settings(scene, group)
    assert (found["groupName"], found["retryMaxTimes"], found["retryQueueNums"]) == (group, "5", "2")
    assert (found["consumeEnable"], found["consumeBroadcastEnable"]) == ("true", "true")
    printed = scene.mqadmin("deleteSubGroup", "-c", scene.cluster_name, "-g", group)
    assert f"delete subscription group [{group}] from broker [{scene.broker}]" in printed
    assert settings(scene, group) == {}


def test_a_group_has_no_attributes(scene: Scene) -> None:
    group = scene.group()
    printed = scene.run_mqadmin("updateSubGroup", "-b", scene.broker, "-g", group, "--attributes", "+color=red")
    assert "CODE: 1 " in printed["err"]
    assert settings(scene, group) == {}


def test_sub_group_list(scene: Scene, tmp_path: Path) -> None:
    groups = [scene.group(), scene.group()]
    (tmp_path / "groups.json").write_text(json.dumps([{"groupName": group, "retryMaxTimes": 9} for group in groups]))
    printed = scene.mqadmin("updateSubGroupList", "-b", scene.broker, "-f", tmp_path / "groups.json")
    assert "success" in printed
    assert [settings(scene, group)["retryMaxTimes"] for group in groups] == ["9", "9"]


def test_consumer_progress(live: LiveGroup) -> None:
    """mqadmin.consumerProgress"""
    printed = live.scene.mqadmin("consumerProgress", "-g", live.group)
    table = [row for row in rows(printed) if row[0] == live.topic]
    assert [row[:6] for row in table] == [[live.topic, live.scene.broker_name, str(q), "6", "6", "0"] for q in (0, 1)]
    assert "Consume Diff Total: 0" in printed
    printed = live.scene.mqadmin("consumerProgress", "-g", live.behind, "-t", live.topic)
    table = [row for row in rows(printed) if row[0] == live.topic]
    assert [row[2:6] for row in table] == [["0", "6", "2", "4"], ["1", "6", "0", "6"]]
    assert "Consume Diff Total: 10" in printed


def test_consumer_progress_with_clients(live: LiveGroup) -> None:
    """mqadmin.consumerProgress-client"""
    printed = live.scene.mqadmin("consumerProgress", "-g", live.group, "-s", "true")
    address = live.consumer.client_id.split("@")[0]
    table = [row for row in rows(printed) if row[0] == live.topic]
    assert len(table) == 2
    for row in table:
        assert row[5].startswith(address), printed


def test_consumer_progress_of_all(live: LiveGroup) -> None:
    """mqadmin.consumerProgress-all"""
    table = {row[0]: row for row in rows(live.scene.mqadmin("consumerProgress"))}
    assert table[live.group][1:5] == ["1", "V5_3_3", "PUSH", "CLUSTERING"]
    assert table[live.group][-1] == "0"


def test_consumer_progress_of_nobody(scene: Scene) -> None:
    printed = scene.run_mqadmin("consumerProgress", "-g", scene.group())
    assert "Diff Total" not in printed["out"]
    assert "Exception" in printed["err"]


def test_consumer_connection(live: LiveGroup) -> None:
    """mqadmin.consumerConnection"""
    printed = live.scene.mqadmin("consumerConnection", "-g", live.group)
    table = rows(printed)
    assert table[0][0] == live.consumer.client_id
    assert re.fullmatch(r"127\.0\.0\.1:\d+", table[0][1])
    assert table[0][2:] == ["JAVA", "V5_3_3"]
    assert [live.topic, "A", "||", "B"] in table
    assert [f"%RETRY%{live.group}", "*"] in table
    for line in ("ConsumeType: CONSUME_PASSIVELY", "MessageModel: CLUSTERING"):
        assert line in printed


def test_consumer_status(live: LiveGroup) -> None:
    """mqadmin.consumerStatus, mqadmin.consumerStatus-analysis"""
    one = live.scene.mqadmin("consumerStatus", "-g", live.group, "-i", live.consumer.client_id)
    assert "#Consumer Subscription#" in one and "#Consumer Offset#" in one
    assert live.topic in one
    every = live.scene.mqadmin("consumerStatus", "-g", live.group)
    assert rows(every)[0][1] == live.consumer.client_id
    assert "Same subscription in the same group of consumer" in every
    assert "Rebalance OK" in every
    with_stacks = live.scene.mqadmin("consumerStatus", "-g", live.group, "-i", live.consumer.client_id, "-s")
    assert "java.lang.Thread" in with_stacks or "TID:" in with_stacks


def test_producers(live: LiveGroup) -> None:
    """mqadmin.producerConnection, mqadmin.producer"""
    scene = live.scene
    (row,) = rows(scene.mqadmin("producerConnection", "-g", live.producer_group, "-t", live.topic))
    assert row[:2] == ["0001", live.producer.client_id]
    assert row[3:] == ["JAVA", "V5_3_3"]
    every = [line for line in scene.mqadmin("producer", "-b", scene.broker).splitlines() if live.producer_group in line]
    assert len(every) == 1 and live.producer.client_id in every[0]


def test_stats_all(live: LiveGroup) -> None:
    """mqadmin.statsAll"""
    table = {row[1]: row for row in rows(live.scene.mqadmin("statsAll", "-t", live.topic)) if row[0] == live.topic}
    assert table[live.group][2] == "0"
    assert table[live.behind][2] == "10"


def test_broker_consume_stats(live: LiveGroup) -> None:
    """mqadmin.brokerConsumeStats"""
    table = rows(live.scene.mqadmin("brokerConsumeStats", "-b", live.scene.broker))
    mine = [row for row in table if row[0] == live.topic and row[1] == live.behind]
    assert [row[2:7] for row in mine] == [[live.scene.broker_name, "0", "6", "2", "4"]]  # of a queue with no time, none
    done = [row for row in table if row[0] == live.topic and row[1] == live.group]
    assert [row[6] for row in done] == ["0", "0"]


def test_clone_group_offset(live: LiveGroup) -> None:
    scene, target = live.scene, live.scene.group()
    scene.save_group(target)
    scene.mqadmin("cloneGroupOffset", "-s", live.behind, "-d", target, "-t", live.topic)
    found = scene.consume_stats(target, live.topic)
    assert {queue: each["consumerOffset"] for queue, each in found.items()} == {0: 2, 1: 0}


def test_skip_accumulated(scene: Scene) -> None:
    topic, group = scene.topic(1), scene.group()
    scene.producer().send_ok(*scene.messages(topic, range(5)))
    scene.save_group(group)
    pull = scene.pull(group)
    pull.call("updateConsumeOffsetToBroker", scene.queue(topic, 0), 1, False, part="offsetStore")
    assert rows(scene.mqadmin("skipAccumulatedMessage", "-g", group, "-t", topic))[-1][1:] == ["0", "5"]
    assert pull.call("fetchConsumeOffset", scene.queue(topic, 0), True) == 5


def test_reset_offset_by_time(scene: Scene) -> None:
    """mqadmin.resetOffsetByTime"""
    topic, group = scene.topic(2), scene.group()
    scene.producer().send_ok(*(scene.message(topic, str(number), queue=number % 2) for number in range(6)))
    consumer = scene.push(group, {topic: "*"})
    assert len(consumer.deliveries(6)) == 6
    since = scene.read(topic, 0)[1]["storeTimestamp"]
    again = {text(one) for queue in (0, 1) for one in scene.read(topic, queue) if one["storeTimestamp"] >= since}
    printed = scene.mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", since)
    table = [row for row in rows(printed) if row[0] == scene.broker_name]
    assert sum(3 - int(row[2]) for row in table) == len(again)
    scene.producer().send_ok(*(scene.message(topic, "wake up", queue=queue) for queue in (0, 1)))
    wait_until(lambda: again <= set(consumer.bodies()[6:]), seconds=25)


def test_reset_offset_of_a_queue(scene: Scene) -> None:
    """mqadmin.resetOffsetByTime-queue"""
    topic, group = scene.topic(2), scene.group()
    scene.producer().send_ok(*(scene.message(topic, str(number), queue=number % 2) for number in range(8)))
    consumer = scene.push(group, {topic: "*"})
    assert len(consumer.deliveries(8)) == 8
    consumer.close()
    options = ("-g", group, "-t", topic, "-s", 0, "-b", scene.broker, "-q", 1, "-o", 2)
    assert "reset consumer offset to 2" in scene.mqadmin("resetOffsetByTime", *options)
    again = scene.push(group, {topic: "*"})
    assert sorted(again.bodies(2)) == ["5", "7"]
    scene.producer().send_ok(scene.message(topic, "new", queue=0))
    assert sorted(again.bodies(3)) == ["5", "7", "new"]


@pytest.mark.parametrize("mode", ["POP", "PULL"])
def test_set_consume_mode(scene: Scene, mode: str) -> None:
    """mqadmin.setConsumeMode"""
    topic, group = scene.topic(2), scene.group()
    scene.save_group(group)
    printed = scene.mqadmin("setConsumeMode", "-b", scene.broker, "-t", topic, "-g", group, "-m", mode, "-q", 3)
    assert f"set consume mode to {scene.broker} success." in printed
    assert f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[3]" in printed
    answer = scene.raw(GET_ALL_MODES)
    assert answer["code"] == 0, answer
    kept = json.loads(answer["body"])["messageRequestModeMap"][topic][group]
    assert (kept["mode"], kept["popShareQueueNum"]) == (mode, 3)
