"""What an archive knows of itself: whose messages it holds, and how far it is."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Self

from embermq.archive.errors import ArchiveDamaged

VERSION: Final = 1
_ID: Final = re.compile(r"[0-9a-f]{32}")


class LastRecord(NamedTuple):
    """The last record of the log that is in the archive, by which the store is known again."""

    position: int
    crc: int  # of all its bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose messages an archive holds; fixed when it is made."""

    archive: str  # an id that no other archive has
    broker: str
    topics: tuple[str, ...] | None = None  # by name, sorted; None: see `pattern`
    pattern: str | None = None  # a regular expression for whole names; None: every topic
    system_topics: bool = False

    def describe(self) -> str:
        """Which topics it holds, for people."""
        if self.topics is not None:
            return f"topics {', '.join(self.topics)}"
        what = f"topics like {self.pattern!r}" if self.pattern is not None else "all topics"
        return f"{what}, also of the system" if self.system_topics else what


@dataclass(frozen=True, slots=True)
class ArchiveState:
    """How far an archive is: it holds all wanted messages of the log [begin, end), in batches 0 to `batch`."""

    origin: Origin
    batch: int  # the last; -1 before the first
    begin: int
    end: int
    last: LastRecord | None = None

    def to_json(self) -> dict[str, Any]:
        facts = asdict(self)
        facts["version"] = VERSION
        facts["last"] = self.last._asdict() if self.last is not None else None
        return facts

    @classmethod
    def from_json(cls, facts: Any, place: str) -> Self:
        """What `to_json` gave. Raises ArchiveDamaged with the place that it was read from."""
        try:
            if facts["version"] != VERSION:
                raise ArchiveDamaged(place, f"version {facts['version']!r}, {VERSION} is known; use a newer EmberMQ")
            origin, last = facts["origin"], facts["last"]
            topics = origin["topics"]
            state = cls(
                Origin(
                    origin["archive"],
                    origin["broker"],
                    tuple(topics) if topics is not None else None,
                    origin["pattern"],
                    bool(origin["system_topics"]),
                ),
                int(facts["batch"]),
                int(facts["begin"]),
                int(facts["end"]),
                LastRecord(int(last["position"]), int(last["crc"])) if last is not None else None,
            )
            if not _ID.fullmatch(state.origin.archive):
                raise ValueError(f"id {state.origin.archive!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise ArchiveDamaged(place, f"what it says of itself cannot be read: {error!r}") from error
        else:
            return state


def decode_json(data: str | bytes, place: str) -> Any:
    """Raises ArchiveDamaged."""
    try:
        return json.loads(data)
    except ValueError as error:
        raise ArchiveDamaged(place, f"no JSON: {error}") from error
