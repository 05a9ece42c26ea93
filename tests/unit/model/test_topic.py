from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import IllegalTopic
from embermq.model.topic import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    UNSENDABLE_TOPICS,
    Queue,
    TopicConfig,
    check_light_queue,
    check_topic,
    find_nearest,
    is_light_queue,
    is_system_topic,
)


@pytest.mark.parametrize("name", ["a", "orders-eu_1", "%RETRY%group", "a|b", "x" * 127, "%DLQ%" + "g" * 250])
def test_legal_names_pass(name: str) -> None:
    check_topic(name)


@pytest.mark.parametrize(
    "name",
    ["", " ", "\t", "a b", "a/b", "..", "a.b", "ä", "a\n", "x" * 128, "%RETRY%" + "g" * 249, "%DLQ%" + "g" * 251],
)
def test_illegal_names_are_refused(name: str) -> None:
    with pytest.raises(IllegalTopic):
        check_topic(name)


@pytest.mark.parametrize(("prefix", "limit"), [("", 127), ("%RETRY%", 255), ("%DLQ%", 255), ("%LMQ%", 127)])
def test_a_name_may_have_its_limit_and_not_one_more(prefix: str, limit: int) -> None:
    longest = prefix + "x" * (limit - len(prefix))
    check_topic(longest)
    with pytest.raises(IllegalTopic, match=f"limit {limit}"):
        check_topic(longest + "x")


@given(st.text(max_size=10))
def test_a_legal_name_is_safe_as_the_name_of_a_directory(name: str) -> None:
    try:
        check_topic(name)
    except IllegalTopic:
        return
    assert "/" not in name
    assert "\0" not in name
    assert name not in ("", ".", "..")


@pytest.mark.parametrize("name", ["%LMQ%a", "%LMQ%.", "%LMQ%ü 1", "%LMQ%" + "x" * 250])
def test_light_queues_have_more_freedom(name: str) -> None:
    check_light_queue(name)
    assert is_light_queue(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a", "%LMQ%", "%LMQ%a/b", "%LMQ%../x", "%LMQ%a\0", "%LMQ%a,b", "%LMQ%\ud800"]
)
def test_light_queues_may_not_leave_their_directory(name: str) -> None:
    with pytest.raises(IllegalTopic):
        check_light_queue(name)


def test_a_light_queue_may_have_255_bytes_and_not_one_more() -> None:
    longest = "%LMQ%" + "ü" * 125
    check_light_queue(longest)
    with pytest.raises(IllegalTopic, match="limit 255"):
        check_light_queue(longest + "x")


@pytest.mark.parametrize("name", [SCHEDULE_TOPIC, HALF_TOPIC, "TBW102", "rmq_sys_wheel_timer"])
def test_topics_of_the_system_are_known(name: str) -> None:
    assert is_system_topic(name)


@pytest.mark.parametrize("name", ["orders", "%RETRY%g", "RMQ_SYS_", "xrmq_sys_"])
def test_topics_of_users_are_not_the_systems(name: str) -> None:
    assert not is_system_topic(name)


def test_topics_that_nobody_may_send_to_are_the_systems() -> None:
    assert all(map(is_system_topic, UNSENDABLE_TOPICS))


def test_a_topic_may_be_read_and_written_unless_told_otherwise() -> None:
    topic = TopicConfig("orders")
    assert topic.permission == 6
    assert (topic.read_queues, topic.write_queues) == (4, 4)


def test_attributes_choose_the_kind_of_queue_and_of_cleaning() -> None:
    plain = TopicConfig("orders")
    assert (plain.queue_type, plain.cleanup_policy) == ("SimpleCQ", "DELETE")
    special = TopicConfig("orders", attributes={"queue.type": "BatchCQ", "cleanup.policy": "COMPACTION"})
    assert (special.queue_type, special.cleanup_policy) == ("BatchCQ", "COMPACTION")


def test_a_queue_reads_as_its_path() -> None:
    assert str(Queue("orders", 3)) == "orders/3"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("ordres", "orders"), ("order", "orders"), ("payments", None), ("%RETRY%ordres", None), ("x" * 5_000, None)],
)
def test_a_name_that_was_perhaps_meant_is_found(name: str, nearest: str | None) -> None:
    assert find_nearest(name, ["TBW102", "orders", "invoices", "%RETRY%orders"]) == nearest
