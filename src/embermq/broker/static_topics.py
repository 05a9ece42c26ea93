"""Requests for queues of static topics: asked of the queues that they are made of, and the answers put right.

    request ─→ which part ─→ its queue and offsets ─→ this broker, or that of the part ─→ answer ─→ static offsets

All other code knows ordinary queues only. A request that says `lo=false` is about one of those, also of a static topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from embermq.broker.pull_requests import COMMITS_OFFSET, MAY_WAIT
from embermq.broker.topics import BrokerTopics
from embermq.errors import ConnectionLost, EmberError, NotLeader, Refused
from embermq.format.command import ONEWAY, Command, decode_command, make_answer
from embermq.format.frame import MAX_FRAME_SIZE, FrameLimits, split_frames
from embermq.kernels.commands import SendCommand
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import Host
from embermq.model.queue_mapping import QueueMapping, QueuePart, find_part, part_after
from embermq.rpc.fields import I32, find_boolean, find_integer, read_integer
from embermq.rpc.outcome import make_refusal
from embermq.rpc.peer import Peer
from embermq.rpc.router import BatchHandler

log = logging.getLogger(__name__)

Forward = Callable[[str, str, Command], Awaitable[Command]]  # topic, broker and request; raises a TransportError
_Fields = Mapping[str, str]

_SHORT_SENDS: Final = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
_SENDS: Final = (RequestCode.SEND_MESSAGE, *_SHORT_SENDS)
_ANY_HEADER: Final = FrameLimits(header_size=MAX_FRAME_SIZE)  # the answer to a batch has all its ids there
_PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)


async def forward_nowhere(topic: str, broker: str, request: Command) -> Command:
    """Where no other broker can be reached."""
    raise ConnectionLost(f"broker {broker!r}, which has a part of topic {topic!r}, cannot be reached from here")


class _Asked(NamedTuple):
    """A request for a static queue that this broker leads."""

    peer: Peer
    request: Command
    mapping: QueueMapping
    queue: int

    @property
    def parts(self) -> tuple[QueuePart, ...]:
        return self.mapping.parts[self.queue]

    @property
    def begun(self) -> list[QueuePart]:
        """The parts whose static offsets are known."""
        return [part for part in self.parts if part.has_begun]


class StaticTopics:
    """Answers for static queues. All of it runs in the event loop."""

    def __init__(self, topics: BrokerTopics, hand_on: BatchHandler) -> None:
        self._mappings = topics.mappings
        self._hand_on = hand_on  # has ordinary requests answered
        self.forward: Forward = forward_nowhere  # asks another broker
        self._tasks: set[asyncio.Task[None]] = set()
        self._ways: dict[int, Callable[[_Asked], Awaitable[Command]]] = {
            **dict.fromkeys(_SENDS, self._send),
            **dict.fromkeys(_PULLS, self._pull),
            RequestCode.QUERY_CONSUMER_OFFSET: self._query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update_offset,
            RequestCode.GET_MAX_OFFSET: self._get_max,
            RequestCode.GET_MIN_OFFSET: self._get_min,
            RequestCode.GET_EARLIEST_STORE_TIME: self._get_earliest_time,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
        }

    def take(self, peer: Peer, requests: Sequence[Command]) -> Sequence[Command]:
        """Answer those for static queues; the others are given back."""
        if not self._mappings.all():
            return requests
        others = []
        for request in requests:
            mapping = self._mapping_of(request)
            if mapping is None:
                others.append(request)
                continue
            peer.owe(1)
            task = asyncio.get_running_loop().create_task(self._answer(peer, request, mapping))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return others

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _mapping_of(self, request: Command) -> QueueMapping | None:
        """The mapping of the static topic that a request is about; None if it is about ordinary queues."""
        if request.code not in self._ways:
            return None
        topic = request.sent.b if type(request) is SendCommand else request.fields.get(_names(request)[0], "")
        mapping = self._mappings.find(topic)
        if mapping is None or find_boolean(request.fields, "lo") is False:
            return None
        return mapping

    async def _answer(self, peer: Peer, request: Command, mapping: QueueMapping) -> None:
        try:
            queue = read_integer(request.fields, _names(request)[1], limit=I32)
            if queue < 0 and request.code in _SENDS:
                queue = next(iter(mapping.led()), queue)
            if not mapping.leads(queue):
                raise NotLeader(f"{mapping.topic}, static queue {queue}, has another leader; ask for the topic's route")
            answer = await self._ways[request.code](_Asked(peer, request, mapping, queue))
        except (Exception, asyncio.CancelledError) as error:
            if not isinstance(error, EmberError | asyncio.CancelledError):
                log.exception("static topic failed peer=%s code=%d topic=%s", peer.peer, request.code, mapping.topic)
            answer = make_refusal(request, error)
        finally:
            peer.settle(1)
        if not request.is_oneway:
            peer.send(answer)

    # -- one kind of request each

    async def _send(self, asked: _Asked) -> Command:
        leader = asked.parts[-1]
        answer = await self._ask(asked, leader)
        if "queueOffset" not in answer.fields:
            return answer
        offset = int(answer.fields["queueOffset"])
        static = leader.static_of(offset) if leader.has_begun else -1  # nobody knows yet
        return _changed(answer, {"queueId": str(asked.queue), "queueOffset": str(static)})

    async def _pull(self, asked: _Asked) -> Command:
        fields = asked.request.fields
        offset = read_integer(fields, "queueOffset")
        flag = find_integer(fields, "sysFlag", limit=I32) or 0
        if flag & COMMITS_OFFSET:
            await self._commit(asked, find_integer(fields, "commitOffset") or 0)
        part, offset = _readable(asked.parts, offset)
        is_last = part == asked.parts[-1]
        flag &= ~COMMITS_OFFSET if is_last else ~(COMMITS_OFFSET | MAY_WAIT)
        changes = {"queueOffset": str(part.own_of(offset)), "sysFlag": str(flag)}
        limit = find_integer(fields, "maxMsgNums", limit=I32)
        if part.has_ended and limit:
            changes["maxMsgNums"] = str(max(1, min(limit, part.end - part.own_of(offset))))
        answer = await self._ask(asked, part, changes)
        return _pulled(asked, part, answer) if "nextBeginOffset" in answer.fields else answer

    async def _query_offset(self, asked: _Asked) -> Command:
        """The offset of a group in the newest part that it has come to."""
        begun = asked.begun
        if len(begun) == 1 and begun[0].static_begin == 0:
            return _with_offset(await self._ask(asked, begun[0]), begun[0])
        for part in reversed(begun):
            answer = await self._ask(asked, part, {"setZeroIfNotFound": "false"})
            if answer.code != ResponseCode.QUERY_NOT_FOUND:
                return _with_offset(answer, part)
        remark = f"the group has no offset of static queue {asked.queue} of topic {asked.mapping.topic!r} yet"
        return make_answer(asked.request, ResponseCode.QUERY_NOT_FOUND, remark=remark)

    async def _update_offset(self, asked: _Asked) -> Command:
        return await self._commit(asked, read_integer(asked.request.fields, "commitOffset"))

    async def _commit(self, asked: _Asked, offset: int) -> Command:
        part = find_part(asked.parts, offset)
        changes = {"commitOffset": str(part.own_of(offset))}
        return await self._ask(asked, part, changes, code=RequestCode.UPDATE_CONSUMER_OFFSET)

    async def _get_max(self, asked: _Asked) -> Command:
        newest = asked.begun[-1]
        return _with_offset(await self._ask(asked, newest), newest)

    async def _get_min(self, asked: _Asked) -> Command:
        return _with_offset(await self._ask(asked, asked.begun[0]), asked.begun[0])

    async def _get_earliest_time(self, asked: _Asked) -> Command:
        return await self._ask(asked, asked.begun[0])

    async def _search(self, asked: _Asked) -> Command:
        """The first part that has a message of the time, or behind it, has the answer."""
        for part in asked.begun:
            answer = await self._ask(asked, part)
            found = find_integer(answer.fields, "offset")
            if found is None or found < 0 or (part.has_ended and found >= part.end):
                continue
            return _with_offset(answer, part)
        newest = asked.begun[-1]
        return make_answer(asked.request, fields={"offset": str(newest.static_end)})

    async def _ask(
        self, asked: _Asked, part: QueuePart, changes: _Fields | None = None, *, code: int | None = None
    ) -> Command:
        """What the broker of a part answers to the same request about its own queue."""
        request = asked.request
        _, queue_name = _names(request)
        fields = {**request.fields, queue_name: str(part.queue), "lo": "false", **(changes or {})}
        inner = Command(
            request.code if code is None else code,
            fields,
            request.body,
            request.opaque,
            request.flag & ~ONEWAY,
            request.remark,
            request.language,
            request.version,
            request.form,
        )
        if part.broker != asked.mapping.broker:
            return await self._ask_other(asked, part, inner)
        listener = _Listener(asked.peer, inner.opaque)
        self._hand_on(listener, [inner])
        answer = await listener.answer
        return Command(
            answer.code, answer.fields, answer.body, request.opaque, answer.flag, answer.remark, form=request.form
        )

    async def _ask_other(self, asked: _Asked, part: QueuePart, inner: Command) -> Command:
        answer = await self.forward(asked.mapping.topic, part.broker, inner)
        if answer.code == ResponseCode.SYSTEM_ERROR:
            raise Refused(answer.code, answer.remark, asked=f"a part of {asked.mapping.topic!r} at {part.broker!r}")
        return make_answer(asked.request, answer.code, answer.fields, answer.data, remark=answer.remark)


class _Listener:
    """Stands for the peer of a request that we ask ourselves, and keeps the answer."""

    def __init__(self, peer: Peer, opaque: int) -> None:
        self.answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self._peer = peer
        self._opaque = opaque

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._peer

    def __hash__(self) -> int:
        return hash(self._peer)  # who is noted as the sender of something is the peer

    @property
    def peer(self) -> Host:
        return self._peer.peer

    @property
    def local(self) -> Host:
        return self._peer.local

    @property
    def is_closed(self) -> bool:
        return self._peer.is_closed

    def send(self, command: Command) -> None:
        if not command.is_answer or command.opaque != self._opaque:
            self._peer.send(command)
        elif not self.answer.done():
            self.answer.set_result(command)

    def write(self, *parts: bytes | memoryview) -> None:
        frames, _ = split_frames(b"".join(parts), _ANY_HEADER)
        for frame in frames:
            self.send(decode_command(frame))

    async def call(self, request: Command, *, timeout_s: float) -> Command:
        return await self._peer.call(request, timeout_s=timeout_s)

    def owe(self, count: int) -> None:
        self._peer.owe(count)

    def settle(self, count: int) -> None:
        self._peer.settle(count)

    def close(self) -> None:
        self._peer.close()


def _names(request: Command) -> tuple[str, str]:
    """What the fields of topic and queue are called."""
    return ("b", "e") if request.code in _SHORT_SENDS else ("topic", "queueId")


def _readable(parts: Sequence[QueuePart], offset: int) -> tuple[QueuePart, int]:
    """The part to read from, and where: behind the end of one, the next one begins."""
    part = find_part(parts, offset)
    while part.has_ended and offset >= part.static_end and (following := part_after(parts, part)) is not None:
        part, offset = following, following.static_begin
    return part, offset


def _pulled(asked: _Asked, part: QueuePart, answer: Command) -> Command:
    """The answer to a pull, with static offsets."""
    fields = answer.fields
    following, low, high = (int(fields[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset"))
    next_static = part.static_of(min(following, part.end) if part.has_ended else following)
    code = answer.code
    later = part_after(asked.parts, part)
    if code != ResponseCode.SUCCESS and later is not None:
        if next_static >= part.static_end:
            next_static = later.static_begin
        code = ResponseCode.PULL_RETRY_IMMEDIATELY  # there is more, whatever became of this part
    changes = {
        "nextBeginOffset": str(next_static),
        "minOffset": str(part.static_of(max(low, part.begin))),
        "maxOffset": str(max(part.static_of(high), asked.begun[-1].static_end)),
        "offsetDelta": str(part.static_begin - part.begin),
    }
    return _changed(answer, changes, code=code)


def _with_offset(answer: Command, part: QueuePart) -> Command:
    """An answer whose offset is one of `part`, with the static one."""
    if answer.code != ResponseCode.SUCCESS:
        return answer
    return _changed(answer, {"offset": str(part.static_of(int(answer.fields["offset"])))})


def _changed(answer: Command, changes: _Fields, *, code: int | None = None) -> Command:
    return Command(
        answer.code if code is None else code,
        {**answer.fields, **changes},
        answer.body,
        answer.opaque,
        answer.flag,
        answer.remark,
        answer.language,
        answer.version,
        answer.form,
    )
