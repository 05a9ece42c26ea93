"""A message as it is sent, and as it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple, Protocol, overload

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class Host(NamedTuple):
    """An address and a port, as text and number."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Message:
    """What a producer hands over.

    `tags` is what consumers filter by, `keys` is what the message can be found by,
    `queue` fixes the queue; without it the topic's queues take turns.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=lambda: NO_PROPERTIES)
    queue: int | None = None
    flag: int = 0


class Receipt(NamedTuple):
    """Where a message went. Times are kept as milliseconds and ids as their parts; both are made when asked for."""

    topic: str
    queue: int
    offset: int
    position: int
    store_time_ms: int
    store_host_hex: str

    @property
    def message_id(self) -> str:
        """The id that tells the broker's address and the position in its log."""
        return f"{self.store_host_hex}{self.position:016X}"

    @property
    def store_time(self) -> datetime:
        return time_of(self.store_time_ms)


class Place(Protocol):
    """Whatever knows where a message went."""

    @property
    def topic(self) -> str: ...
    @property
    def queue(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def position(self) -> int: ...


class Receipts(Sequence[Receipt]):
    """The receipts of a batch, in its order; each is made when it is looked at."""

    __slots__ = ("_places", "_store_host_hex", "_store_time_ms")

    def __init__(self, places: Sequence[Place], store_time_ms: int, store_host_hex: str) -> None:
        self._places = places
        self._store_time_ms = store_time_ms
        self._store_host_hex = store_host_hex

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Receipt: ...
    @overload
    def __getitem__(self, index: slice) -> list[Receipt]: ...
    def __getitem__(self, index: int | slice) -> Receipt | list[Receipt]:
        if isinstance(index, slice):
            return [self._make(place) for place in self._places[index]]
        return self._make(self._places[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return repr(list(self))

    def _make(self, place: Place) -> Receipt:
        return Receipt(
            place.topic, place.queue, place.offset, place.position, self._store_time_ms, self._store_host_hex
        )


class StoredMessage(NamedTuple):
    """A message as it lies in the store."""

    topic: str
    queue: int
    offset: int
    position: int
    size: int  # of its record in the log
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    flag: int
    sys_flag: int
    born_time_ms: int
    born_host: Host
    store_time_ms: int
    store_host: Host
    reconsume_times: int
    message_id: str

    @property
    def born_time(self) -> datetime:
        return time_of(self.born_time_ms)

    @property
    def store_time(self) -> datetime:
        return time_of(self.store_time_ms)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def time_of(milliseconds: int) -> datetime:
    """The moment that `milliseconds` since 1970 stands for, in UTC."""
    return _EPOCH + milliseconds * _MILLISECOND


def milliseconds_of(time: datetime) -> int:
    """The milliseconds from 1970 to `time`; one without a time zone is local time."""
    return ((time if time.tzinfo else time.astimezone()) - _EPOCH) // _MILLISECOND
