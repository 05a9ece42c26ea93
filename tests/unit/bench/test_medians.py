"""Medians and ratios of a bench's samples."""

from __future__ import annotations

from typing import Any

import pytest

from bench.report.medians import NUMBERS, find_ratio, find_row, medians


def a_sample(measure: str = "send-4x128", peer: str = "ember-async", **numbers: float) -> dict[str, Any]:
    return {"measure": measure, "peer": peer, **dict.fromkeys(NUMBERS, 1.0), "errors": 0, **numbers}


def test_a_row_has_the_median_of_every_number_and_all_errors() -> None:
    rows = medians([a_sample(rate=rate, p99_us=10 * rate, errors=1) for rate in (5.0, 100.0, 7.0)])
    assert len(rows) == 1
    assert (rows[0]["rate"], rows[0]["p99_us"], rows[0]["errors"], rows[0]["samples"]) == (7.0, 70.0, 3, 3)


def test_measures_and_servers_are_kept_apart_in_the_order_they_came() -> None:
    samples = [a_sample(peer="nats", rate=1.0), a_sample(rate=2.0), a_sample(measure="pull-32", rate=3.0)]
    rows = medians([*samples, *samples])
    assert [(row["measure"], row["peer"], row["rate"]) for row in rows] == [
        ("send-4x128", "nats", 1.0),
        ("send-4x128", "ember-async", 2.0),
        ("pull-32", "ember-async", 3.0),
    ]
    assert find_row(rows, "pull-32", "ember-async") is rows[2]
    assert find_row(rows, "pull-32", "nats") is None


def test_a_ratio_of_cpu_time_is_one_of_messages_per_second_of_it() -> None:
    rows = medians([a_sample(rate=600.0, cpu_us=1.0), a_sample(peer="nats", rate=200.0, cpu_us=5.0)])
    ratio = find_ratio(rows, ("send-4x128", "ember-async"), ("send-4x128", "nats"))
    assert ratio is not None
    assert (ratio.rate, ratio.cpu) == (3.0, 5.0)


@pytest.mark.parametrize("theirs", [("send-4x128", "kafka"), ("pull-32", "nats"), ("send-4x128", "stuck")])
def test_there_is_no_ratio_to_what_was_not_measured(theirs: tuple[str, str]) -> None:
    rows = medians([a_sample(), a_sample(peer="nats"), a_sample(peer="stuck", rate=0.0)])
    assert find_ratio(rows, ("send-4x128", "ember-async"), theirs) is None
