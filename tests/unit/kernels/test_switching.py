"""Kernels take over long work: at once if they are loaded, else when that pays and they need not be compiled."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from embermq.errors import CompileFailed
from embermq.kernels import loading
from embermq.kernels.switching import Switch


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has no kernels yet."""
    loading.load()
    monkeypatch.setattr(loading, "_loaded", type(loading._loaded)())


def test_loaded_kernels_are_used_at_once() -> None:
    loading.load()
    assert Switch(pays_after=100).is_on(0)


@pytest.mark.usefixtures("unloaded")
def test_they_are_loaded_when_it_pays() -> None:
    switch = Switch(pays_after=100)
    assert not switch.is_on(0)
    assert not switch.is_on(99)
    assert not loading.is_loaded()
    assert switch.is_on(100)
    assert loading.is_loaded()
    assert switch.is_on(0)


@pytest.mark.usefixtures("unloaded")
def test_they_are_not_compiled_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBERMQ_CACHE", str(tmp_path / "empty"))
    assert not Switch(pays_after=100).is_on(1_000)
    assert not loading.is_loaded()
    assert not (tmp_path / "empty").exists()


def test_they_are_not_used_where_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    loading.load()
    monkeypatch.setenv("EMBERMQ_ENGINE", "off")
    assert not Switch(pays_after=0).is_on(1_000)


@pytest.mark.usefixtures("unloaded")
def test_plain_code_goes_on_if_they_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(unwanted: threading.Event) -> None:
        raise CompileFailed(1, "no room")

    monkeypatch.setattr(loading, "_load", fail)
    switch = Switch(pays_after=100)
    with caplog.at_level(logging.WARNING):
        assert [switch.is_on(100) for _ in range(3)] == [False, False, False]
    (line,) = caplog.messages  # said once
    assert "no room" in line
