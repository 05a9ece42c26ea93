"""SQL92 filters of RocketMQ's consumers, evaluated by the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.compat.client_tool import Facts, Refused, text
from tests.compat.scene import Scene

COUNT = 20
EAGER = {"heartbeatBrokerInterval": 1_000}  # pulls are refused until the broker knows the filter's last version
FILTERS = {
    "a BETWEEN 5 AND 9": lambda n: 5 <= n <= 9,
    "a NOT BETWEEN 3 AND 16": lambda n: not 3 <= n <= 16,
    "b IN ('even', 'none')": lambda n: n % 2 == 0,
    "c IS NOT NULL": lambda n: n % 3 == 0,
    "NOT (a < 10)": lambda n: n >= 10,
    "TAGS IS NOT NULL AND TAGS IN ('T1')": lambda n: n % 4 == 1,
    "flag = TRUE": lambda n: n % 5 == 0,
    "name STARTSWITH 'nam' AND name ENDSWITH '7'": lambda n: n in (7, 17),
    "name CONTAINS 'me-1' OR a = 3": lambda n: n in (1, 3, *range(10, 20)),
    "c > 5 AND (b = 'odd' OR a <> 12)": lambda n: n % 3 == 0 and n > 5 and n != 12,
}


class Filtered(NamedTuple):
    topic: str
    scene: Scene


def message(scene: Scene, topic: str, number: int) -> Facts:
    properties = {"a": str(number), "b": "odd" if number % 2 else "even", "name": f"name-{number}"}
    properties |= {"c": str(number)} if number % 3 == 0 else {}
    properties |= {"flag": "true" if number % 5 == 0 else "false"}
    return scene.message(topic, str(number), tags=f"T{number % 4}", properties=properties, queue=number % 2)


@pytest.fixture(scope="module")
def filtered(open_scene: Callable[[], Scene]) -> Iterator[Filtered]:
    """A topic with messages of all kinds."""
    with open_scene() as scene:
        topic = scene.topic(2)
        scene.producer().send_ok(*(message(scene, topic, number) for number in range(COUNT)))
        yield Filtered(topic, scene)


def wanted_by(expression: str) -> list[int]:
    return [number for number in range(COUNT) if FILTERS[expression](number)]


def test_push_consumers_get_exactly_what_they_ask_for(filtered: Filtered) -> None:
    """sql.between, sql.not-between, sql.in, sql.is-not-null, sql.not, sql.tags, sql.boolean, sql.starts-ends"""
    scene = filtered.scene
    consumers = {each: scene.push(scene.group(), {filtered.topic: (each, "SQL92")}, **EAGER) for each in FILTERS}
    for expression, consumer in consumers.items():
        expected = wanted_by(expression)
        assert sorted(map(int, consumer.bodies(len(expected)))) == expected, expression
    for expression, consumer in consumers.items():  # and nothing more since
        assert sorted(map(int, consumer.bodies())) == wanted_by(expression)


def test_a_lite_pull_consumer_filters_too(filtered: Filtered) -> None:
    """sql.lite-pull"""
    scene = filtered.scene
    consumer = scene.lite(scene.group(), {filtered.topic: ("a > 15", "SQL92")})
    assert sorted(int(text(each)) for each in consumer.poll(4)) == [16, 17, 18, 19]


def test_messages_that_arrive_while_a_pull_waits_are_filtered(scene: Scene) -> None:
    """sql.live"""
    topic, producer = scene.topic(1), scene.producer()
    consumer = scene.push(scene.group(), {topic: ("a > 10", "SQL92")}, **EAGER)
    producer.send_ok(scene.message(topic, "first", properties={"a": "11"}))
    assert consumer.bodies(1) == ["first"]
    for number in (1, 12, 2, 13):
        producer.send_ok(scene.message(topic, str(number), properties={"a": str(number)}))
    assert consumer.bodies(3) == ["first", "12", "13"]


@pytest.mark.parametrize("expression", ["a >", "a = 'x", "a BETWEEN 10 AND 1", "a IN (5)", "1"])
def test_a_consumer_whose_filter_makes_no_sense_does_not_start(filtered: Filtered, expression: str) -> None:
    with pytest.raises(Refused) as refused:
        filtered.scene.push(filtered.scene.group(), {filtered.topic: (expression, "SQL92")})
    assert refused.value.code == 23
