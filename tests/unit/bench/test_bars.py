"""The bars: what they compare, and when one is reached."""

from __future__ import annotations

import pytest

from bench.loadgen.measures import MEASURES
from bench.report.bars import BARS, Bar, growth_share, outcomes, put_many_share
from bench.report.tables import markdown_bars, text_bars, text_ratios
from bench.servers.peers import PEERS

OURS, THEIRS = ("send-4x128", "ember-async"), ("send-4x128", "redis-everysec")


def two_rows(ours: float, theirs: float) -> list[dict[str, object]]:
    return [
        {"measure": measure, "peer": peer, "rate": rate, "cpu_us": 1e6 / rate}
        for (measure, peer), rate in ((OURS, ours), (THEIRS, theirs))
    ]


def test_ratios_name_what_is_compared_and_say_what_was_not_measured() -> None:
    rows = [*two_rows(300.0, 100.0), {"measure": "pull-32", "peer": "nats", "rate": 1.0, "cpu_us": 1.0}]
    heads, sent, pulled = text_ratios(rows)
    assert heads.split() == ["measure", "compared", "with", "ember-async", "per", "CPU"]
    assert sent.split() == ["send-4x128", "redis-everysec", "3.00", "×", "3.00", "×"]
    assert pulled.split() == ["pull-32", "nats", "–", "–"]
    assert list(text_ratios(rows[:1])) == []


@pytest.mark.parametrize(("rate", "word"), [(300.0, "reached"), (299.0, "not reached")])
def test_a_bar_is_reached_from_its_number_on(rate: float, word: str) -> None:
    assert Bar("send", 3, OURS, THEIRS).outcome(two_rows(rate, 100.0)).word == word


def test_a_bar_per_cpu_second_does_not_look_at_the_rate() -> None:
    rows = two_rows(100.0, 100.0)
    rows[1]["cpu_us"] = 40 * float(str(rows[0]["cpu_us"]))
    outcome = Bar("send", 10, OURS, THEIRS, per_cpu=True).outcome(rows)
    assert (outcome.found, outcome.word) == (40.0, "reached")


@pytest.mark.parametrize("bar", BARS, ids=lambda bar: bar.text)
def test_every_bar_compares_servers_that_take_part_in_its_measures(bar: Bar) -> None:
    for measure, peer in (bar.ours, bar.theirs):
        assert peer in MEASURES[measure].peers


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_names_servers_that_there_are(name: str) -> None:
    assert set(MEASURES[name].peers) <= set(PEERS)


def test_what_was_not_measured_is_said_so() -> None:
    found = outcomes([], {}, {})
    assert {outcome.word for outcome in found} == {"not measured"}
    assert len(list(markdown_bars(found))) == len(found) + 2
    assert sum("not measured" in line for line in text_bars(found)) == len(found)


def test_put_many_is_judged_by_puts_into_warm_pages() -> None:
    (bar,) = [one for one in outcomes([], {"put_many_of_copy": 0.4}, {}) if one.unit == "share" and one.found]
    assert (bar.found, bar.word) == (0.4, "reached")
    assert put_many_share({"puts": []}) is None


def test_growth_is_the_smallest_rate_to_the_largest_of_its_kind() -> None:
    rows = [{"kind": "queues", "rate": rate} for rate in (100.0, 80.0, 90.0)] + [{"kind": "log", "rate": 5.0}]
    assert growth_share({"rows": rows}, "queues") == 0.8
    assert growth_share({"rows": rows}, "log") is None  # two cases are missing
