"""The limit of open files is raised as far as it may be, and most of it is for queues."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from embermq.files import open_files
from embermq.files.open_files import most_mapped_files


@pytest.fixture
def hard() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_limit_is_raised_to_what_the_system_allows(hard: int) -> None:
    allowed = 1 << 17 if hard == resource.RLIM_INFINITY else min(hard, 1 << 17)
    most = most_mapped_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (allowed, hard)
    assert 0 < most <= allowed * 3 // 4  # the rest is for connections, the log, the index


def test_a_limit_that_is_higher_already_is_not_lowered(hard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "_WANTED", 100)
    most_mapped_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (512, hard)


def test_maps_are_limited_too(hard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "_find_most_maps", lambda: 40)
    assert most_mapped_files() == 30
