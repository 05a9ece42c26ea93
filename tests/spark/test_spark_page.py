"""docs/spark.md tells the truth: its snippets run, in the session of all tests, and it has every option and column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.test_docs import DEFAULT_ADDRESS, README, REPORTS_PAGE, SPARK_PAGE, run_page, run_page_with_server

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.e2e.conftest import Served


def test_every_snippet_of_the_page_runs(
    spark: SparkSession, ember: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page_with_server(SPARK_PAGE, ember.namesrv)


def test_every_snippet_of_the_page_of_reports_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(REPORTS_PAGE.read_text(), REPORTS_PAGE.name, has_spark=True)


def test_the_snippets_of_the_readme_run(
    spark: SparkSession, ember: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBERMQ_NAMESRV", ember.namesrv)
    # The session of all tests runs in another directory.
    page = (
        README.read_text().replace(DEFAULT_ADDRESS, ember.namesrv).replace('load("data")', f'load("{tmp_path}/data")')
    )
    run_page(page, README.name, has_spark=True)


def test_every_option_and_column_is_documented() -> None:
    from embermq_spark.options import ReadOptions, WriteOptions
    from embermq_spark.schema import COLUMNS
    from embermq_spark.sink_columns import KINDS

    told = set(re.findall(r"`(\w+)(?: [\w<>,]+)?`", SPARK_PAGE.read_text()))
    assert {*ReadOptions.names(), *WriteOptions.names(), *COLUMNS, *KINDS} - told == {"paths"}  # what load([…]) becomes
