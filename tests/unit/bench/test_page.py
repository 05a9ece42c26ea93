"""The page of results and its plot."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from bench.report.medians import NUMBERS
from bench.report.page import BEGIN, END, PAGE, replace_results, results_text
from bench.report.plot import LABELS, draw_rates
from bench.report.tables import markdown_rows, text_rows

SVG = "{http://www.w3.org/2000/svg}"


def a_row(measure: str, peer: str, rate: float, **numbers: float) -> dict[str, Any]:
    return {"measure": measure, "peer": peer, **dict.fromkeys(NUMBERS, 0.5), "errors": 0, "rate": rate, **numbers}


ROWS = [
    a_row("send-4x128", "ember-async", 600_000.0),
    a_row("send-4x128", "redis-everysec", 200_000.0),
    a_row("send-1x1", "ember-async", 20_000.0),
]


def bars_of(picture: str) -> list[float]:
    root = ElementTree.fromstring(picture)
    return [float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect") if bar.get("x") == str(LABELS)]


def test_bars_are_as_long_as_their_share_of_the_fastest_of_their_measure() -> None:
    fastest, third, alone = bars_of(draw_rates(ROWS, {}, {}))
    assert third == pytest.approx(fastest / 3, abs=0.1)
    assert alone == fastest


def test_a_server_that_answered_nothing_still_has_a_bar() -> None:
    assert bars_of(draw_rates([a_row("send-1x1", "nats", 0.0)], {}, {})) == [1.0]


def test_the_plot_names_measures_servers_and_rates_whatever_their_letters() -> None:
    picture = draw_rates(ROWS[:1], {"send-4x128": "send <1 KiB> & more"}, {"ember-async": "EmberMQ"})
    words = [text.text for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]
    assert words == ["send <1 KiB> & more", "EmberMQ", "600,000/s"]


def test_a_table_names_a_measure_once_and_every_server() -> None:
    lines = list(markdown_rows(ROWS, {"send-4x128": "four"}, {}))[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| four", "| ", "| send-1x1"]
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_a_rate_that_the_generator_limited_has_a_mark_and_a_note() -> None:
    limited = [a_row("pull-32", "ember-async", 5e6, generator_share=0.99)]
    assert any("5,000,000*" in line for line in text_rows(limited))
    assert "load generator" in list(markdown_rows(limited, {}, {}))[-1]
    assert "*" not in "".join(text_rows(ROWS))


def test_results_stand_between_the_marks_and_nothing_else_changes() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replace_results(page, "new")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert replace_results(once, "new") == once


@pytest.mark.parametrize("page", ["", f"{END}\n{BEGIN}", f"{BEGIN}\n", f"{BEGIN}{BEGIN}{END}", f"{BEGIN}{END}{END}"])
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no place for results"):
        replace_results(page, "new")


def test_the_page_of_the_project_has_a_place_for_results() -> None:
    assert replace_results(PAGE.read_text(), "new").count("new") >= 1


def test_results_tell_machine_date_versions_checks_and_who_is_missing() -> None:
    machine = {"date": "2026-11-16", "cpu": "CPU 9", "cores": 2, "memory_gib": 23, "kernel": "6.18", "python": "3.11.7"}
    peers = {
        **{"machine": {**machine, "load": 1.0}, "versions": {"ember-async": "EmberMQ 1", "redis-everysec": "Redis 7"}},
        **{"rounds": 5, "seconds": 2, "verified": 1234567, "medians": ROWS, "failures": {"kafka": "no\nreason"}},
    }
    growth = {"rows": [{"kind": "queues", "title": "1 queue", "rate": 10.0, "ratio": 1.0}]}
    text = "\n".join(results_text(peers, {}, growth))
    for words in (
        "2026-11-16",
        "CPU 9",
        "6.18",
        "EmberMQ 1, Redis 7",
        "1,234,567",
        "Kafka was left out: no\n",
        "1 queue",
    ):
        assert words in text
