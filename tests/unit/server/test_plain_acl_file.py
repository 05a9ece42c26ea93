"""The file plain_acl.yml, and the library that reads it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from embermq.errors import SettingsError
from embermq.server.plain_acl_file import read_plain_acl


def test_without_the_library_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(SettingsError, match="pip install pyyaml"):
        read_plain_acl(tmp_path / "plain_acl.yml")
