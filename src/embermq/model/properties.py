r"""Properties of a message: their reserved names and their text form.

    name 0x01 value 0x02   name 0x01 value 0x02   …

There is no escaping. The last 0x02 may be missing. A piece without a name, without a
value or without 0x01 counts for nothing; of two pieces with one name the later counts.
A value may hold 0x01.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from embermq.errors import IllegalProperty

NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"

KEYS: Final = "KEYS"  # what a message is found by, separated by blanks
TAGS: Final = "TAGS"  # what consumers filter by
WAIT: Final = "WAIT"  # whether the sender waits until the message is on disk
DELAY: Final = "DELAY"  # a delay level, from 1
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"  # where a parked message will go
REAL_QUEUE: Final = "REAL_QID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
BUYER_ID: Final = "BUYER_ID"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
UNIQ_KEY: Final = "UNIQ_KEY"  # the id that the producer gave
EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
DUP_INFO: Final = "DUP_INFO"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
INNER_NUM: Final = "INNER_NUM"  # messages in an inner batch
INNER_BASE: Final = "INNER_BASE"  # offset of the first of them
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"  # light queues to file the message under, too
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"  # its offsets there
CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_ID: Final = "__transactionId__"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
INSTANCE_ID: Final = "INSTANCE_ID"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
CLUSTER: Final = "CLUSTER"
MSG_TYPE: Final = "MSG_TYPE"
POP_CK: Final = "POP_CK"
POP_CK_OFFSET: Final = "POP_CK_OFFSET"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
SHARDING_KEY: Final = "__SHARDINGKEY"
FORWARD_QUEUE: Final = "PROPERTY_FORWARD_QUEUE_ID"
REDIRECT: Final = "REDIRECT"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
PROPERTY_CRC: Final = "__CRC32#"
TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."  # stays with the client, never stored

# Names through which a user asks for something; every other name above is the system's own.
ASKABLE: Final = frozenset(
    {
        WAIT, DELAY, BUYER_ID, TTL, CORRELATION_ID, REPLY_TO_CLIENT, MSG_TYPE, INSTANCE_ID,
        TRACE_ON, TRACE_CONTEXT, INNER_MULTI_DISPATCH, CHECK_IMMUNITY_TIME, SHARDING_KEY,
        TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_DEL_UNIQKEY,
    }
)  # fmt: skip

# Names that users may not set: the system writes them, or `tags` and `keys` of the message stand for them.
RESERVED: Final = frozenset(
    {
        KEYS, TAGS, RETRY_TOPIC, REAL_TOPIC, REAL_QUEUE, TRANSACTION_PREPARED, PRODUCER_GROUP,
        MIN_OFFSET, MAX_OFFSET, ORIGIN_MESSAGE_ID, TRANSFER_FLAG, CORRECTION_FLAG, MQ2_FLAG,
        RECONSUME_TIME, MAX_RECONSUME_TIMES, MSG_REGION, UNIQ_KEY, EXTEND_UNIQ_INFO, DUP_INFO,
        CONSUME_START_TIME, INNER_NUM, INNER_BASE, INNER_MULTI_QUEUE_OFFSET,
        TRAN_PREPARED_QUEUE_OFFSET, TRANSACTION_ID, TRANSACTION_CHECK_TIMES, ARRIVE_TIME,
        PUSH_REPLY_TIME, CLUSTER, POP_CK, POP_CK_OFFSET, FIRST_POP_TIME, FORWARD_QUEUE, REDIRECT,
        TIMER_OUT_MS, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS, TIMER_ROLL_TIMES, TIMER_DELAY_LEVEL,
        BORN_HOST, BORN_TIMESTAMP, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, PROPERTY_CRC,
    }
)  # fmt: skip


def format_properties(properties: Mapping[str, str]) -> bytes:
    """The text form of `properties`, in their order. Does not check them: see check_property."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()]).encode()


def parse_properties(data: bytes) -> dict[str, str]:
    """The properties that `data` holds. Raises ValueError if it is not UTF-8."""
    found: dict[str, str] = {}
    for piece in data.decode().split("\x02"):
        name, _, value = piece.partition("\x01")
        if name and value:
            found[name] = value
    return found


def _fences(name: bytes) -> tuple[bytes, bytes]:
    """What stands before the value of `name`: inside of properties, and at their start."""
    return b"\x02" + name + b"\x01", name + b"\x01"


_KNOWN = {name.encode(): _fences(name.encode()) for name in ASKABLE | RESERVED}


def find_property(data: bytes, name: bytes) -> bytes | None:
    """The value of one property, by the rules of parse_properties but without building it all."""
    try:
        inside, first = _KNOWN[name]
    except KeyError:
        if not name:
            return None
        inside, first = _fences(name)
    at = data.rfind(inside)
    while at >= 0:
        begin = at + len(inside)
        end = data.find(b"\x02", begin)
        if end < 0:
            end = len(data)
        if end > begin:
            return data[begin:end]
        at = data.rfind(inside, 0, at)  # no value, so an earlier one counts
    if data.startswith(first):
        begin = len(first)
        end = data.find(b"\x02", begin)
        return data[begin : end if end >= 0 else len(data)] or None
    return None


def check_property(name: str, value: str) -> None:
    """Raise IllegalProperty unless a user may set `name` to `value` and will read it back so."""
    if not name or not value:
        raise IllegalProperty(name, "an empty name or value would be lost; leave the property out")
    check_characters(name, value)
    if name in RESERVED or name.startswith(TRANSIENT_PREFIX):
        raise IllegalProperty(name, "the name is reserved; use another, or `tags` and `keys` of the message")


def check_characters(name: str, value: str) -> None:
    """Raise IllegalProperty if a property would not be read back as it is: it would end early, or is no UTF-8."""
    if NAME_END in name or VALUE_END in name or NAME_END in value or VALUE_END in value:
        raise IllegalProperty(name, "name and value may not hold the characters 0x01 and 0x02")
    try:
        f"{name}{value}".encode()
    except UnicodeEncodeError as error:
        raise IllegalProperty(name, f"no UTF-8 for it: {error.reason}") from error
