"""Half messages that are made with few questions are those that are made with many."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from embermq.broker.broker import Broker
from embermq.broker.intake import born_of
from embermq.format.command import Command, make_request
from embermq.model.message import Host
from embermq.model.properties import parse_properties
from tests.unit.broker.brokers import Client, send_fields, with_broker

BORN = born_of(Host("192.0.2.1", 5))
NAMES = st.sampled_from(
    [
        *("TRAN_MSG", "PGROUP", "UNIQ_KEY", "TAGS", "KEYS", "WAIT", "mine", "DELAY", "TIMER_DELAY_SEC", "POP_CK"),
        *("CHECK_IMMUNITY_TIME_IN_SECONDS", "REAL_TOPIC", "REAL_QID", "__transactionId__", "TRANSACTION_CHECK_TIMES"),
        *("xPGROUP", "xTRAN_MSG", "xUNIQ_KEY", "INNER_NUM", "REPLY_TO_CLIENT", "__RMQ.TRANSIENT.x"),
    ]
)
VALUES = st.sampled_from(["true", "TRUE", "false", "g", "a\x01b", "é", "3", ""])
USUAL = [("TRAN_MSG", "true"), ("PGROUP", "g"), ("UNIQ_KEY", "ID")]


@st.composite
def sends(draw: st.DrawFn) -> Command:
    pairs = draw(st.permutations(USUAL + draw(st.lists(st.tuples(NAMES, VALUES), max_size=3))))
    fields = send_fields(queue=draw(st.integers(0, 3)))
    fields["i"] = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    fields["f"] = draw(st.sampled_from(["0", "4", "5", "12"]))
    fields["j"] = draw(st.sampled_from(["0", "0", "1"]))
    return make_request(310, fields, draw(st.sampled_from([b"x", b"longer", b""])))


def test_the_quick_way_gives_what_the_careful_one_gives(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        for key in ("makes the topic", "makes it known"):
            await Client(broker).send(UNIQ_KEY=key)
        intake, quick = broker._intake, []

        @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
        @given(sends())
        def compare(request: Command) -> None:
            intake.refresh()
            found = intake.half(request, BORN)
            quick.append(found is not None)
            if found is None:
                return
            draft, queue, unique_id, half = found
            sent = intake.careful(request, BORN)
            (expected,) = sent.drafts
            assert (queue, unique_id) == (sent.queue, sent.unique_id)
            assert draft[:3] + draft[4:] == expected[:3] + expected[4:]
            assert parse_properties(draft[3]) == parse_properties(expected[3])
            assert half._replace(draft=expected) == sent.half

        compare()
        assert any(quick) and not all(quick)

    with_broker(tmp_path / "store", work)


def test_what_is_no_transaction_is_none_on_the_quick_way_either(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        for key in ("makes the topic", "makes it known"):
            await Client(broker).send(UNIQ_KEY=key)
        for text in (
            "UNIQ_KEY\x01a\x02",
            "UNIQ_KEY\x01a\x02TRAN_MSG\x01true\x02",
            "UNIQ_KEY\x01a\x02PGROUP\x01g\x02",
            "",
        ):
            request = make_request(310, send_fields() | {"i": text}, b"x")
            assert broker._intake.half(request, BORN) is None

    with_broker(tmp_path / "store", work)
