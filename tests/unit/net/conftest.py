"""Every test of this folder runs with both ways to read from sockets."""

from __future__ import annotations

import pytest

from tests.unit.net import reading


@pytest.fixture(autouse=True, params=["each-transport", "together"])
def how_it_is_read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "is_together", request.param == "together")
