"""Every frame that RocketMQ and its clients put on a wire is read as they meant it, and written as they write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from embermq.format.command import ANSWER, LANGUAGES, ONEWAY, Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, split_frames
from tests.conftest import GOLDEN

SCENARIOS = sorted(path for path in (GOLDEN / "wire").glob("*.jsonl") if path.name != "ha.jsonl")
KINDS = {"request": 0, "oneway": ONEWAY, "response": ANSWER}


def recorded(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if "frame_hex" in line]  # the last line may tell how many frames were left out


def command_of(line: dict[str, Any]) -> Command:
    data = bytes.fromhex(line["frame_hex"])
    (frame,), taken = split_frames(data)
    assert taken == len(data)
    return decode_command(frame)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_frames_are_read_as_they_were_meant(path: Path) -> None:
    for line in recorded(path):
        command, header = command_of(line), line["header"]
        assert (command.code, command.opaque) == (line["code"], line["opaque"])
        assert command.flag == KINDS[line["kind"]] == header["flag"]
        assert command.data.hex() == line["body_hex"]
        assert command.fields == (header.get("extFields") or {})
        language = header["language"]  # a number in binary headers
        assert command.language == (LANGUAGES[language] if isinstance(language, int) else language)
        assert command.remark == header.get("remark")
        assert command.version == header["version"]
        assert command.form == (BINARY_FORM if line["serialize"] == "ROCKETMQ" else 0)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_frames_are_written_as_they_were(path: Path) -> None:
    for line in recorded(path):
        command = command_of(line)
        data = encode_command(command)
        if command.form == BINARY_FORM:
            assert data.hex() == line["frame_hex"]
            continue
        (again,), _ = split_frames(data)
        _, text, body = again
        header = json.loads(text)
        expected = {name: value for name, value in line["header"].items() if value is not None}
        assert header == {"extFields": {}, **expected}
        assert body == command.data


def test_there_is_something_to_read() -> None:
    frames = [line for path in SCENARIOS for line in recorded(path)]
    assert {line["serialize"] for line in frames} == {"JSON", "ROCKETMQ"}
    assert len(SCENARIOS) > 60 and len(frames) > 1000
