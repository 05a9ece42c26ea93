"""Topics, groups and offsets that RocketMQ keeps in RocksDBs, which it does where its queues are in one.

    config/topics/               default: topic → settings as JSON           kvDataVersion: the version, as JSON
    config/subscriptionGroups/   default: group → settings as JSON           forbidden: group → topics it may not read
    config/consumerOffsets/      default: topic@group → offsets by queue

Only read: we keep JSON files, and RocketMQ takes those over where they are newer. Only loaded where rocksdict is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from rocksdict import AccessType, Options, Rdict

from embermq.errors import DiskFailed

_DEFAULT: Final = "default"
_VERSION: Final = "kvDataVersion"
_VERSION_KEY: Final = b"kvDataVersionKey"
_FORBIDDEN: Final = "forbidden"


class ConfigTable(NamedTuple):
    """What one of them holds: JSON by name."""

    version: bytes | None
    members: dict[str, bytes]
    forbidden: dict[str, bytes]


def read_table(folder: Path) -> ConfigTable | None:
    """The table in `folder`; None if there is none. Raises DiskFailed."""
    if not (folder / "CURRENT").is_file():
        return None
    try:
        names = Rdict.list_cf(str(folder), Options(raw_mode=True))
        families = {name: Options(raw_mode=True) for name in names}
        database: Any = Rdict(
            str(folder), Options(raw_mode=True), column_families=families, access_type=AccessType.read_only()
        )
        parts: dict[str, dict[bytes, bytes]] = {}
        for name in names:
            part = database.get_column_family(name)
            parts[name] = dict(part.items())
            part.close()
        database.close()
    except Exception as error:  # rocksdict has no class of its own for what RocksDB says
        raise DiskFailed(folder, OSError(f"RocketMQ's settings there cannot be read: {error}")) from error
    members = {key.decode(): value for key, value in parts.get(_DEFAULT, {}).items()}
    forbidden = {key.decode(): value for key, value in parts.get(_FORBIDDEN, {}).items()}
    return ConfigTable(parts.get(_VERSION, {}).get(_VERSION_KEY), members, forbidden)
