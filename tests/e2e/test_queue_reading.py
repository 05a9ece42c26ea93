"""Queues are pulled from a broker, and give what its files give: every offset, or a loss."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from embermq import Client, Message
from embermq.client.blocking import BrokerLine
from embermq.client.queue_reading import BrokerQueues
from embermq.errors import DataLoss, ReadLost, Refused, TopicNotFound
from embermq.scan.broker_files import broker_place
from embermq.scan.columns import ALL_COLUMNS
from embermq.scan.numpy_engine import NumpyEngine
from embermq.scan.planner import plan
from embermq.scan.pull_plan import plan_pulls
from embermq.scan.reading import read_split
from embermq.scan.splits import PULL_SCHEME, PullSplit, QueuePart
from embermq.scan.tally import Tally
from embermq.scan.wanted import OffsetRange, Wanted
from tests.e2e.conftest import Served, serving

GROUP = "TOOLS_CONSUMER"
COUNT = 2000
QUEUES = 4


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("pulled")) as served:
        fill(served)
        yield served


def fill(served: Served) -> None:
    """Messages of two topics side by side in the log, some of them large."""
    with Client(served.namesrv, timeout=20) as mq:
        messages = [
            Message(
                ("orders", "bills")[number % 2],
                b"%d" % number * (40_000 if number % 100 == 50 else 20),
                tags=("eu", "us")[number % 3 == 0],
                keys=[f"k{number}"],
                properties={"n": str(number)},
                queue=number // 2 % QUEUES,
            )
            for number in range(COUNT)
        ]
        assert not [each for each in mq.send_many(messages) if isinstance(each, Exception)]


def parts_of(served: Served, topic: str = "orders") -> list[QueuePart]:
    queues = [(topic, queue) for queue in range(QUEUES)]
    limits = BrokerQueues(BrokerLine(served.broker), "broker-a").find_limits(queues)
    return [QueuePart(*queue, *each) for queue, each in zip(queues, limits, strict=True)]


def pulled(
    served: Served, parts: list[QueuePart], wanted: Wanted, *, patience_s: float = 1.0, tally: Tally | None = None
) -> Iterator[dict[str, Any]]:
    place = broker_place(served.broker, scheme=PULL_SCHEME, patience_s=patience_s)
    for split in plan_pulls(place, "broker-a", parts, group=GROUP, min_partitions=3):
        for batch in read_split(split, wanted, tally, make_engine=NumpyEngine):
            yield from batch.to_pylist()


def from_files(served: Served, wanted: Wanted) -> list[dict[str, Any]]:
    splits = plan(str(served.data), wanted)
    return [row for split in splits for batch in read_split(split, wanted) for row in batch.to_pylist()]


def in_order(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["topic"], row["queueId"], row["queueOffset"]))


@pytest.mark.parametrize("filter_text", [None, "eu", "n BETWEEN 100 AND 900 AND TAGS = 'us'"])
@pytest.mark.parametrize("columns", [ALL_COLUMNS, ("topic", "queueId", "queueOffset", "body")], ids=["all", "few"])
def test_pulling_gives_what_the_files_give(filled: Served, filter_text: str | None, columns: tuple[str, ...]) -> None:
    wanted = Wanted(topics=frozenset({"orders"}), filter_text=filter_text, columns=columns, broker_name="broker-a")
    found = in_order(pulled(filled, parts_of(filled), wanted))
    assert len(found) > 100
    assert found == in_order(from_files(filled, wanted))


def test_keys_and_times_are_looked_for_too(filled: Served) -> None:
    wanted = Wanted(topics=frozenset({"orders"}), columns=ALL_COLUMNS)
    every = in_order(from_files(filled, wanted))
    middle = int(every[len(every) // 2]["storeTimestamp"].timestamp() * 1000)
    for more in (
        Wanted(topics=wanted.topics, columns=ALL_COLUMNS, keys=frozenset({"k8", "k10"})),
        Wanted(topics=wanted.topics, columns=ALL_COLUMNS, begin_time_ms=middle),
        Wanted(topics=wanted.topics, columns=ALL_COLUMNS, end_time_ms=middle),
    ):
        assert in_order(pulled(filled, parts_of(filled), more)) == in_order(from_files(filled, more))


def test_a_part_of_a_queue_is_read_to_its_last_message(filled: Served) -> None:
    (part, *_) = parts_of(filled)
    for begin, end in ((0, 1), (0, 32), (31, 33), (5, part.end), (part.end - 1, part.end)):
        wanted = Wanted(ranges=(OffsetRange("orders", 0, begin, end),), columns=ALL_COLUMNS)
        some = [part._replace(begin=begin, end=end)]
        assert in_order(pulled(filled, some, wanted)) == in_order(from_files(filled, wanted))


def test_what_is_not_there_is_a_loss(filled: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embermq.client.queue_reading.DISPATCH_S", 0.1)
    part = parts_of(filled)[0]
    too_far = [part._replace(end=part.end + 3)]
    place = rf"{filled.broker}, topic 'orders', queue 0: \d of the offsets"
    with pytest.raises(DataLoss, match=place):
        list(pulled(filled, too_far, Wanted()))
    tally = Tally()
    rows = list(pulled(filled, too_far, Wanted(fail_on_loss=False), tally=tally))
    assert len(rows) == part.end
    assert tally.lost == 3


def test_refusals_say_what_the_broker_said(filled: Served) -> None:
    with pytest.raises(TopicNotFound, match="nothing"):
        list(pulled(filled, [QueuePart("nothing", 0, 0, 1)], Wanted()))
    queues = BrokerQueues(BrokerLine(filled.broker), "broker-a")
    assert queues.find_progress("nobody", [("orders", 0)]) == [None]
    with pytest.raises(
        Refused, match=r"pull of offset 0 of orders/0 at .* 'consumerGroup' of the request: it is missing"
    ):
        split = PullSplit(broker_place(filled.broker, scheme=PULL_SCHEME), "broker-a", "", (parts_of(filled)[0],))
        list(read_split(split, Wanted()))


def test_a_broker_that_goes_away_is_named_with_queue_and_offset(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        fill(served)
        parts = parts_of(served)
        rows = pulled(served, parts, Wanted(columns=("queueOffset",)))
        next(rows)
        served.process.kill()
        served.process.wait()
        expected = rf"broker {served.broker}: topic 'orders', queue \d from offset \d+ on could not be read"
        with pytest.raises(ReadLost, match=expected):
            list(rows)


def test_large_ranges_are_cut(filled: Served) -> None:
    place = broker_place(filled.broker, scheme=PULL_SCHEME)
    parts = [QueuePart("a", 0, 0, 50_000), QueuePart("a", 1, 7, 9), QueuePart("b", 0, 100, 30_100)]
    for least in (1, 4, 1000):
        splits = plan_pulls(place, "broker-a", parts, group=GROUP, min_partitions=least)
        assert len(splits) >= least
        cut = [part for split in splits for part in split.parts]  # type: ignore[union-attr]
        joined: dict[tuple[str, int], list[QueuePart]] = {}
        for part in cut:
            joined.setdefault((part.topic, part.queue), []).append(part)
        for part in parts:
            ours = joined[part.topic, part.queue]
            assert (ours[0].begin, ours[-1].end) == (part.begin, part.end)
            assert all(one.end == other.begin for one, other in pairwise(ours))
