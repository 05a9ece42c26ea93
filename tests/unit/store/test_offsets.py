"""Consumer offsets: committed, reset, cloned, forgotten, and still there after a restart."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest

from embermq.errors import DiskFailed
from embermq.format.tables import decode_offsets
from embermq.store.offsets import LIGHT_OFFSETS_FILE, OFFSETS_FILE, ConsumerOffsets
from tests.builders import ManualClock
from tests.conftest import Golden


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / OFFSETS_FILE


def open_offsets(path: Path) -> ConsumerOffsets:
    return ConsumerOffsets(path, clock=ManualClock())


@pytest.fixture
def offsets(path: Path) -> ConsumerOffsets:
    return open_offsets(path)


def test_the_last_commit_counts_even_if_it_is_smaller(offsets: ConsumerOffsets) -> None:
    assert offsets.find("orders", "g", 0) is None
    assert offsets.commit("orders", "g", 0, 7)
    assert offsets.find("orders", "g", 0) == 7
    assert offsets.commit("orders", "g", 0, 3)
    assert offsets.find("orders", "g", 0) == 3
    assert offsets.find("orders", "h", 0) is None
    assert offsets.find("orders", "g", 1) is None


def test_a_negative_commit_counts_for_nothing(offsets: ConsumerOffsets) -> None:
    assert not offsets.commit("orders", "g", 0, -1)
    assert offsets.find("orders", "g", 0) is None
    assert offsets.topics_of("g") == set()
    offsets.commit("orders", "g", 0, 7)
    assert not offsets.commit("orders", "g", 0, -1)
    assert offsets.find("orders", "g", 0) == 7


def test_commits_count_for_nothing_until_a_pull_was_told_of_a_reset(offsets: ConsumerOffsets) -> None:
    offsets.commit("orders", "g", 0, 7)
    offsets.reset("orders", "g", 0, 2)
    assert offsets.is_reset("orders", "g", 0)
    assert not offsets.commit("orders", "g", 0, 8)
    assert offsets.commit("orders", "g", 1, 8)  # another queue is none of its business
    assert offsets.find("orders", "g", 0) == 2
    assert offsets.take_reset("orders", "g", 0) == 2
    assert offsets.take_reset("orders", "g", 0) is None
    assert offsets.find("orders", "g", 0) == 2
    assert offsets.commit("orders", "g", 0, 8)


def test_a_reset_survives_a_restart_as_an_offset(path: Path, offsets: ConsumerOffsets) -> None:
    offsets.reset("orders", "g", 0, 2)
    offsets.save()
    again = open_offsets(path)
    assert again.find("orders", "g", 0) == 2
    assert again.take_reset("orders", "g", 0) is None


def test_the_pull_offset_is_never_behind_the_commit(offsets: ConsumerOffsets) -> None:
    assert offsets.pull_offset("orders", "g", 0) == 0
    offsets.note_pull("orders", "g", 0, 5)
    assert offsets.pull_offset("orders", "g", 0) == 5
    offsets.commit("orders", "g", 0, 9)
    assert offsets.pull_offset("orders", "g", 0) == 9


def test_what_was_pulled_before_a_reset_is_in_flight_no_more(offsets: ConsumerOffsets) -> None:
    offsets.note_pull("orders", "g", 0, 5)
    offsets.reset("orders", "g", 0, 2)
    assert offsets.pull_offset("orders", "g", 0) == 2


def test_a_clone_has_the_offsets_of_one_topic_and_keeps_its_own(offsets: ConsumerOffsets) -> None:
    offsets.commit("orders", "g", 0, 7)
    offsets.commit("orders", "g", 1, 8)
    offsets.commit("bills", "g", 0, 9)
    offsets.commit("orders", "h", 2, 1)
    offsets.clone("g", "h", "orders")
    assert offsets.queues("orders", "h") == {0: 7, 1: 8, 2: 1}
    assert offsets.topics_of("h") == {"orders"}
    offsets.commit("orders", "h", 0, 70)
    assert offsets.find("orders", "g", 0) == 7


def test_a_forgotten_group_leaves_nothing_not_even_a_reset(path: Path, offsets: ConsumerOffsets) -> None:
    for group in ("g", "h"):
        offsets.commit("orders", group, 0, 7)
        offsets.reset("bills", group, 0, 1)
        offsets.note_pull("orders", group, 0, 9)
    offsets.forget_group("g")
    offsets.save()
    assert offsets.topics_of("g") == set()
    assert offsets.take_reset("bills", "g", 0) is None
    assert offsets.pull_offset("orders", "g", 0) == 0
    assert open_offsets(path).groups_of("orders") == {"h"}


def test_a_forgotten_topic_leaves_nothing(offsets: ConsumerOffsets) -> None:
    for topic in ("orders", "bills"):
        offsets.reset(topic, "g", 0, 7)
    offsets.forget_topic("orders")
    assert offsets.topics_of("g") == {"bills"}
    assert offsets.find("orders", "g", 0) is None


def test_nothing_is_written_when_nothing_changed(path: Path, offsets: ConsumerOffsets) -> None:
    offsets.save()
    assert not path.exists()
    offsets.commit("orders", "g", 0, 7)
    offsets.save()
    path.unlink()
    offsets.commit("orders", "g", 0, 7)  # as it was
    offsets.save()
    assert not path.exists()


def test_a_save_that_failed_is_tried_again(path: Path, offsets: ConsumerOffsets) -> None:
    offsets.commit("orders", "g", 0, 7)
    path.parent.mkdir()
    blocker = path.with_name(path.name + ".tmp")
    blocker.mkdir()
    with pytest.raises(DiskFailed):
        offsets.save()
    blocker.rmdir()
    offsets.save()
    assert open_offsets(path).find("orders", "g", 0) == 7


def test_500_changes_are_a_new_version(offsets: ConsumerOffsets) -> None:
    for offset in range(1, 1001):
        assert offsets.table().version.counter == (offset - 1) // 500
        offsets.commit("orders", "g", 0, offset)
    assert offsets.table().version.counter == 2


@pytest.mark.parametrize("store", ["basic", "cq-ext", "ordered", "pop", "retry-dlq", "transaction", "v2-topic"])
def test_rocketmqs_table_is_written_back_byte_for_byte(golden: Golden, store: str) -> None:
    path = golden.store(store) / "config" / OFFSETS_FILE
    before = path.read_bytes()
    offsets = open_offsets(path)
    (topic, group), queues = next(iter(decode_offsets(before).offsets.items()))
    queue, offset = next(iter(queues.items()))
    offsets.commit(topic, group, queue, offset + 1)
    offsets.save()
    assert open_offsets(path).find(topic, group, queue) == offset + 1
    offsets.commit(topic, group, queue, offset)
    offsets.save()
    assert _parts(path.read_bytes()) == _parts(before)


def _parts(table: bytes) -> tuple[bytes, bytes, dict[str, set[str]]]:
    """A table's bytes before and behind the topics of each group, and those: their order is that of Java's maps."""
    found = re.fullmatch(rb'(.*"groupTopicMap":)(\{.*?\n\t\})(.*)', table, re.DOTALL)
    assert found is not None
    topics: dict[str, list[str]] = json.loads(found[2])
    return found[1], found[3], {group: set(names) for group, names in topics.items()}


def test_a_table_is_saved_in_one_thread_while_another_commits(path: Path, offsets: ConsumerOffsets) -> None:
    is_over = threading.Event()
    failures: list[BaseException] = []

    def save() -> None:
        try:
            while not is_over.is_set():
                offsets.save()
        except BaseException as error:
            failures.append(error)

    saver = threading.Thread(target=save)
    saver.start()
    for number in range(20_000):
        offsets.commit(f"t{number % 300}", f"g{number % 7}", number % 11, number)
    is_over.set()
    saver.join()
    offsets.save()
    assert failures == []
    assert open_offsets(path).table() == offsets.table()


def open_light(path: Path) -> ConsumerOffsets:
    return ConsumerOffsets(path, clock=ManualClock(), light_path=path.with_name(LIGHT_OFFSETS_FILE))


def test_groups_named_as_light_queues_have_one_offset_for_each_topic(path: Path) -> None:
    offsets = open_light(path)
    version = offsets.table().version
    assert offsets.find("%LMQ%a", "%LMQ%g", 0) is None
    for number in range(600):
        offsets.commit("%LMQ%a", "%LMQ%g", 0, number)
    offsets.commit("%LMQ%a", "plain", 0, 5)
    assert offsets.find("%LMQ%a", "%LMQ%g", 0) == 599
    assert offsets.queues("%LMQ%a", "%LMQ%g") == {0: 599}
    assert offsets.groups_of("%LMQ%a") == {"plain", "%LMQ%g"}
    assert offsets.topics_of("%LMQ%g") == {"%LMQ%a"}
    assert offsets.table().version == version  # as in RocketMQ
    offsets.save()
    assert not path.exists()
    table = decode_offsets(path.with_name(LIGHT_OFFSETS_FILE).read_bytes())
    assert table.light_offsets == {("%LMQ%a", "%LMQ%g"): 599}
    assert table.offsets == {("%LMQ%a", "plain"): {0: 5}}
    assert open_light(path).find("%LMQ%a", "%LMQ%g", 0) == 599


def test_a_light_group_is_reset_cloned_and_forgotten_as_others(path: Path) -> None:
    offsets = open_light(path)
    offsets.commit("%LMQ%a", "%LMQ%g", 0, 7)
    offsets.reset("%LMQ%a", "%LMQ%g", 0, 2)
    assert not offsets.commit("%LMQ%a", "%LMQ%g", 0, 8)
    assert offsets.take_reset("%LMQ%a", "%LMQ%g", 0) == 2
    offsets.clone("%LMQ%g", "%LMQ%h", "%LMQ%a")
    assert offsets.find("%LMQ%a", "%LMQ%h", 0) == 2
    offsets.forget_group("%LMQ%g")
    assert offsets.find("%LMQ%a", "%LMQ%g", 0) is None
    offsets.forget_topic("%LMQ%a")
    assert offsets.groups_of("%LMQ%a") == set()


def test_offsets_of_before_light_queues_were_allowed_go_on(path: Path) -> None:
    before = open_offsets(path)
    before.commit("orders", "g", 1, 12)
    before.save()
    offsets = open_light(path)
    assert offsets.find("orders", "g", 1) == 12
    offsets.commit("orders", "g", 1, 13)
    offsets.save()
    assert open_light(path).find("orders", "g", 1) == 13
    assert open_offsets(path).find("orders", "g", 1) == 12  # what RocketMQ finds, too, once they are not


def test_pulls_of_light_queues_are_not_remembered(path: Path) -> None:
    offsets = open_light(path)
    offsets.note_pull("%LMQ%a", "g", 0, 9)
    offsets.note_pull("orders", "g", 0, 9)
    assert offsets.pull_offset("%LMQ%a", "g", 0) == 0
    assert offsets.pull_offset("orders", "g", 0) == 9


def test_every_save_is_a_new_version_where_rocketmq_compares_them(path: Path) -> None:
    offsets = ConsumerOffsets(path, clock=ManualClock(), counts_saves=True)
    for number in range(3):
        offsets.commit("orders", "g", 0, number)
        offsets.save()
        offsets.save()  # nothing has changed
    assert decode_offsets(path.read_bytes()).version.counter == 3
