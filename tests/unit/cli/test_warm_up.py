"""`ember warm-up`: the engine is compiled, and it is said where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embermq.cli.main import main
from embermq.kernels import loading


def test_it_says_where_the_code_lies_and_how_long_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    loading.load()
    assert main(["warm-up", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {"seconds": facts["seconds"], "folder": str(loading.cache_directory()), "compiled": False}
    assert 0 <= facts["seconds"] < 60
    assert main(["warm-up"]) == 0
    assert capsys.readouterr().out.endswith(f"s, kept in {loading.cache_directory()}\n")


def test_a_folder_that_others_can_write_into_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("EMBERMQ_CACHE", str(tmp_path))
    assert main(["warm-up"]) == 1
    assert "others may write" in capsys.readouterr().err


def test_without_the_engine_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("EMBERMQ_ENGINE", "off")
    monkeypatch.setattr(loading, "_loaded", type(loading._loaded)())
    assert main(["warm-up"]) == 1
    assert "EMBERMQ_ENGINE" in capsys.readouterr().err
