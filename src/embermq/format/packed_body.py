"""Bodies that a client has compressed: zlib, LZ4 frames and ZSTD frames.

What unpacks LZ4 and ZSTD is imported when a body calls for it. No body unpacks to more than MAX_PLAIN_SIZE bytes,
however small it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from embermq.errors import CorruptRecord, NotSupported
from embermq.model.flags import SysFlag

MAX_PLAIN_SIZE: Final = 64 * 1024 * 1024


def unpack_body(body: bytes | memoryview, sys_flag: int) -> bytes:
    """A body as its sender had it. Raises CorruptRecord, or NotSupported where a package is missing."""
    if not sys_flag & SysFlag.COMPRESSED:
        return bytes(body)
    match sys_flag & SysFlag.COMPRESSION_MASK:
        case SysFlag.LZ4:
            return _run("lz4", _unpack_lz4, _find_package("lz4.frame", "lz4"), body)
        case SysFlag.ZSTD:
            return _run("zstandard", _unpack_zstd, _find_package("zstandard", "zstandard"), body)
    return _run("zlib", _unpack_zlib, zlib, body)


def _run(name: str, unpack: Callable[[Any, bytes | memoryview], bytes], module: Any, body: bytes | memoryview) -> bytes:
    try:
        return unpack(module, body)
    except CorruptRecord as error:
        raise _unfit(name, body, error.reason) from error
    except Exception as error:  # each package has errors of its own, which cannot be named without it
        raise _unfit(name, body, str(error)) from error


def _unfit(name: str, body: bytes | memoryview, reason: str) -> CorruptRecord:
    return CorruptRecord(0, f"a body of {len(body)} bytes that {name} cannot unpack: {reason}")


def _unpack_zlib(_: Any, body: bytes | memoryview) -> bytes:
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(body, MAX_PLAIN_SIZE)
    if not unpacker.eof:
        raise CorruptRecord(0, _too_large() if unpacker.unconsumed_tail else "it ends too early")
    return plain


def _unpack_lz4(module: Any, body: bytes | memoryview) -> bytes:
    unpacker = module.LZ4FrameDecompressor()
    plain: bytes = unpacker.decompress(bytes(body), MAX_PLAIN_SIZE)
    if not unpacker.eof:
        raise CorruptRecord(0, "it ends too early" if unpacker.needs_input else _too_large())
    return plain


def _unpack_zstd(module: Any, body: bytes | memoryview) -> bytes:
    size = module.frame_content_size(bytes(body[:18]))
    if size > MAX_PLAIN_SIZE:
        raise CorruptRecord(0, _too_large())
    plain: bytes = module.ZstdDecompressor().stream_reader(bytes(body)).read(MAX_PLAIN_SIZE + 1)
    if len(plain) > MAX_PLAIN_SIZE:
        raise CorruptRecord(0, _too_large())
    if 0 <= size != len(plain):
        raise CorruptRecord(0, "it ends too early")
    return plain


def _too_large() -> str:
    return f"it is larger than {MAX_PLAIN_SIZE} bytes"


@lru_cache(maxsize=4)
def _find_package(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise NotSupported(
            f"a message is compressed with {package}, which is not installed; `pip install {package}`"
        ) from error
