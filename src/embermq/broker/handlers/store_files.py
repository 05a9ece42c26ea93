"""Raw bytes of the store's files, for those who read it as a whole: Spark. See docs/protocol.md."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from embermq.broker.shared_files import LogRange, SharedFiles
from embermq.errors import IllegalField
from embermq.format.command import Command, make_answer
from embermq.format.frame import MAX_FRAME_SIZE, MAX_HEADER_SIZE
from embermq.format.store_body import encode_folders, encode_queues
from embermq.model.codes import RequestCode, ResponseCode
from embermq.rpc.fields import find_boolean, read_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler
from embermq.store.archive_marks import ArchiveMark, is_archive, write_mark
from embermq.store.store import Store

_LONGEST_TARGET: Final = 1_000


class StoreFileHandlers:
    """Answers those who read files through the broker."""

    def __init__(self, store: Store, *, broker_name: str) -> None:
        self._store = store
        self._files = SharedFiles(store)
        self._broker_name = broker_name

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.LOOK_AT_STORE: self.look,
            RequestCode.LIST_STORE_FILES: self.list,
            RequestCode.READ_STORE_FILE: self.read,
            RequestCode.MARK_ARCHIVED: self.mark_archived,
        }

    def look(self, peer: Peer, request: Command) -> Command:
        """Tell how far the log may be read, and which messages queues have: all, or those of some topics."""
        topics = {name for name in request.fields.get("topics", "").split(";") if name}
        outline = self._store.outline()
        queues = encode_queues(each for each in outline.queues if not topics or each.topic in topics)
        fields = {
            "brokerName": self._broker_name,
            "logBegin": str(outline.log_begin),
            "logEnd": str(outline.log_end),
        }
        return make_answer(request, ResponseCode.SUCCESS, fields, _fitting(queues))

    async def list(self, peer: Peer, request: Command) -> Command:
        """Tell what is in a folder."""
        folder, is_deep = request.fields.get("folder", ""), find_boolean(request.fields, "deep") or False
        found = await asyncio.to_thread(self._files.list, folder, is_deep=is_deep)
        return make_answer(request, ResponseCode.SUCCESS, body=_fitting(encode_folders(found)))

    def read(self, peer: Peer, request: Command) -> Command | Coroutine[Any, Any, Command]:
        """Give bytes of a file: of the log from mapped memory, and at once if they are in memory."""
        path = read_text(request.fields, "path")
        begin, size = read_integer(request.fields, "begin"), read_integer(request.fields, "size")
        found = self._files.find_log(path, begin, size)
        if found is None:
            return self._read_other(request, path, begin, size)
        return _log_answer(request, found) if found.is_resident else self._fetch(request, found)

    async def mark_archived(self, peer: Peer, request: Command) -> Command:
        """Keep up to where the log is in an archive."""
        fields = request.fields
        archive, position = read_text(fields, "archive"), read_integer(fields, "position")
        if not is_archive(archive):
            raise IllegalField("archive", f"{archive[:100]!r}; 32 hexadecimal digits are wanted")
        if not 0 <= position <= self._store.dispatched:
            raise IllegalField("position", f"{position}; the log ends at {self._store.dispatched}")
        mark = ArchiveMark(archive, position, fields.get("target", "")[:_LONGEST_TARGET])
        await asyncio.to_thread(write_mark, self._store.path, mark)
        return make_answer(request, ResponseCode.SUCCESS)

    async def _fetch(self, request: Command, found: LogRange) -> Command:
        await asyncio.to_thread(found.fetch)
        return _log_answer(request, found)

    async def _read_other(self, request: Command, path: str, begin: int, size: int) -> Command:
        data = await asyncio.to_thread(self._files.read, path, begin, size)
        return make_answer(request, ResponseCode.SUCCESS, body=data)


def _log_answer(request: Command, found: LogRange) -> Command:
    return make_answer(request, ResponseCode.SUCCESS, body=(found.select(),))


def _fitting(body: bytes) -> bytes:
    """A body, if a frame can hold it."""
    limit = MAX_FRAME_SIZE - MAX_HEADER_SIZE
    if len(body) > limit:
        raise IllegalField("folder", f"the answer has {len(body)} bytes, limit {limit}; ask for less at a time")
    return body
