"""The queues of any broker, RocketMQ's or ours, asked and pulled over plain blocking connections. It waits.

Messages of a known range are pulled by several requests at a time. Every offset of the range is accounted for: with its
record, or with the reason why the broker has none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from embermq.client.answers import check_answer, refusal_of
from embermq.client.blocking import BrokerLine
from embermq.client.pulling import make_fields, make_subscribed, read_offsets
from embermq.client.retry import Deadline
from embermq.errors import Refused
from embermq.format.command import Command
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode

PULL_COUNT: Final = 32  # messages that RocketMQ's brokers give at most, as they are set up
IN_FLIGHT: Final = 16  # pulls
DISPATCH_S: Final = 5.0  # how long a message that is counted may not be readable yet
_PAUSE_S: Final = 0.02


class Pulled(NamedTuple):
    """The messages [begin, end) of a queue: their records, one after the other, or why there are none."""

    begin: int
    end: int
    records: bytes
    reason: str = ""


class BrokerQueues:
    """Queues of one broker."""

    def __init__(self, line: BrokerLine, broker: str) -> None:
        self._line = line
        self._broker = broker

    def find_limits(self, queues: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
        """The first offset and the next one of each queue, given as topic and number. Raises ReadLost."""
        begins = self._ask_offsets(RequestCode.GET_MIN_OFFSET, queues, {})
        ends = self._ask_offsets(RequestCode.GET_MAX_OFFSET, queues, {"committed": "true"})
        return [(min(begin, end), end) for begin, end in zip(begins, ends, strict=True)]

    def find_times(self, queues: Sequence[tuple[str, int]], time_ms: int) -> list[int]:
        """The offset of the first message of each queue that was stored at a time or later. Raises ReadLost."""
        fields = {"timestamp": str(time_ms), "boundaryType": "LOWER"}
        return self._ask_offsets(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queues, fields)

    def find_progress(self, group: str, queues: Sequence[tuple[str, int]]) -> list[int | None]:
        """How far a group is in each queue; None where it never read. Raises ReadLost."""
        # Without the last field RocketMQ's brokers answer 0 for a young queue, whatever the group did.
        fields = {"consumerGroup": group, "setZeroIfNotFound": "false"}
        asked = [self._fields(topic, queue) | fields for topic, queue in queues]
        what = f"offsets of group {group!r}"
        answers = self._line.call_all(RequestCode.QUERY_CONSUMER_OFFSET, asked, what=what)
        return [
            None if answer.code == ResponseCode.QUERY_NOT_FOUND else _offset_of(answer, what, topic)
            for answer, (topic, _) in zip(answers, queues, strict=True)
        ]

    def iter_range(self, topic: str, queue: int, begin: int, end: int, *, group: str) -> Iterator[Pulled]:
        """The messages [begin, end) of a queue in their order, none left out. Raises ReadLost, or a refusal."""
        source = BrokerQueue(self._broker, topic, queue)
        stride = PULL_COUNT
        while begin < end:
            starts = range(begin, min(begin + stride * IN_FLIGHT, end), stride)
            pieces = [(start, min(start + stride, end)) for start in starts]
            fewest = stride
            for (first, last), answer in zip(pieces, self._pull(source, pieces, group), strict=True):
                for number, pulled in enumerate(self._complete(source, first, last, answer, group)):
                    yield pulled
                    if number == 0 and pulled.records:
                        fewest = min(fewest, pulled.end - first)
            # Large messages come in smaller numbers; so much at a time needs no second pull.
            stride = min(stride * 2, PULL_COUNT) if fewest == stride else max(fewest, 1)
            begin = pieces[-1][1]

    def _complete(self, queue: BrokerQueue, begin: int, end: int, answer: Command, group: str) -> Iterator[Pulled]:
        """What the broker has of [begin, end), the first of which came with `answer`."""
        what = f"offset {begin} of {queue.topic}/{queue.queue}"
        deadline = Deadline(DISPATCH_S)
        while True:
            next_offset, low, high = self._read(answer, what, queue, group)
            if answer.code == ResponseCode.SUCCESS:
                if next_offset <= begin:
                    raise Refused(answer.code, f"messages, but the next offset is {next_offset}", asked=what)
                yield Pulled(begin, min(next_offset, end), answer.data)
                begin = next_offset
            elif next_offset > begin:  # gone, or deleted just now
                reached = min(next_offset, end)
                yield Pulled(begin, reached, b"", f"{answer.remark or 'no reason given'}: it has [{low}, {high})")
                begin = reached
            elif deadline.has_passed or high < begin:
                yield Pulled(begin, end, b"", f"{answer.remark or 'no reason given'}: it has [{low}, {high})")
                return
            else:
                time.sleep(_PAUSE_S)
            if begin >= end:
                return
            (answer,) = self._pull(queue, [(begin, end)], group)

    def _read(self, answer: Command, what: str, queue: BrokerQueue, group: str) -> tuple[int, int, int]:
        if answer.code not in _OUTCOMES:
            raise refusal_of(answer, f"pull of {what} at {self._line.address}", topic=queue.topic, group=group)
        return read_offsets(answer, what)

    def _pull(self, queue: BrokerQueue, pieces: Sequence[tuple[int, int]], group: str) -> list[Command]:
        wanted = make_subscribed(queue.topic, None)
        asked = [
            make_fields(queue, begin, group=group, wanted=wanted, is_inline=True, limit=end - begin)
            for begin, end in pieces
        ]
        what = f"topic {queue.topic!r}, queue {queue.queue} from offset {pieces[0][0]} on"
        return self._line.call_all(RequestCode.PULL_MESSAGE, asked, what=what)

    def _ask_offsets(self, code: int, queues: Sequence[tuple[str, int]], more: dict[str, str]) -> list[int]:
        asked = [self._fields(topic, queue) | more for topic, queue in queues]
        what = "offsets of queues"
        answers = self._line.call_all(code, asked, what=what)
        return [_offset_of(answer, what, topic) for answer, (topic, _) in zip(answers, queues, strict=True)]

    def _fields(self, topic: str, queue: int) -> dict[str, str]:
        return {"topic": topic, "queueId": str(queue), "bname": self._broker}


_OUTCOMES: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


def _offset_of(answer: Command, what: str, topic: str) -> int:
    check_answer(answer, what, topic=topic)
    try:
        return int(answer.fields["offset"])
    except (KeyError, ValueError) as error:
        raise Refused(answer.code, f"no offset in the answer: {error!r}", asked=what) from error
