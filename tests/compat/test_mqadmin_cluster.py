"""mqadmin's commands about clusters and brokers."""

from __future__ import annotations

import json
import selectors
import subprocess
import time
from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import texts
from tests.compat.live_group import LiveGroup, rows
from tests.compat.scene import Scene

MAIN = "org.apache.rocketmq.tools.command.MQAdminStartup"
ALONE = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def settings(scene: Scene) -> dict[str, str]:
    lines = scene.mqadmin("getBrokerConfig", "-b", scene.broker).splitlines()
    assert f"============{scene.broker}============" in lines
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines[1:])}


def test_cluster_list(scene: Scene) -> None:
    """mqadmin.clusterList, mqadmin.clusterList-more"""
    (row,) = rows(scene.mqadmin("clusterList"))
    assert row[:4] == [scene.cluster_name, scene.broker_name, "0", scene.broker]
    assert row[4].startswith("V")
    assert float(row[5].split("(")[0]) >= 0 and float(row[6].split("(")[0]) >= 0
    assert row[-1] == "true"
    (row,) = rows(scene.mqadmin("clusterList", "-m"))
    assert row[:2] == [scene.cluster_name, scene.broker_name]
    scene.producer().send_ok(*scene.messages(scene.topic(1), range(5)))
    (after,) = rows(scene.mqadmin("clusterList", "-m"))
    assert int(after[4]) >= int(row[4]) + 5


def test_broker_status(live: LiveGroup) -> None:
    printed = live.scene.mqadmin("brokerStatus", "-b", live.scene.broker)
    table = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in printed.splitlines())}
    assert int(table["commitLogMaxOffset"]) > live.stored[0][-1]["commitLogOffset"]
    assert int(table["msgPutTotalTodayNow"]) >= 12
    assert table["brokerActive"] == "true"


