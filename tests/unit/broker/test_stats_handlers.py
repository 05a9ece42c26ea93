"""Statistics of one name and key, as tools ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.format.stats_body import StatsBody, WindowBody, decode_stats, encode_stats
from embermq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.administering import Administering, an_administering
from tests.unit.broker.golden_wire import exchanges

VIEW = RequestCode.VIEW_BROKER_STATS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Administering]:
    with an_administering(tmp_path) as broker:
        yield broker


def test_statistics_are_written_as_rocketmq_writes_them() -> None:
    answers = [golden for _, golden in exchanges("mqadmin-statsAll", VIEW) if golden.code == 0]
    assert len(answers) > 3
    for golden in answers:
        assert encode_stats(decode_stats(golden.data)) == golden.data


def test_what_was_never_counted_is_refused_as_in_rocketmq(broker: Administering) -> None:
    ((request, golden),) = [pair for pair in exchanges("mqadmin-statsAll", VIEW) if pair[1].code]
    answer = broker.answer(request)
    assert (answer.code, answer.remark) == (golden.code, golden.remark)


def test_three_windows(broker: Administering) -> None:
    broker.statistics.count_put("orders", 0, 12, 1200)
    for _ in range(600):
        broker.clock.advance(ms=1000)
        broker.statistics.sample()
    broker.statistics.count_put("orders", 0, 6, 1200)
    for _ in range(10):
        broker.clock.advance(ms=1000)
        broker.statistics.sample()
    answer = broker.ask(VIEW, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "orders"})
    assert decode_stats(answer.data) == StatsBody(
        minute=WindowBody(6, 0.1, 6.0), hour=WindowBody(12, 0.02, 12.0), day=WindowBody(0, 0.0, 0.0)
    )


@pytest.mark.parametrize("fields", [{}, {"statsName": "TOPIC_PUT_NUMS"}, {"statsKey": "orders"}])
def test_a_field_that_is_missing(broker: Administering, fields: dict[str, str]) -> None:
    assert broker.ask(VIEW, fields).code == ResponseCode.INVALID_PARAMETER
