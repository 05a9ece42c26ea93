"""Who reads which queues, for clients that leave it to the broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.broker.request_modes import MODES_FILE, RequestModes
from embermq.format.assignment_body import (
    Assigned,
    AssignmentQuery,
    RequestMode,
    decode_assignment,
    decode_mode,
    decode_modes,
    decode_query,
    encode_mode,
    encode_modes,
    encode_query,
)
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.group import GroupConfig
from embermq.model.topic import TopicConfig
from tests.unit.broker.administering import Administering, an_administering
from tests.unit.broker.golden_wire import exchanges

QUERY = RequestCode.QUERY_ASSIGNMENT
SET = RequestCode.SET_MESSAGE_REQUEST_MODE
LIST = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Administering]:
    with an_administering(tmp_path) as broker:
        yield broker


def ask(broker: Administering, client_id: str = "c1", **fields: str) -> list[Assigned] | None:
    query = AssignmentQuery("orders", "billing", client_id, "AVG", "CLUSTERING")._replace(**fields)
    answer = broker.ask(QUERY, body=encode_query(query))
    assert answer.code == 0, answer.remark
    return decode_assignment(answer.data)


def queues(broker: Administering, client_id: str = "c1", **fields: str) -> list[int]:
    found = ask(broker, client_id, **fields)
    assert found is not None
    return [assigned.queue.queue for assigned in found]


def test_the_answers_are_those_of_rocketmq(broker: Administering) -> None:
    pairs = exchanges("push-consumer-pop-mode", QUERY)
    queries = [decode_query(request.data) for request, _ in pairs]
    assert [encode_query(query) for query in queries] == [request.data for request, _ in pairs]
    broker.serves_pop = True
    for query, (request, golden) in zip(queries, pairs, strict=True):
        is_retry = query.topic.startswith("%RETRY%")
        broker.make_topic(query.topic, 1 if is_retry else 2)
        broker.join(query.group, query.client_id, topic=query.topic)
        if not is_retry:
            broker.groups.read(query.group)
            assert broker.ask(SET, body=encode_mode(RequestMode(query.topic, query.group, "POP"))).code == 0
        assert broker.answer(request).data == golden.data


def test_queues_are_shared_evenly(broker: Administering) -> None:
    broker.make_topic("orders", 7)
    broker.join("billing", "c3", "c1", "c2")
    assert [queues(broker, client) for client in ("c1", "c2", "c3")] == [[0, 1, 2], [3, 4], [5, 6]]


def test_queues_are_shared_in_turns(broker: Administering) -> None:
    broker.make_topic("orders", 7)
    broker.join("billing", "c1", "c2", "c3")
    shares = [queues(broker, client, strategy="AVG_BY_CIRCLE") for client in ("c1", "c2", "c3")]
    assert shares == [[0, 3, 6], [1, 4], [2, 5]]


def test_there_may_be_more_clients_than_queues(broker: Administering) -> None:
    broker.make_topic("orders", 2)
    broker.join("billing", "c1", "c2", "c3")
    assert [queues(broker, client) for client in ("c1", "c2", "c3")] == [[0], [1], []]


def test_every_queue_belongs_to_exactly_one(broker: Administering) -> None:
    broker.make_topic("orders", 50)
    clients = [f"c{number:02}" for number in range(13)]
    broker.join("billing", *clients)
    for strategy in ("AVG", "AVG_BY_CIRCLE"):
        found = [queue for client in clients for queue in queues(broker, client, strategy=strategy)]
        assert sorted(found) == list(range(50))


def test_who_broadcasts_reads_all(broker: Administering) -> None:
    broker.make_topic("orders", 3)
    assert queues(broker, message_model="BROADCASTING") == [0, 1, 2]


def test_queues_that_are_only_written_are_not_read(broker: Administering) -> None:
    broker.topics.save(TopicConfig("orders", read_queues=2, write_queues=4))
    broker.join("billing", "c1")
    assert queues(broker) == [0, 1]


@pytest.mark.parametrize("fields", [{"topic": "nothing"}, {"strategy": "OTHER"}, {"group": "nobody"}])
def test_where_nothing_can_be_said_the_client_keeps_what_it_has(broker: Administering, fields: dict[str, str]) -> None:
    broker.make_topic("orders", 3)
    broker.join("billing", "c1")
    assert ask(broker, **fields) is None


def test_a_stranger_gets_nothing(broker: Administering) -> None:
    broker.make_topic("orders", 3)
    broker.join("billing", "c1")
    assert queues(broker, "c9") == []


def test_pop_shares_the_queues_of_the_next_ones_too(broker: Administering) -> None:
    broker.serves_pop = True
    broker.make_topic("orders", 4)
    broker.join("billing", "c1", "c2", "c3", "c4")
    broker.modes.set(RequestMode("orders", "billing", "POP", shared_queues=1))
    assert [queues(broker, client) for client in ("c1", "c4")] == [[0, 1], [3, 0]]
    broker.modes.set(RequestMode("orders", "billing", "POP", shared_queues=3))
    assert queues(broker) == [-1]


def test_pop_with_few_queues(broker: Administering) -> None:
    broker.serves_pop = True
    broker.make_topic("orders", 2)
    broker.join("billing", *(f"c{number}" for number in range(5)))
    broker.modes.set(RequestMode("orders", "billing", "POP", shared_queues=1))
    assert [queues(broker, f"c{number}") for number in range(5)] == [[0], [1], [0], [1], [0]]


def test_while_pop_is_not_served_everybody_pulls(broker: Administering) -> None:
    broker.make_topic("orders", 2)
    broker.join("billing", "c1")
    broker.modes.set(RequestMode("orders", "billing", "POP"))
    assert [(each.queue.queue, each.mode) for each in ask(broker) or []] == [(0, "PULL"), (1, "PULL")]


def test_a_mode_is_kept(broker: Administering, tmp_path: Path) -> None:
    broker.make_topic("orders")
    broker.groups.save(GroupConfig("billing"))
    mode = RequestMode("orders", "billing", "POP", 3)
    assert broker.ask(SET, body=encode_mode(mode)).code == 0
    kept = RequestModes(tmp_path / "config" / MODES_FILE)
    assert kept.find("orders", "billing") == mode
    assert decode_modes(broker.ask(LIST).data) == {("orders", "billing"): mode}


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        (RequestMode("%RETRY%billing", "billing", "POP"), ResponseCode.NO_PERMISSION),
        (RequestMode("nothing", "billing", "POP"), ResponseCode.TOPIC_NOT_EXIST),
        (RequestMode("orders", "nobody", "POP"), ResponseCode.GROUP_NOT_EXIST),
        (RequestMode("orders", "billing", "PUSH"), ResponseCode.INVALID_PARAMETER),
    ],
)
def test_a_mode_that_cannot_be(broker: Administering, mode: RequestMode, code: ResponseCode) -> None:
    broker.make_topic("orders")
    broker.groups.save(GroupConfig("billing"))
    assert broker.ask(SET, body=encode_mode(mode)).code == code
    assert broker.modes.table() == {}


def test_no_modes_are_listed_as_rocketmq_lists_them(broker: Administering) -> None:
    for request, golden in exchanges("slave-sync", LIST):
        assert broker.answer(request).data == golden.data


def test_a_mode_reads_as_it_was_written() -> None:
    mode = RequestMode("orders", "billing", "POP", 3)
    assert decode_mode(encode_mode(mode)) == mode
    assert decode_modes(encode_modes({("orders", "billing"): mode})) == {("orders", "billing"): mode}
