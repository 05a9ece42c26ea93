"""Logs whose records are whole, but have topics, properties and checksums of all kinds."""

from __future__ import annotations

from random import Random

from embermq.format.record import Draft, encode_drafts, encode_property_crc
from tests.unit.kernels.kernel_builders import HOSTS, STORE_TIME, random_draft, random_properties

TOPICS = (
    *(b"orders", b"orders", b"%RETRY%group", b"a" * 255, b"a" * 256, b"", b".", b"..", b"...", b".a", b"a/b", b"/"),
    *(b"a\0", b"\0", b"0123456789abcdef/", "grün".encode(), "ü".encode() * 127, "ü".encode() * 128),
)
_CRC_NAME = b"__CRC32#"
_ENDINGS = (b"", b"", b"\0", b"\xff", b"\xc3", "ü\x02".encode(), _CRC_NAME, _CRC_NAME + b"\x010000000000\x02", b"#\x02")


def a_checked_log(random: Random) -> bytes:
    """Some records one behind the other, from position 0 on."""
    log = b""
    for number in range(random.randrange(1, 6)):
        log += _record(random, number, len(log))
    return log


def _record(random: Random, offset: int, position: int) -> bytes:
    draft: Draft = random_draft(random, topic=random.choice(TOPICS))
    draft = draft._replace(properties=random_properties(random) + random.choice(_ENDINGS))
    with_crc = random.random() < 0.4
    parts, _ = encode_drafts(
        [draft], [offset], position, STORE_TIME, random.choice(HOSTS), with_property_crc=with_crc
    )  # fmt: skip
    record = b"".join(parts)
    if with_crc and random.random() < 0.3:  # one that is wrong
        record = record[:-20] + random.choice((encode_property_crc(random.randrange(2**31)), record[-20:-1] + b"\1"))
    return record
