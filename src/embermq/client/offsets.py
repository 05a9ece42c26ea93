"""Offsets at a broker: where a queue begins and ends, what it held at a time, how far a group is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from embermq.client.answers import check_answer
from embermq.client.assignment import name_of
from embermq.client.connections import Connections
from embermq.errors import Refused
from embermq.format.command import Command
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import milliseconds_of
from embermq.model.topic import RETRY_PREFIX

Start = Literal["earliest", "latest"] | datetime


class Offsets:
    """Asks brokers about offsets."""

    def __init__(self, connections: Connections, *, timeout_s: float) -> None:
        self._connections = connections
        self._timeout_s = timeout_s

    async def min(self, address: str, queue: BrokerQueue) -> int:
        """The first offset that is kept."""
        return await self._ask(RequestCode.GET_MIN_OFFSET, address, queue)

    async def max(self, address: str, queue: BrokerQueue) -> int:
        """The next offset to be written; what lies before it may not be readable for a moment yet."""
        return await self._ask(RequestCode.GET_MAX_OFFSET, address, queue, {"committed": "false"})

    async def at(self, address: str, queue: BrokerQueue, time: datetime) -> int:
        """The offset of the first message that was stored at `time` or later."""
        fields = {"timestamp": str(milliseconds_of(time)), "boundaryType": "LOWER"}
        return await self._ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, address, queue, fields)

    async def start(self, address: str, queue: BrokerQueue, start: Start) -> int:
        """The offset that `start` stands for."""
        match start:
            case "earliest":
                return await self.min(address, queue)
            case "latest":
                return await self.max(address, queue)
            case datetime():
                return await self.at(address, queue, start)

    async def begin(self, address: str, queue: BrokerQueue, *, group: str, start: Start) -> int:
        """Where `group` goes on; where `start` says if it never read this queue."""
        # Without the last field RocketMQ's brokers answer 0 for a young queue, whatever the group wants.
        fields = {"consumerGroup": group, "setZeroIfNotFound": "false"}
        answer = await self._call(RequestCode.QUERY_CONSUMER_OFFSET, address, queue, fields)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            # Retries are for this group alone; none of them may be skipped.
            return await self.start(address, queue, "earliest" if queue.topic.startswith(RETRY_PREFIX) else start)
        return _offset_of(check_answer(answer, f"offset of group {group!r}", topic=queue.topic, group=group), queue)

    async def commit(self, address: str, queue: BrokerQueue, *, group: str, offset: int) -> None:
        """Tell the broker, and wait until it knows."""
        fields = {"consumerGroup": group, "commitOffset": str(offset)}
        answer = await self._call(RequestCode.UPDATE_CONSUMER_OFFSET, address, queue, fields)
        check_answer(answer, f"commit of {name_of(queue)} by {group!r}", topic=queue.topic, group=group)

    async def tell_commit(self, address: str, queue: BrokerQueue, *, group: str, offset: int) -> None:
        """Tell the broker; the next time makes up for one that is lost."""
        fields = {"consumerGroup": group, "commitOffset": str(offset)}
        await self._connections.tell(address, RequestCode.UPDATE_CONSUMER_OFFSET, _fields(queue, fields))

    async def _ask(
        self, code: RequestCode, address: str, queue: BrokerQueue, fields: Mapping[str, str] | None = None
    ) -> int:
        answer = await self._call(code, address, queue, fields or {})
        return _offset_of(check_answer(answer, f"offsets of {name_of(queue)}", topic=queue.topic), queue)

    async def _call(self, code: RequestCode, address: str, queue: BrokerQueue, fields: Mapping[str, str]) -> Command:
        return await self._connections.call(address, code, _fields(queue, fields), timeout_s=self._timeout_s)


def _fields(queue: BrokerQueue, fields: Mapping[str, str]) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue), "bname": queue.broker, **fields}


def _offset_of(answer: Command, queue: BrokerQueue) -> int:
    try:
        return int(answer.fields["offset"])
    except (KeyError, ValueError) as error:
        raise Refused(
            answer.code, f"no offset in the answer: {error!r}", asked=f"offsets of {name_of(queue)}"
        ) from error
