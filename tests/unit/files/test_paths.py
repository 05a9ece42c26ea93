from __future__ import annotations

from pathlib import Path

import pytest

from embermq.errors import ForeignFile, MissingFile
from embermq.files.paths import check_no_gap, choose_path, file_name, find_files

A, B, C = Path("/a"), Path("/b"), Path("/c")


def test_files_go_round_the_paths_in_the_order_of_their_names() -> None:
    chosen = [choose_path([C, A, B], [], position, 100) for position in range(0, 500, 100)]
    assert chosen == [A, B, C, A, B]


def test_a_full_path_is_left_out() -> None:
    chosen = [choose_path([A, B, C], [B], position, 100) for position in range(0, 400, 100)]
    assert chosen == [A, C, A, C]


def test_when_all_are_full_all_are_used() -> None:
    chosen = [choose_path([A, B], [A, B], position, 100) for position in range(0, 400, 100)]
    assert chosen == [A, B, A, B]


def test_a_name_is_a_position_of_twenty_digits() -> None:
    assert file_name(1024) == "00000000000000001024"


def test_files_of_several_folders_are_merged_by_name_and_directories_passed_over(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, position in ((two, 0), (one, 100), (two, 200)):
        folder.mkdir(exist_ok=True)
        (folder / file_name(position)).touch()
    (one / "compacting").mkdir()
    found = find_files([one, two, one, tmp_path / "missing"])
    assert found == [two / file_name(0), one / file_name(100), two / file_name(200)]


@pytest.mark.parametrize("name", [
    "0", "x" * 20, "0" * 19, "0" * 21, "0" * 20 + ".bak", "\N{ARABIC-INDIC DIGIT ZERO}" * 20, "-" + "0" * 19,
])  # fmt: skip
def test_a_file_that_is_not_named_after_a_position_is_foreign(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ForeignFile) as caught:
        find_files([tmp_path])
    assert caught.value.path == tmp_path / name


def test_a_gap_is_named_after_the_file_that_is_missing(tmp_path: Path) -> None:
    files = [tmp_path / file_name(position) for position in (100, 200, 400)]
    with pytest.raises(MissingFile) as caught:
        check_no_gap(files, 100)
    assert caught.value.path == tmp_path / file_name(300)
    check_no_gap(files[:2], 100)
