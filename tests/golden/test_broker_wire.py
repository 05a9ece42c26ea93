"""What RocketMQ's broker was asked and answered, asked of ours: the answers are the same.

Every request that clients and mqadmin sent to the broker is sent to ours in the recorded order. What must be the
same and what cannot is in wire_comparison.py, what the recorded broker had beforehand in recorded_state.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embermq.broker.broker import Broker
from embermq.format.command import Command
from embermq.format.record import Record
from tests.golden.broker_replay import answered, replay
from tests.golden.recorded_state import Place, RecordedState
from tests.golden.recordings import read_scenario, scenarios
from tests.golden.wire_comparison import ALLOWED, differences, shown_record
from tests.unit.broker.brokers import until
from tests.unit.broker.peers import SteppedClock


@pytest.mark.parametrize("name", scenarios())
def test_recorded_requests_get_the_recorded_answers(tmp_path: Path, name: str) -> None:
    run = replay(tmp_path, name)
    told = [frame for frame in read_scenario(name) if frame.peer == "broker" and frame.is_request]
    expected = len(answered(name)) + sum(not frame.is_from_client for frame in told)
    assert run.compared + run.questions + run.served == expected, "an exchange was passed over"
    assert not run.wrong, "\n".join(run.wrong)


def with_own_id(record: Record) -> dict[str, object]:
    """A record, of whose ids the first counts.

    RocketMQ writes the id of a batch behind that of each of its messages, and readers take the last, so that all
    have the same. EmberMQ writes the message's own alone, which is the one that its producer is told.
    """
    names = [item.split(b"\x01") for item in record.properties.split(b"\x02") if item]
    own = next(value.decode() for name, value in names if name == b"UNIQ_KEY")
    return {**shown_record(record), "properties": {**record.property_map(), "UNIQ_KEY": own}, "size": None}


def test_what_was_sent_is_stored_as_rocketmq_stored_it(tmp_path: Path) -> None:
    """What producers sent in one scenario, consumers were given in the next."""
    recorded = RecordedState(read_scenario("push-consumer")).messages
    late = [record for record in recorded.values() if record.body == b"arrives while the consumer waits"]
    wanted = {place: with_own_id(record) for place, record in recorded.items() if record not in late}
    found: dict[Place, dict[str, object]] = {}

    async def look(broker: Broker, clock: SteppedClock) -> None:
        clock.advance(ms=2_000)  # the delayed one comes
        await until(lambda: broker.store.offsets("WireTopic", queue=1)[1] == 3)
        for topic, queue, offset in wanted:
            (entry,) = broker.store.entries(topic, queue=queue, offset=offset, limit=1)
            found[topic, queue, offset] = with_own_id(broker.store.read_record(entry.position))

    replay(tmp_path, "producer-send", look)
    assert len(wanted) == 9
    assert found == wanted


def test_every_exchange_is_replayed() -> None:
    assert sum(len(answered(name)) for name in scenarios()) == 518


def test_most_requests_that_a_broker_knows_were_recorded() -> None:
    codes = {request.code for name in scenarios() for request, _ in answered(name)}
    assert codes >= set(ALLOWED)
    assert codes == {
        11, 12, 14, 15, 17, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 38, 41, 42, 43, 45, 46, 60, 61, 200, 201,
        202, 203, 204, 207, 208, 215, 222, 300, 306, 307, 310, 315, 316, 320, 321, 325, 351, 361, 400, 402,
        200_050, 200_051, 200_053,
    }  # fmt: skip


SEND_REQUEST, SEND_ANSWER = next(pair for pair in answered("producer-send") if pair[0].code == 310)
PULL_REQUEST, PULL_ANSWER = next(pair for pair in answered("push-consumer") if pair[0].code == 11)
STATS_REQUEST, STATS_ANSWER = next(pair for pair in answered("mqadmin-consumerProgress") if pair[0].code == 208)


@pytest.mark.parametrize(
    ("request_", "recorded", "changes"),
    [
        (SEND_REQUEST, SEND_ANSWER, {"code": 1}),
        (SEND_REQUEST, SEND_ANSWER, {"opaque": 0}),
        (SEND_REQUEST, SEND_ANSWER, {"fields": {}}),
        (SEND_REQUEST, SEND_ANSWER, {"fields": {**SEND_ANSWER.fields, "more": "1"}}),
        (SEND_REQUEST, SEND_ANSWER, {"fields": {**SEND_ANSWER.fields, "queueOffset": "1"}}),
        (SEND_REQUEST, SEND_ANSWER, {"fields": {**SEND_ANSWER.fields, "msgId": "7F00000100002A9F0000000000000000"}}),
        (PULL_REQUEST, PULL_ANSWER, {"body": b""}),
        (PULL_REQUEST, PULL_ANSWER, {"body": PULL_ANSWER.data * 2}),
        (PULL_REQUEST, PULL_ANSWER, {"body": PULL_ANSWER.data.replace(b"TagA", b"TagB")}),
        (STATS_REQUEST, STATS_ANSWER, {"body": STATS_ANSWER.data.replace(b"brokerOffset", b"offset")}),
        (STATS_REQUEST, STATS_ANSWER, {"body": STATS_ANSWER.data.replace(b":0.4", b':"0.4"')}),
        (
            STATS_REQUEST,
            STATS_ANSWER,
            {"body": STATS_ANSWER.data.replace(b'Offset":8', b'Offset":7')},
        ),
    ],
)
def test_an_answer_that_is_otherwise_is_noticed(request_: Command, recorded: Command, changes: dict[str, Any]) -> None:
    values = {name: getattr(recorded, name) for name in Command.__slots__}
    assert not list(differences(request_, recorded, Command(**values)))
    assert list(differences(request_, recorded, Command(**{**values, **changes})))