def test_a_process_of_its_own_prints_the_same(scene: Scene, java_classes: str) -> None:
    """All other tests run mqadmin's commands in the process that has the clients."""
    command = ["topicRoute", "-t", scene.topic(3), "-l"]
    alone = subprocess.run(
        [*ALONE, f"-Duser.home={scene.tool.home}", "-cp", java_classes, MAIN, *command, "-n", scene.namesrv],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    here = scene.mqadmin(*command)
    assert here != ""
    assert alone.stdout.endswith(here)  # before it, without its configuration, the logger tells of itself


def test_broker_config(scene: Scene) -> None:
    """mqadmin.updateBrokerConfig"""
    before = settings(scene)
    assert (before["brokerName"], before["brokerClusterName"]) == (scene.broker_name, scene.cluster_name)
    options = ("-b", scene.broker, "-k", "fileReservedTime", "-v")
    assert f"update broker config success, {scene.broker}" in scene.mqadmin("updateBrokerConfig", *options, 49)
    assert settings(scene)["fileReservedTime"] == "49"
    scene.mqadmin("updateBrokerConfig", *options, before["fileReservedTime"])
    assert settings(scene)["fileReservedTime"] == before["fileReservedTime"]


def test_broker_config_refused(scene: Scene) -> None:
    options = ("-b", scene.broker, "-k", "brokerConfigPath", "-v", "/tmp/escaped")
    printed = scene.run_mqadmin("updateBrokerConfig", *options)
    assert "success" not in printed["out"]
    assert "CODE: 16" in printed["err"]


def test_cleaning(scene: Scene) -> None:
    """mqadmin.cleanExpiredCQ, mqadmin.deleteExpiredCommitLog"""
    topic = scene.topic(2)
    scene.producer().send_ok(*scene.messages(topic, range(6)))
    for command in ("cleanExpiredCQ", "deleteExpiredCommitLog", "cleanUnusedTopic"):
        assert scene.mqadmin(command, "-b", scene.broker).strip() == "success"
    assert sorted(texts(scene.read_all(topic, 2))) == [str(number) for number in range(6)]


def test_export_metadata(live: LiveGroup, tmp_path: Path) -> None:
    """mqadmin.exportMetadata"""
    scene = live.scene
    printed = scene.mqadmin("exportMetadata", "-c", scene.cluster_name, "-f", tmp_path)
    assert f"export {tmp_path}/metadata.json success" in printed
    found = json.loads((tmp_path / "metadata.json").read_text())
    assert found["topicConfigTable"][live.topic]["writeQueueNums"] == 2
    assert {live.group, live.behind} <= set(found["subscriptionGroupTable"])
    assert "TBW102" not in found["topicConfigTable"]


def test_export_configs(scene: Scene, tmp_path: Path) -> None:
    """mqadmin.exportConfigs"""
    scene.mqadmin("exportConfigs", "-c", scene.cluster_name, "-f", tmp_path)
    found = json.loads((tmp_path / "configs.json").read_text())
    assert found["clusterScale"] == {"namesrvSize": 1, "masterBrokerSize": 1, "slaveBrokerSize": 0}
    config = found["brokerConfigs"][scene.broker_name]
    assert config["brokerClusterName"] == scene.cluster_name
    assert int(config["maxMessageSize"]) == 4 << 20


def test_export_metrics(live: LiveGroup, tmp_path: Path) -> None:
    """mqadmin.exportMetrics"""
    scene = live.scene
    scene.mqadmin("exportMetrics", "-c", scene.cluster_name, "-f", tmp_path)
    found = json.loads((tmp_path / "metrics.json").read_text())
    report = found["evaluateReport"][scene.broker_name]
    assert set(report) == {"runtimeEnv", "runtimeQuota", "runtimeVersion"}
    assert report["runtimeQuota"]["topicSize"] >= 1
    assert "totalTps" in found["totalData"]


def test_cluster_send_times(scene: Scene, java_classes: str) -> None:
    """clusterRT goes on for ever: what it prints first is looked at."""
    command = ["clusterRT", "-n", scene.namesrv, "-c", scene.cluster_name, "-a", "5", "-s", "16", "-i", "1"]
    before = sum(each["maxOffset"] for each in scene.topic_stats(scene.broker_name).values())
    with subprocess.Popen(
        [*ALONE, f"-Duser.home={scene.tool.home}", "-cp", java_classes, MAIN, *command], stdout=subprocess.PIPE
    ) as process:
        try:
            row = first_line(process, scene.cluster_name).split()
        finally:
            process.kill()
    assert row[:2] == [scene.cluster_name, scene.broker_name]
    assert row[3:5] == ["5", "0"]  # sent, and failed
    after = sum(each["maxOffset"] for each in scene.topic_stats(scene.broker_name).values())
    assert after >= before + 5


def first_line(process: subprocess.Popen[bytes], word: str, *, seconds: float = 60.0) -> str:
    """The first line with a word in it."""
    assert process.stdout is not None
    deadline, said = time.monotonic() + seconds, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(deadline - time.monotonic()):
            said += process.stdout.read1()
            for line in said.decode().splitlines(keepends=True):
                if word in line and line.endswith("\n"):
                    return line
    raise AssertionError(f"no {word!r} in {said!r}")


@pytest.mark.parametrize("place", ["-b", "-c"])
def test_replication_of_a_broker_alone(scene: Scene, place: str) -> None:
    printed = scene.mqadmin("haStatus", place, scene.broker if place == "-b" else scene.cluster_name)
    told = dict(row for row in (line.lstrip("#").split() for line in printed.splitlines()) if len(row) == 2)
    assert told["MasterAddr"] == scene.broker
    assert int(told["MasterCommitLogMaxOffset"]) >= 0
    assert (told["SlaveNum"], told["InSyncSlaveNum"]) == ("0", "0")


@pytest.mark.parametrize(
    "command", [["getColdDataFlowCtrInfo"], ["setCommitLogReadAheadMode", "-m", "0"], ["listUser"], ["listAcl"]]
)
def test_what_there_is_not_is_said(scene: Scene, command: list[str]) -> None:
    """Limits for reading old messages, and users while access control is off."""
    if not scene.cluster.is_ember:
        pytest.skip("RocketMQ has it, or answers with an exception of its own")
    printed = scene.run_mqadmin(command[0], "-b", scene.broker, *command[1:])
    said = printed["out"] + printed["err"]
    assert "CODE: 3 " in said and "not supported" in said, said
    assert "have no limits" in said or "--access" in said


def test_broker_status_of_pulls(live: LiveGroup) -> None:
    """What pulls found, and how long that took."""
    place, scene = live.scene.queue(live.topic, 0), live.scene
    reader = scene.pull(scene.group())
    before = scene.ask_admin("fetchBrokerRuntimeStats", scene.broker)["table"]
    wait_until(lambda: reader.call("fetchSubscribeMessageQueues", live.topic), seconds=15)
    assert reader.call("pull", place, "*", 99, 1)["status"] == "OFFSET_ILLEGAL"

    def misses() -> bool:
        table = scene.ask_admin("fetchBrokerRuntimeStats", scene.broker)["table"]
        return any(float(rate) > 0 for rate in table["getMissTps"].split())

    wait_until(misses, seconds=20)
    assert set(before) == set(scene.ask_admin("fetchBrokerRuntimeStats", scene.broker)["table"])
    key = f"0@{live.topic}@{live.group}"
    assert "statsMinute" in scene.ask_admin("viewBrokerStatsData", scene.broker, "GROUP_GET_LATENCY", key)
