"""Compacted topics: made by mqadmin, filled by RocketMQ's client; and a directory that changes hands with one in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.cli.main import main
from tests.builders import wait_until
from tests.compat.client_tool import ClientTool, text
from tests.compat.one_directory import EMBER, ROCKETMQ, OneDirectory
from tests.compat.scene import Scene, scene_of

SETTINGS = {
    **{"compactionMappedFileSize": 32_768, "compactionCqMappedFileSize": 4_600, "compactionScheduleInternal": 1_000},
    **{"maxOffsetMapSize": 65_536, "fileReservedTime": 48},
}
ILLEGAL = 13
KEYS = 6
BODY = "." * 900  # so that files fill


def make_topic(scene: Scene, topic: str) -> None:
    scene.mqadmin("updateTopic", "-b", scene.broker, "-t", topic, "-r", 1, "-w", 1, "-a", "+cleanup.policy=COMPACTION")
    scene.wait_for_route(topic)


def fill(scene: Scene, topic: str, begin: int, end: int) -> None:
    scene.producer().send_ok(
        *(scene.message(topic, f"{n} {BODY}", keys=[f"k{n % KEYS}"], queue=0) for n in range(begin, end))
    )


def found(scene: Scene, topic: str) -> dict[int, int]:
    """The number in each message by its offset."""
    return {each["queueOffset"]: int(text(each).split()[0]) for each in scene.read(topic, 0)}


def newest(end: int) -> dict[int, int]:
    return {number: number for number in range(end - KEYS, end)}


def test_every_message_can_be_read_until_it_is_compacted(scene: Scene) -> None:
    topic = scene.name("table")
    make_topic(scene, topic)
    fill(scene, topic, 0, 20)
    consumer = scene.push(scene.group(), {topic: "*"})
    assert sorted(int(text(each).split()[0]) for each in consumer.deliveries(20)) == list(range(20))
    assert found(scene, topic) == {number: number for number in range(20)}


def test_a_message_without_keys_is_refused(scene: Scene) -> None:
    topic = scene.name("table")
    make_topic(scene, topic)
    assert scene.producer().refusal(scene.message(topic, "x"))["code"] == ILLEGAL


@pytest.mark.parametrize("first", [ROCKETMQ, pytest.param(EMBER, marks=pytest.mark.slow)])
def test_whoever_comes_next_serves_and_compacts_on(
    client_tool: ClientTool, java_classes: str, tmp_path: Path, first: str
) -> None:
    directory = OneDirectory(tmp_path, java_classes, SETTINGS)
    second = EMBER if first == ROCKETMQ else ROCKETMQ
    seen: dict[int, int] = {}
    for stage, who in enumerate((first, second, first)):
        with directory.served_by(who) as cluster, scene_of(client_tool, cluster) as scene:
            if stage == 0:
                make_topic(scene, "table")
            else:
                wait_until(lambda scene=scene: found(scene, "table"), seconds=30)  # type: ignore[misc]
                assert newest(stage * 120).items() <= found(scene, "table").items()
                assert found(scene, "table").items() <= seen.items()
            fill(scene, "table", stage * 120, stage * 120 + 120)
            end = stage * 120 + 120
            wait_until(lambda scene=scene, end=end: len(found(scene, "table")) < end - 40, seconds=60)  # type: ignore[misc]
            seen = found(scene, "table")
            assert newest(end).items() <= seen.items()
    directory.check()


@pytest.mark.slow
def test_rocketmq_serves_and_goes_on_with_what_the_job_compacted(
    client_tool: ClientTool, java_classes: str, tmp_path: Path
) -> None:
    seldom = {**SETTINGS, "compactionScheduleInternal": 3_600_000}  # so that nobody else compacts
    directory = OneDirectory(tmp_path, java_classes, seldom)
    with directory.served_by(EMBER) as cluster, scene_of(client_tool, cluster) as scene:
        make_topic(scene, "table")
        fill(scene, "table", 0, 120)
        assert len(found(scene, "table")) == 120
    config = tmp_path / "sizes.conf"
    config.write_text("".join(f"{name}={value}\n" for name, value in SETTINGS.items()))
    assert main(["store", "compact", str(directory.store), "--config", str(config), "--yes"]) == 0
    with directory.served_by(ROCKETMQ) as cluster, scene_of(client_tool, cluster) as scene:
        wait_until(lambda: found(scene, "table"), seconds=30)
        assert found(scene, "table") == newest(120)
        fill(scene, "table", 120, 130)
        wait_until(lambda: 129 in found(scene, "table"), seconds=30)
        assert found(scene, "table") == {**newest(120), **{number: number for number in range(120, 130)}}
    directory.check()
