"""The files of a store, read through its broker.

A store's folders are listed once, when they are first looked at: what is asked for afterwards is as it was then.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from embermq.client.blocking import PATIENCE_S, BrokerLine
from embermq.client.client import make_credentials, make_tls_context
from embermq.client.store_reading import BrokerFile, BrokerStore
from embermq.scan.file_system import LOCAL_READ_SIZE, Found, OpenFile, OwnerState
from embermq.scan.splits import BROKER_SCHEME, Secret, StorePlace

ACCESS_KEY: Final = "accessKey"
SECRET_KEY: Final = "secretKey"
TLS: Final = "tls"
PATIENCE: Final = "patience"  # seconds

_QUEUE_FOLDERS: Final = ("consumequeue", "batchconsumequeue")  # with so many folders that they are listed at once
_BLOCK: Final = 64 << 10  # bytes: few are not worth a request
_MOST_BLOCKS: Final = 8


def broker_place(
    address: str,
    *,
    access_key: str | None = None,
    secret_key: str | None = None,
    tls: bool = False,
    patience_s: float = PATIENCE_S,
    scheme: str = BROKER_SCHEME,
) -> StorePlace:
    """The place of the store of the broker at `address`, which is `host:port`."""
    options = [(PATIENCE, str(patience_s))]
    if access_key is not None and secret_key is not None:
        options += [(ACCESS_KEY, access_key), (SECRET_KEY, Secret(secret_key))]
    return StorePlace(f"{scheme}{address}", (*options, *([(TLS, "true")] if tls else ())))


@lru_cache(maxsize=64)
def broker_line(place: StorePlace) -> BrokerLine:
    """The connections to the broker of a place; the same for all who ask."""
    options = dict(place.options)
    return BrokerLine(
        place.address.partition("://")[2],
        credentials=make_credentials(options.get(ACCESS_KEY), options.get(SECRET_KEY)),
        tls=make_tls_context(options.get(TLS) == "true"),
        patience_s=float(options.get(PATIENCE, PATIENCE_S)),
    )


def open_broker_store(place: StorePlace) -> BrokerStore:
    """The store of a place, for what is no file."""
    return BrokerStore(broker_line(place))


class BrokerFiles:
    """One store. Raises what the client does: NotPermitted, NotSupported, ReadLost."""

    is_local = False
    read_size = LOCAL_READ_SIZE

    def __init__(self, place: StorePlace) -> None:
        self._store = open_broker_store(place)
        self._listed: dict[str, tuple[Found, ...]] = {}

    def list(self, folder: str) -> Sequence[Found]:
        if folder not in self._listed:
            for path, entries in self._store.list(folder, is_deep=folder in _QUEUE_FOLDERS).items():
                self._listed["/".join(filter(None, (folder, path)))] = tuple(Found(*entry) for entry in entries)
        return self._listed.get(folder, ())

    def open(self, path: str) -> OpenFile:
        return _BrokerFile(self._store.open(path))

    def ask_owner(self) -> OwnerState | None:
        look = self._store.look()
        return OwnerState(look.log_end, {(span.topic, span.queue): (span.begin, span.end) for span in look.queues})


class _BrokerFile:
    """A file of which small parts are read in blocks, and the last few blocks are kept."""

    def __init__(self, file: BrokerFile) -> None:
        self._file = file
        self._blocks: dict[int, bytes] = {}

    def read_into(self, buffer: memoryview, at: int) -> int:
        begin = at - at % _BLOCK
        if at + len(buffer) > begin + _BLOCK:
            return self._file.read_into(buffer, at)
        found = self._block(begin)[at - begin : at - begin + len(buffer)]
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()

    def _block(self, begin: int) -> bytes:
        block = self._blocks.get(begin)
        if block is None:
            place = bytearray(_BLOCK)
            block = bytes(place[: self._file.read_into(memoryview(place), begin)])
            if len(self._blocks) == _MOST_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[begin] = block
        return block
