"""The pieces of a read. Each is plain data: it travels to whoever reads it.

A LogSplit is a stretch of the log, and holds the records that begin in it. A QueueSplit is parts of queues, whose
records are found through the queues' entries. A RecordSplit is single records, found through the key index. A PullSplit
is parts of queues, too, but of a broker that gives nothing but messages.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

BROKER_SCHEME: Final = "embermq://"  # and `host:port` of a broker whose files are read
STORAGE: Final = "storage"  # an option of places: arguments for a file system of fsspec
PULL_SCHEME: Final = "rocketmq://"  # of one whose messages are pulled


class LogFile(NamedTuple):
    """One file of the log: where it is, the position of its first byte, and its size."""

    path: str
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Secret(str):
    """A text that is not shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'"


def shown_address(address: str) -> str:
    """An address for people: without the keys that may be in it, and without parameters."""
    scheme, mark, rest = address.partition("://")
    if not mark:
        return address
    path = rest.partition("?")[0]
    host, slash, inside = path.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{inside}".rstrip("/")


class StorePlace(NamedTuple):
    """Where a store is: a local path or an address, and what its file system wants to know besides."""

    address: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The address for people."""
        return shown_address(self.address)

    @property
    def is_broker(self) -> bool:
        """Whether the files are read through a broker."""
        return self.address.startswith(BROKER_SCHEME)


def stored_at(address: str, storage: str | None = None) -> StorePlace:
    """A place of files, and what their file system wants to know besides, as the JSON text of an object."""
    return StorePlace(address, ((STORAGE, Secret(storage)),) if storage is not None else ())


class QueuePart(NamedTuple):
    """The messages [begin, end) of one queue. Every one of them was there when this was planned."""

    topic: str
    queue: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class LogSplit:
    """The records that begin at a position in [begin, end)."""

    place: StorePlace
    files: tuple[LogFile, ...]  # that the stretch touches, in order
    begin: int
    end: int
    log_end: int  # no byte from here on is looked at
    is_exact: bool = False  # a record begins where it begins, and need not be looked for: what is no record is damage


@dataclass(frozen=True, slots=True)
class QueueSplit:
    """Messages of queues."""

    place: StorePlace
    parts: tuple[QueuePart, ...]
    files: tuple[LogFile, ...]  # of the whole log
    log_end: int


@dataclass(frozen=True, slots=True)
class RecordSplit:
    """The records at these positions, which rise."""

    place: StorePlace
    positions: tuple[int, ...]
    files: tuple[LogFile, ...]
    log_end: int


@dataclass(frozen=True, slots=True)
class PullSplit:
    """Messages of queues, pulled from their broker."""

    place: StorePlace
    broker: str
    group: str  # that pulls; no offset of it moves
    parts: tuple[QueuePart, ...]
    files: tuple[LogFile, ...] = ()  # nobody knows them
    log_end: int = 0


Split: TypeAlias = LogSplit | QueueSplit | RecordSplit | PullSplit
