"""`ember store …` on stores that RocketMQ wrote, against what RocketMQ read from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from embermq.cli.main import main
from tests.conftest import GOLDEN, Golden

STORES = sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "stores").glob("*.tar.xz"))
DAMAGED = [name for name in STORES if name.startswith("torn-")]
IN_ROCKSDB = "rocksdb-cq"  # its queues are no files of ours
FOREIGN_COMPRESSION = {"plainBodySize", "plainBodySha256"}  # of LZ4 and ZSTD, which the standard library lacks
LAST_FILE = f"commitlog/{458752:020d}"


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["store", *arguments, "--json"])
    printed = capsys.readouterr()
    assert printed.err == "" or code
    return code, [json.loads(line) for line in printed.out.splitlines()]


def is_unpacked(record: dict[str, Any]) -> bool:
    """Whether the body is one that we can unpack: compressed with zlib, or not at all."""
    return record["sysFlag"] & 1 == 0 or record["sysFlag"] & 0x700 in (0, 0x300)


@pytest.mark.parametrize("name", STORES)
def test_a_dump_is_what_rocketmq_decodes(name: str, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    code, dumped = lines_of(capsys, "dump", str(golden.store(name)))
    expected = golden.expected(name)["commitLog"]["records"]
    for record in expected:
        if not is_unpacked(record):
            for field in FOREIGN_COMPRESSION:
                del record[field]
    assert code == 0
    assert dumped == expected


@pytest.mark.parametrize("name", STORES)
def test_info_is_what_rocketmq_knows(name: str, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden.store(name)
    code, (facts,) = lines_of(capsys, "info", str(path))
    expected = golden.expected(name)
    log = expected["commitLog"]
    assert code == 0
    assert (facts["begin"], facts["end"], facts["fileSize"]) == (0, log["endOfRecords"], log["fileSize"])
    assert [Path(file["path"]).name for file in facts["files"]] == log["files"]
    assert facts["clean"] == (not expected["abort"])
    assert facts["topics"] == {} if name == IN_ROCKSDB else queues_of(expected)


def queues_of(expected: dict[str, Any]) -> dict[str, dict[str, dict[str, int]]]:
    """Of stores that RocketMQ did not open, the file says only which entries there are."""
    return {
        topic: {
            queue: {"min": facts.get("minOffset", 0), "max": facts.get("maxOffset", len(facts["units"]))}
            for queue, facts in queues.items()
        }
        for topic, queues in expected["consumeQueues"].items()
    }


@pytest.mark.parametrize("name", [name for name in STORES if name not in DAMAGED])
def test_what_rocketmq_left_is_sound(name: str, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    code, (verdict,) = lines_of(capsys, "verify", str(golden.store(name)))
    log = golden.expected(name)["commitLog"]
    assert code == 0
    assert verdict == {"sound": True, "records": len(log["records"]), "bytes": log["endOfRecords"], "damage": []}


@pytest.mark.parametrize(
    ("name", "kind", "position", "records"),
    [
        ("torn-body", "record", 498920, 348),
        ("torn-cut", "tail", 499365, 348),
        ("torn-garbage", "tail", 499662, 349),
        ("torn-properties", "record", 499365, 348),
    ],
)
def test_a_torn_log_has_exactly_the_damage_that_was_planted(
    name: str, kind: str, position: int, records: int, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    code, (verdict,) = lines_of(capsys, "verify", str(golden.store(name)))
    assert code == 1
    assert verdict["records"] == records
    assert [(damage["file"], damage["position"], damage["kind"]) for damage in verdict["damage"]] == [
        (LAST_FILE, position, kind)
    ]


def test_torn_queues_and_a_lost_index_file_are_found(golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    code, (verdict,) = lines_of(capsys, "verify", str(golden.store("torn-queues")))
    torn, whole = golden.expected("torn-queues"), golden.expected("crashed")
    short = sorted(
        f"{topic}/{queue} has no entry for offsets {len(facts['units'])} to"
        for topic, queues in torn["consumeQueues"].items()
        for queue, facts in queues.items()
        if len(facts["units"]) < len(whole["consumeQueues"][topic][queue]["units"])
    )
    assert code == 1
    assert len(short) == 6
    *orphans, unindexed = verdict["damage"]
    assert [damage["kind"] for damage in orphans] == ["orphan"] * 6
    assert [damage["detail"].rpartition(" ")[0] for damage in orphans] == short
    # The last record that the index knows had more keys in the file that was deleted.
    last = max(file["endPhyOffset"] for file in torn["index"]["files"])
    assert (unindexed["kind"], unindexed["position"]) == ("unindexed", last)
