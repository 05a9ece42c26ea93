"""mqadmin's commands about messages."""

from __future__ import annotations

from tests.compat.client_tool import text, texts
from tests.compat.live_group import LiveGroup, rows
from tests.compat.scene import Scene


def fields(printed: str) -> dict[str, str]:
    """What is printed about one message, by name."""
    lines = [line for line in printed.splitlines() if ":" in line and not line.startswith("MessageTrack")]
    pairs = [line.partition(":") for line in lines]
    return {name.strip(): value.strip() for name, _, value in pairs}


def check_shown(live: LiveGroup, printed: str, number: int) -> None:
    """The message with this number, and that the group has consumed it."""
    shown, stored = fields(printed), live.stored[number % 2][number // 2]
    assert shown["Topic"] == live.topic
    assert shown["Tags"] == f"[{stored['tags']}]"
    assert shown["Keys"] == f"[key-{number} all]"
    assert (shown["Queue ID"], shown["Queue Offset"]) == (str(number % 2), str(number // 2))
    assert shown["CommitLog Offset"] == str(stored["commitLogOffset"])
    assert shown["Store Host"] == live.scene.broker
    assert live.sent[number]["msgId"] in shown["Properties"]
    assert f"MessageTrack [consumerGroup={live.group}, trackType=CONSUMED, exceptionDesc=null]" in printed


def test_query_by_id(live: LiveGroup) -> None:
    printed = live.scene.mqadmin("queryMsgById", "-t", live.topic, "-i", live.sent[3]["offsetMsgId"])
    check_shown(live, printed, 3)
    assert fields(printed)["OffsetID"] == live.sent[3]["offsetMsgId"]
    assert f"consumerGroup={live.behind}, trackType=NOT_ONLINE" in printed


def test_query_by_unknown_id(live: LiveGroup) -> None:
    """mqadmin.queryMsgById-unknown"""
    beyond = live.sent[0]["offsetMsgId"][:16] + f"{1 << 50:016X}"
    printed = live.scene.run_mqadmin("queryMsgById", "-t", live.topic, "-i", beyond)
    assert "Queue Offset:" not in printed["out"]
    assert "Exception" in printed["err"] or "not found" in printed["out"] or "no message" in printed["out"]


def test_consume_directly(live: LiveGroup) -> None:
    """mqadmin.queryMsgById-direct"""
    before = len(live.consumer.deliveries())
    options = ("-t", live.topic, "-i", live.sent[4]["msgId"], "-g", live.group, "-d", live.consumer.client_id)
    assert "consumeResult=CR_SUCCESS" in live.scene.mqadmin("queryMsgById", *options)
    assert text(live.consumer.deliveries(before + 1)[before]) == "body 4"


def test_query_by_key(live: LiveGroup) -> None:
    """mqadmin.queryMsgByKey"""
    (row,) = rows(live.scene.mqadmin("queryMsgByKey", "-t", live.topic, "-k", "key-5"))
    assert row == [live.sent[5]["msgId"], "1", "2"]
    every = rows(live.scene.mqadmin("queryMsgByKey", "-t", live.topic, "-k", "all"))
    wanted = [[each["msgId"], str(each["queueId"]), str(each["queueOffset"])] for each in live.sent]
    assert sorted(every) == sorted(wanted)


def test_query_by_unique_key(live: LiveGroup) -> None:
    """mqadmin.queryMsgByUniqueKey"""
    check_shown(live, live.scene.mqadmin("queryMsgByUniqueKey", "-t", live.topic, "-i", live.sent[7]["msgId"]), 7)


def test_query_by_offset(live: LiveGroup) -> None:
    """mqadmin.queryMsgByOffset"""
    options = ("-t", live.topic, "-b", live.scene.broker_name, "-i", 1, "-o", 4, "-f", "UTF-8")
    printed = live.scene.mqadmin("queryMsgByOffset", *options)
    check_shown(live, printed, 9)
    assert fields(printed)["Message Body"] == "body 9"


def test_print_by_queue(live: LiveGroup) -> None:
    """mqadmin.printMsgByQueue, mqadmin.printMsgByQueue-count"""
    place = ("-t", live.topic, "-a", live.scene.broker_name, "-i", 0)
    lines = live.scene.mqadmin("printMsgByQueue", *place, "-p", "true", "-d", "true").splitlines()
    mine = [live.sent[number]["msgId"] for number in range(0, 12, 2)]
    assert [line.split()[1] for line in lines] == mine
    assert [line.rpartition("BODY: ")[2] for line in lines] == [f"body {number}" for number in range(0, 12, 2)]
    counts = live.scene.mqadmin("printMsgByQueue", *place, "-f", "true").splitlines()
    assert [line.split() for line in counts] == [["Tag:", "A", "Count:", "4"], ["Tag:", "B", "Count:", "2"]]


def test_print_messages(live: LiveGroup) -> None:
    lines = live.scene.mqadmin("printMsg", "-t", live.topic, "-d", "true").splitlines()
    bodies = [line.rpartition("BODY: ")[2] for line in lines if line.startswith("MSGID: ")]
    assert sorted(bodies) == sorted(f"body {number}" for number in range(12))


def test_consume_messages(live: LiveGroup) -> None:
    options = ("-t", live.topic, "-b", live.scene.broker_name, "-i", 0, "-o", 1, "-c", 2)
    printed = live.scene.mqadmin("consumeMessage", *options)
    bodies = [line.rpartition("BODY: ")[2] for line in printed.splitlines() if "BODY: " in line]
    assert bodies == ["body 2", "body 4"]


def test_send_message(scene: Scene) -> None:
    topic = scene.topic(2)
    options = ("-t", topic, "-p", "Grüße", "-k", "k", "-c", "T", "-b", scene.broker_name, "-i", 1)
    (row,) = rows(scene.mqadmin("sendMessage", *options))
    (stored,) = scene.read(topic, 1)
    assert row == [scene.broker_name, "1", "SEND_OK", stored["msgId"]]
    assert (texts([stored]), stored["keys"], stored["tags"]) == (["Grüße"], "k", "T")


def test_send_status(scene: Scene) -> None:
    """mqadmin.sendMsgStatus"""
    before = scene.topic_stats(scene.broker_name)
    printed = scene.mqadmin("sendMsgStatus", "-b", scene.broker_name, "-c", 5, "-s", 64)
    assert [line.count("sendStatus=SEND_OK") for line in printed.splitlines()] == [1] * 5
    after = scene.topic_stats(scene.broker_name)
    assert sum(after[queue]["maxOffset"] - before[queue]["maxOffset"] for queue in after) == 6  # one to warm up


def test_send_times(scene: Scene) -> None:
    topic = scene.topic(2)
    printed = scene.mqadmin("checkMsgSendRT", "-t", topic, "-a", 6, "-s", 32)
    assert [row[2] for row in rows(printed) if row[0] == scene.broker_name] == ["true"] * 6
    assert "Avg RT:" in printed
    assert len(scene.read_all(topic, 2)) == 6


def test_query_consume_queue(live: LiveGroup) -> None:
    options = ("-t", live.topic, "-q", 0, "-i", 1, "-c", 2, "-b", live.scene.broker)
    printed = live.scene.mqadmin("queryCq", *options)
    assert "max: 6, min: 0" in printed
    for one in live.stored[0][1:3]:
        assert f"physicOffset={one['commitLogOffset']}, physicSize={one['storeSize']}," in printed
