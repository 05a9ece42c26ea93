"""`dev.py bench wide` with few thousand queues: what a million is measured by."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from bench.wide import measure_light, measure_queues

pytest.importorskip("rocksdict")


@pytest.mark.parametrize("form", ["files", "rocksdb"])
def test_light_queues_are_made_and_read(tmp_path: Path, form: str) -> None:
    count = 3_000 if form == "rocksdb" else 60
    figures = measure_light(tmp_path / "s", argparse.Namespace(light=count, light_form=form))
    assert figures["read per s"] > 0
    assert figures["open files"] < 3_000


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_million_light_queues_stay_within_bounds(tmp_path: Path) -> None:
    figures = measure_light(tmp_path / "s", argparse.Namespace(light=1_000_000, light_form="rocksdb"))
    assert figures["memory per queue, bytes"] < 400
    assert figures["disk per queue, bytes"] < 400
    assert figures["open files"] < 1_000


@pytest.mark.parametrize("form", ["files", "rocksdb"])
def test_ordinary_queues_are_appended_to_and_read(tmp_path: Path, form: str) -> None:
    count = 1_100 if form == "rocksdb" else 120
    assert measure_queues(tmp_path / "s", count, form)["queues read per s"] > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifty_thousand_queues_are_appended_to_and_read_with_few_files_open(tmp_path: Path) -> None:
    figures = measure_queues(tmp_path / "s", 50_000, "files")
    assert figures["open files"] < 131_072
    assert figures["maps"] < 65_530
    assert figures["memory per queue, bytes"] < 8_192
