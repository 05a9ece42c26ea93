"""Half messages: how a message is hidden until its transaction ends, and what becomes of it then.

sent ─→ half topic, REAL_TOPIC and REAL_QID say where it belongs
           ├─ committed ───→ stored again where it belongs
           ├─ asked about ─→ stored again behind the other halves, TRANSACTION_CHECK_TIMES + 1
           └─ given up ────→ stored again in TRANS_CHECK_MAX_TIME_TOPIC
        and in all of these cases, and if it is rolled back, its offset goes into a done mark
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from embermq.broker.parking import Target, delay_level_of
from embermq.errors import IllegalMessage
from embermq.format.done_marks import encode_done_marks
from embermq.format.record import DraftFields, Record
from embermq.model.flags import SysFlag
from embermq.model.properties import (
    CHECK_IMMUNITY_TIME,
    PRODUCER_GROUP,
    REAL_QUEUE,
    REAL_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRAN_PREPARED_QUEUE_OFFSET,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    WAIT,
    check_characters,
    find_property,
    format_properties,
)
from embermq.model.topic import GIVEN_UP_TOPIC, HALF_DONE_TOPIC, HALF_TOPIC

HALF_QUEUE: Final = 0  # there is no other
CHECK_ROOM: Final = len(TRANSACTION_CHECK_TIMES) + 12  # that a half's properties must leave, for its checks
_HALF: Final = HALF_TOPIC.encode()
_DONE: Final = HALF_DONE_TOPIC.encode()
_GIVEN_UP: Final = GIVEN_UP_TOPIC.encode()
_DONE_PROPERTIES: Final = format_properties({WAIT: "true", TAGS: "d"})
_TIMERS: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
_END: Final = b"\x02"
_TOPIC, _QUEUE, _GROUP, _ID = REAL_TOPIC.encode(), REAL_QUEUE.encode(), PRODUCER_GROUP.encode(), UNIQ_KEY.encode()
_COPIED: Final = TRAN_PREPARED_QUEUE_OFFSET.encode()
_TIMES, _IMMUNITY = TRANSACTION_CHECK_TIMES.encode(), CHECK_IMMUNITY_TIME.encode()
_NOT_TRANSACTION: Final = ~SysFlag.TRANSACTION_MASK


class SentHalf(NamedTuple):
    """A half message as it was sent: what is needed to end its transaction without reading it again."""

    draft: DraftFields
    topic: str  # where it belongs
    queue: int
    group: str
    is_immune: bool  # its producer asked for time before the first question

    @property
    def size(self) -> int:
        """Bytes that are kept of it, about."""
        return len(self.draft[2]) + len(self.draft[3])

    def committed_draft(self, position: int) -> DraftFields:
        """The message as consumers see it; `position` is that of the half message."""
        _, _, body, properties, flag, sys_flag, born_time, born_host, reconsume_times, _ = self.draft
        flags = sys_flag | SysFlag.COMMITTED
        place = self.topic.encode(), self.queue
        return (*place, body, properties, flag, flags, born_time, born_host, reconsume_times, position)


class Half(NamedTuple):
    """A half message, and what it says of its transaction."""

    record: Record
    topic: str  # where it belongs
    queue: int
    group: str  # of the producers that know how it ended
    unique_id: str

    @property
    def checks(self) -> int:
        """How often its producers were asked."""
        return _number(find_property(self.record.properties, _TIMES)) or 0

    @property
    def immunity_ms(self) -> int | None:
        """How long nobody may ask, if its producer said so."""
        seconds = _number(find_property(self.record.properties, _IMMUNITY))
        return None if seconds is None else seconds * 1000

    @property
    def copied_offset(self) -> int | None:
        """The offset of what it is a copy of; RocketMQ's brokers tell it of those that may not be asked about yet."""
        return _number(find_property(self.record.properties, _COPIED), most_digits=18)

    @property
    def identity(self) -> tuple[str, int]:
        """What it has in common with its copies."""
        return self.unique_id, self.record.born_time


