"""Brokers with and without kernels, for tests that must come to the same with both."""

from __future__ import annotations

from functools import partial

import pytest

from tests.unit.broker import brokers
from tests.unit.broker.staging import WithBroker


@pytest.fixture(params=["plain", "kernels"])
def with_either(request: pytest.FixtureRequest) -> WithBroker:
    """`with_broker`, once plain and once with kernels."""
    return partial(brokers.with_broker, with_kernels=request.param == "kernels")
