"""The limit of open files is raised as far as it may be."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from embermq.files.open_files import allow_open_files


@pytest.fixture
def hard() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("wanted", "limit"), [(100, 512), (512, 512), (513, 513)])
def test_the_limit_is_raised_to_what_is_wanted_and_never_lowered(hard: int, wanted: int, limit: int) -> None:
    allow_open_files(wanted)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (limit, hard)


def test_the_limit_ends_where_the_system_ends_it(hard: int, caplog: pytest.LogCaptureFixture) -> None:
    if hard == resource.RLIM_INFINITY:
        pytest.skip("the system sets no limit here")
    allow_open_files(1 << 40)  # more than any system allows, whoever asks
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    assert "raise it" in caplog.text
