"""The headers of pulls that are learned: only where it is certain which numbers may change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embermq.broker.fast_pull_shapes import request_pattern
from embermq.files.file_chain import FileChain
from embermq.format.command import Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, split_frames
from embermq.store.readable_log import ReadableLog
from tests.unit.broker.brokers import pull_fields


def is_learned(form: int, header: bytes) -> bool:
    return request_pattern(form, header, decode_command((form, header, b""))) is not None


def header_of(form: int, **fields: str) -> bytes:
    ((_, header, _),), _ = split_frames(encode_command(Command(11, {**pull_fields(), **fields}, b"", 7, form=form)))
    return header


@pytest.mark.parametrize("form", [JSON_FORM, BINARY_FORM])
def test_a_pull_as_clients_send_it(form: int) -> None:
    assert is_learned(form, header_of(form))
    assert is_learned(form, header_of(form, subscription="tag é")) is (form == BINARY_FORM)  # JSON escapes that
    assert is_learned(form, header_of(form, topic="queueOffset", consumerGroup="commitOffset"))


def test_white_space_and_any_order_of_members_will_do() -> None:
    fields = dict(reversed(pull_fields(offset=5).items()))
    header = json.dumps({"opaque": 5, "version": 1, "extFields": fields, "flag": 0, "code": 11}, indent=2)
    assert is_learned(JSON_FORM, header.encode())


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.replace(b'"queueOffset":"0"', b'"queueOffset":0'),
        lambda header: header.replace(b'"queueOffset":"0"', b'"queueOffset":"-1"'),
        lambda header: header.replace(b'"queueOffset":"0"', b'"queueOffset":"0","queueOffset":"0"'),
        lambda header: header.replace(b'"queueOffset":"0",', b"").replace(b'"code"', b'"queueOffset":"0","code"'),
        lambda header: header.replace(b'"opaque":7,', b""),
        lambda header: header.replace(b'"opaque":7', b'"x":{"opaque":7}'),
        lambda header: header.replace(b'"subVersion":"0"', b'"sub\\"queueOffset":"0"'),
        lambda header: header.replace(b'"commitOffset":"0",', b""),
    ],
)
def test_json_in_which_something_is_not_certain(change: object) -> None:
    header = header_of(JSON_FORM)
    changed = change(header)  # type: ignore[operator]
    assert changed != header
    assert not is_learned(JSON_FORM, changed)


def test_a_binary_header_with_a_field_inside_of_another() -> None:
    inner = "\0\x0bqueueOffset\0\0\0\x015"
    assert not is_learned(BINARY_FORM, header_of(BINARY_FORM, subscription=inner))
    only_inner = {key: value for key, value in pull_fields(subscription=inner).items() if key != "queueOffset"}
    ((_, header, _),), _ = split_frames(encode_command(Command(11, only_inner, b"", 7, form=BINARY_FORM)))
    assert not is_learned(BINARY_FORM, header)
    assert not is_learned(BINARY_FORM, header_of(BINARY_FORM) + b"more")


def test_the_readable_log_follows_the_files(tmp_path: Path) -> None:
    chain = FileChain(tmp_path, 4096)
    log = ReadableLog(chain)
    log.refresh()
    assert log.files.count == 0
    chain.append_file().append(bytes(4096))
    chain.append_file().append(bytes(10))
    log.refresh()
    assert (log.files.count, [row[:2] for row in log.files.rows()]) == (2, [[0, 4096], [4096, 10]])
    assert chain.files[-1].append(bytes(5)) == 4106
    log.refresh()
    assert [row[:2] for row in log.files.rows()] == [[0, 4096], [4096, 15]]
    chain.delete_oldest(lambda file: True)
    log.refresh()
    assert [row[:2] for row in log.files.rows()] == [[4096, 15]]
    log.forget()
    assert log.files.count == 0
    chain.close()
