"""How long puts take. The golden answer of a broker says what its last minute was."""

from __future__ import annotations

import json
from pathlib import Path

from embermq.broker.put_times import LABELS, PutTimes
from embermq.format.runtime_body import decode_runtime

WIRE = Path(__file__).parents[2] / "golden" / "data" / "wire"


def golden_figures() -> dict[str, str]:
    frames = [json.loads(line) for line in (WIRE / "mqadmin-brokerStatus.jsonl").read_text().splitlines()]
    (answer,) = [frame for frame in frames if frame.get("kind") == "response"]
    return decode_runtime(bytes.fromhex(answer["body_hex"]))


def test_the_golden_minute_gives_the_golden_percentiles() -> None:
    figures = golden_figures()
    counts = [int(part.rpartition(":")[2]) for part in figures["putMessageDistributeTime"].split()]
    times = PutTimes()
    # One time out of each class that the broker saw; the slowest but one was in (22, 24] for it to say 24.00.
    for ms, puts in zip((0, 5, 23, 83), counts, strict=False):
        times.add(ms, puts=puts)
    times.next_minute()
    distribution = times.distribution()
    assert distribution is not None
    assert "".join(f"{label}:{count} " for label, count in distribution) == figures["putMessageDistributeTime"]
    assert f"{times.percentile(0.99):.2f}" == figures["putLatency99"]
    assert f"{times.percentile(0.999):.2f}" == figures["putLatency999"]
    assert str(times.longest_ms) == figures["putMessageEntireTimeMax"]


def test_the_first_minute_has_no_last_one() -> None:
    times = PutTimes()
    times.add(5)
    assert times.distribution() is None
    assert times.percentile(0.99) == 0.0


def test_every_time_is_in_the_class_that_its_label_says() -> None:
    for ms, label in ((0, 0), (1, 1), (9, 1), (10, 2), (49, 2), (50, 3), (999, 6), (1000, 7), (9999, 11), (10_000, 12)):
        times = PutTimes()
        times.add(ms)
        times.next_minute()
        assert [name for name, count in times.distribution() or [] if count] == [LABELS[label]], ms


def test_a_minute_is_over_after_the_next() -> None:
    times = PutTimes()
    times.add(7, puts=10)
    times.next_minute()
    assert 0 < times.percentile(0.99) <= 7
    times.next_minute()
    assert times.percentile(0.99) == 0.0
    assert times.longest_ms == 7


def test_a_percentile_lies_within_its_class() -> None:
    times = PutTimes()
    for ms in range(1, 1001):
        times.add(ms)
    times.next_minute()
    assert 490 <= times.percentile(0.5) <= 510
    assert 980 <= times.percentile(0.99) <= 1000
