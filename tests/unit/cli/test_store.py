"""`ember store …` on stores of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from embermq import Message
from embermq.cli.main import main
from embermq.format.record import decode_record
from tests.builders import SMALL_SIZES, a_store, some_messages

LOG_FILE = SMALL_SIZES["log_file_size"]


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(400))
        store.put(Message("others", "grüße\n".encode(), tags="eu", keys=["k-1"], queue=2))
    return path


def damage_record(path: Path, position: int) -> None:
    with (path / "commitlog" / f"{position // LOG_FILE * LOG_FILE:020d}").open("r+b") as file:
        file.seek(position % LOG_FILE + 100)
        file.write(b"\xff")


def printed_json(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_info_tells_the_log_and_its_queues(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "info", str(stopped), "--json"]) == 0
    (facts,) = printed_json(capsys)
    assert facts["begin"] == 0
    assert LOG_FILE < facts["end"] < 2 * LOG_FILE
    assert facts["fileSize"] == LOG_FILE
    assert [file["begin"] for file in facts["files"]] == [0, LOG_FILE]
    assert all(Path(file["path"]).is_file() for file in facts["files"])
    assert facts["topics"] == {
        "orders": {str(queue): {"min": 0, "max": 100} for queue in range(4)},
        "others": {"2": {"min": 0, "max": 1}},
    }
    assert (facts["clean"], facts["inUse"]) == (True, False)


def test_info_for_people_has_a_line_for_each_queue(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "info", str(stopped)]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[0].endswith("closed")
    assert "2 files of 65536 bytes" in lines[1]
    assert lines[-1].split() == ["others", "2", "0", "1"]
    assert printed.err == ""


def test_info_tells_who_has_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_store(tmp_path / "store"):
        assert main(["store", "info", str(tmp_path / "store")]) == 0
        assert "in use" in capsys.readouterr().out
    (tmp_path / "store" / "abort").write_text("1")
    assert main(["store", "info", str(tmp_path / "store")]) == 0
    assert "not closed cleanly" in capsys.readouterr().out


def test_dump_prints_one_object_a_record(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "dump", str(stopped), "--json"]) == 0
    records = printed_json(capsys)
    assert len(records) == 401
    assert records[-1]["topic"] == "others"
    assert bytes.fromhex(records[-1]["bodyHex"]) == "grüße\n".encode()
    assert records[-1]["properties"]["KEYS"] == "k-1"


def test_dump_for_people_prints_one_line_a_record(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "dump", str(stopped)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 401
    assert lines[-1].endswith("tags=eu keys=k-1  grüße\\n")
    assert "others/2/0" in lines[-1]
    assert lines[0].endswith("… 100 bytes")


def test_dump_prints_what_is_whole_before_damage_and_fails(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["store", "dump", str(stopped), "--json"])
    records = printed_json(capsys)
    damage_record(stopped, records[10]["physicalOffset"])
    assert main(["store", "dump", str(stopped), "--json"]) == 1
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 10
    assert f"position {records[10]['physicalOffset']}" in printed.err


def test_verify_of_a_sound_store_is_0(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "verify", str(stopped)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("sound: 401 records, ")
    assert printed.err == ""


def test_verify_of_a_sound_store_says_so_in_json(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "verify", str(stopped), "--json"]) == 0
    (facts,) = printed_json(capsys)
    assert facts == {"sound": True, "records": 401, "bytes": facts["bytes"], "damage": []}


def hidden_at(path: Path, position: int) -> list[str]:
    """How the table names the message of the record at `position`."""
    data = memoryview((path / "commitlog" / f"{position // LOG_FILE * LOG_FILE:020d}").read_bytes())
    record = decode_record(data[position % LOG_FILE :], position, check_body=False)
    return [f"{record.topic}/{record.queue}", str(record.offset)]


def test_verify_of_a_damaged_store_is_1_with_a_line_for_each_damage(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage_record(stopped, 0)
    damage_record(stopped, LOG_FILE)
    assert main(["store", "verify", str(stopped)]) == 1
    printed = capsys.readouterr()
    heads, *damages, last = printed.out.splitlines()
    assert heads.split() == ["file", "position", "kind", "hides", "detail"]
    assert [line.split()[:5] for line in damages] == [
        [f"commitlog/{0:020d}", "0", "record", "orders/0", "0"],
        [f"commitlog/{LOG_FILE:020d}", str(LOG_FILE), "record", *hidden_at(stopped, LOG_FILE)],
    ]
    assert last.startswith("damaged: 2 damages in 399 records, ")
    assert printed.err == ""


def test_verify_of_a_damaged_store_lists_it_in_json(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage_record(stopped, LOG_FILE)
    assert main(["store", "verify", str(stopped), "--json"]) == 1
    facts = printed_json(capsys)[-1]
    (damage,) = facts["damage"]
    assert not facts["sound"]
    assert set(damage) == {"file", "position", "kind", "detail", "hides"}
    assert len(damage["hides"]) == 1 and set(damage["hides"][0]) == {"topic", "queue", "begin", "end"}
    assert (damage["file"], damage["position"], damage["kind"]) == (f"commitlog/{LOG_FILE:020d}", LOG_FILE, "record")


def test_verify_says_that_opening_may_help_after_a_crash(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage_record(stopped, 0)
    (stopped / "abort").write_text("1")
    assert main(["store", "verify", str(stopped)]) == 1
    assert "opening it repairs" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["info", "dump", "verify", "rebuild"])
def test_a_directory_without_a_store_is_3(tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", verb, str(tmp_path / "none")]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"ember: no store at {tmp_path / 'none'}: no such directory\n"


@pytest.mark.parametrize("verb", ["info", "dump"])
def test_a_file_that_no_store_makes_is_1_and_named(
    stopped: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (stopped / "commitlog" / "notes.txt").write_text("x")
    assert main(["store", verb, str(stopped)]) == 1
    assert "notes.txt" in capsys.readouterr().err


def test_a_log_that_lies_elsewhere_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = [str(tmp_path / "log-a"), str(tmp_path / "log-b")]
    with a_store(tmp_path / "store", log_paths=tuple(logs)) as store:
        store.put_many(some_messages(400))
    options = [word for path in logs for word in ("--log-path", path)]
    assert main(["store", "verify", str(tmp_path / "store"), *options]) == 0
    assert capsys.readouterr().out.startswith("sound: 400 records")
    assert main(["store", "verify", str(tmp_path / "store")]) == 1