def is_transactional(properties: Mapping[str, str], reconsume_times: int) -> bool:
    """Whether a message that was sent with these properties begins a transaction; not if it is only retried."""
    is_marked = properties.get(TRANSACTION_PREPARED, "").lower() == "true"
    return is_marked and not (reconsume_times > 0 and delay_level_of(properties) > 0)


def hide(target: Target, unique_id: str, *, group: str) -> Target:
    """Where a transactional message of a producer `group` waits for its end.

    Raises IllegalMessage for one that asks for a delay, too, or says of no group that it can be asked; a group that
    cannot be written down is an IllegalProperty.
    """
    properties = target.properties
    if not (properties.get(PRODUCER_GROUP) or group):
        raise IllegalMessage(f"a transactional message for topic {target.topic!r} without a producer group")
    if delay_level_of(properties) > 0 or any(name in properties for name in _TIMERS):
        raise IllegalMessage(
            f"a transactional message for topic {target.topic!r} asks for a delay; send it without one of the two"
        )
    check_characters(PRODUCER_GROUP, group)
    hidden = {**properties, PRODUCER_GROUP: properties.get(PRODUCER_GROUP) or group, TRANSACTION_ID: unique_id}
    hidden |= {REAL_TOPIC: target.topic, REAL_QUEUE: str(target.queue)}
    return Target(HALF_TOPIC, HALF_QUEUE, hidden)


def read_half(record: Record) -> Half | None:
    """The half message in a record; None if it is none."""
    properties = record.properties
    topic, group = find_property(properties, _TOPIC), find_property(properties, _GROUP)
    queue = _number(find_property(properties, _QUEUE))
    if record.topic != HALF_TOPIC or not topic or not group or queue is None:
        return None
    unique_id = find_property(properties, _ID) or b""
    return Half(record, _text(topic), queue, _text(group), _text(unique_id))


def committed_draft(half: Half) -> DraftFields:
    """The message as consumers see it."""
    record = half.record
    flags = record.sys_flag & _NOT_TRANSACTION | SysFlag.COMMITTED
    place = half.topic.encode(errors="surrogateescape"), half.queue
    return _stored_again(record, *place, properties=_ended(record.properties), sys_flag=flags, prepared=record.position)


def checked_draft(half: Half, checks: int) -> DraftFields:
    """The half message as it waits for the answer of a producer."""
    properties = half.record.property_map() | {TRANSACTION_CHECK_TIMES: str(checks)}
    return _stored_again(half.record, _HALF, HALF_QUEUE, properties=format_properties(properties))


def given_up_draft(record: Record) -> DraftFields:
    """A message whose end nobody told."""
    return _stored_again(record, _GIVEN_UP, 0, properties=_ended(record.properties))


def resumed_draft(record: Record) -> DraftFields:
    """A message that was given up, as a half message again."""
    properties = record.property_map() | {TRANSACTION_CHECK_TIMES: "0"}
    return _stored_again(record, _HALF, HALF_QUEUE, properties=format_properties(properties))


def done_drafts(
    offsets: Iterable[int], *, max_size: int, now_ms: int, host: bytes
) -> tuple[list[DraftFields], list[int]]:
    """Done marks for these offsets, and the largest offset that each names."""
    bodies = encode_done_marks(offsets, max_size=max_size)
    drafts: list[DraftFields] = [
        (_DONE, HALF_QUEUE, body, _DONE_PROPERTIES, 0, 0, now_ms, host, 0, 0) for body, _ in bodies
    ]
    return drafts, [highest for _, highest in bodies]


def _stored_again(
    record: Record, topic: bytes, queue: int, *, properties: bytes, sys_flag: int | None = None, prepared: int = 0
) -> DraftFields:
    return (
        topic, queue, record.body, properties, record.flag, record.sys_flag if sys_flag is None else sys_flag,
        record.born_time, record.born_host, record.reconsume_times, prepared,
    )  # fmt: skip


def _ended(properties: bytes) -> bytes:
    """Properties with their last separator, which a record may do without."""
    return properties if properties.endswith(_END) or not properties else properties + _END


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def _number(value: bytes | None, *, most_digits: int = 9) -> int | None:
    """A number that is not negative; None for anything else."""
    return int(value) if value and value.isdigit() and len(value) <= most_digits else None
