"""Bodies as clients compress them: what RocketMQ's own client packed, damage, bombs, and packages that are missing."""

from __future__ import annotations

import hashlib
import zlib
from importlib import import_module
from typing import Any

import pytest

from embermq.errors import CorruptRecord, NotSupported
from embermq.format import packed_body
from embermq.format.packed_body import MAX_PLAIN_SIZE, unpack_body
from embermq.model.flags import SysFlag
from embermq.store.reader import StoreReader
from tests.conftest import Golden

PACKED = SysFlag.COMPRESSED


def pack(flag: int, plain: bytes) -> bytes:
    match flag:
        case SysFlag.LZ4:
            packed = pytest.importorskip("lz4.frame").compress(plain)
        case SysFlag.ZSTD:
            packed = pytest.importorskip("zstandard").ZstdCompressor().compress(plain)
        case _:
            packed = zlib.compress(plain)
    return bytes(packed)


KINDS = [0, SysFlag.ZLIB, SysFlag.LZ4, SysFlag.ZSTD]


def test_what_rocketmqs_client_packed_is_what_it_says(golden: Golden) -> None:
    pytest.importorskip("lz4.frame")
    pytest.importorskip("zstandard")
    packed = [facts for facts in golden.expected("basic")["commitLog"]["records"] if "plainBodySha256" in facts]
    assert {facts["sysFlag"] & SysFlag.COMPRESSION_MASK for facts in packed} == set(KINDS) - {0}
    with StoreReader(golden.store("basic")) as reader:
        records = {record.position: record for record in reader.iter_records()}
    for facts in packed:
        record = records[facts["physicalOffset"]]
        plain = unpack_body(record.body, record.sys_flag)
        assert len(plain) == facts["plainBodySize"]
        assert hashlib.sha256(plain).hexdigest() == facts["plainBodySha256"].lower()


@pytest.mark.parametrize("flag", KINDS)
@pytest.mark.parametrize("plain", [b"", b"x", b"x" * 9000])
def test_a_packed_body_is_unpacked(flag: int, plain: bytes) -> None:
    assert unpack_body(pack(flag, plain), PACKED | flag) == plain


def test_a_body_that_is_not_packed_stays_as_it_is() -> None:
    assert unpack_body(memoryview(b"as it is"), SysFlag.LZ4) == b"as it is"


@pytest.mark.parametrize("flag", KINDS)
def test_what_does_not_unpack_is_reported(flag: int) -> None:
    whole = pack(flag, bytes(range(256)) * 40)
    for body in (b"nothing of the kind", b"", whole[:-5], whole[: len(whole) // 2]):
        with pytest.raises(CorruptRecord, match="cannot unpack"):
            unpack_body(body, PACKED | flag)


@pytest.mark.parametrize("flag", KINDS)
def test_a_small_body_cannot_unpack_to_a_huge_one(flag: int) -> None:
    bomb = pack(flag, bytes(MAX_PLAIN_SIZE + 1))
    assert len(bomb) < 1 << 20
    with pytest.raises(CorruptRecord, match="larger than"):
        unpack_body(bomb, PACKED | flag)


@pytest.mark.parametrize(("flag", "package"), [(SysFlag.LZ4, "lz4"), (SysFlag.ZSTD, "zstandard")])
def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, flag: int, package: str) -> None:
    def without(name: str) -> Any:
        if name.split(".", maxsplit=1)[0] == package:
            raise ImportError(name)
        return import_module(name)

    packed_body._find_package.cache_clear()
    monkeypatch.setattr(packed_body, "import_module", without)
    with pytest.raises(NotSupported, match=f"pip install {package}"):
        unpack_body(b"x", PACKED | flag)
