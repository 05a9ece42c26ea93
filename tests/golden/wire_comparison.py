"""Whether our answer is RocketMQ's: same code, same fields, same body, but for what cannot be the same.

ALLOWED is the whole list of that, by request code, with the reason. What is named there still has to be there
and to be of the same kind: a number where RocketMQ has a number, an id where it has an id.

    field:msgId                        a field of the header
    body:offsetTable.*.lastTimestamp   a member of a JSON body; * is any key and any element
    settings:fileReservedTime          one of the broker's settings
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from embermq.format.command import Command
from embermq.format.host import decode_host
from embermq.format.java_properties import decode_properties
from embermq.format.lenient_json import format_compact, parse_lenient
from embermq.format.record import Record
from embermq.format.timer_check import decode_timer_check
from embermq.model.codes import RequestCode
from tests.golden.recorded_state import RECORD_ANSWERS, iter_records

_ID_OF_POSITION: Final = "the id holds the position, and the recorded broker's log held other things before"
_DELAYED: Final = "the offset in the queue of a delay level, which held messages of earlier scenarios"
_VERSION: Final = "counts the changes of a table since the broker was made"
_RATE: Final = "messages a second, which is up to the moment"
_POSITION: Final = "a position in the log, which held other things before"
_TIME: Final = "when something was stored in this very run"
_POPS: Final = "counts the pops since the broker was started"
_POPPED: Final = "when the message was popped, by the clock of the broker that popped it"
_ADDRESS: Final = "the port that the client's side of a connection happened to have"

ALLOWED: Final[dict[int, dict[str, str]]] = {
    RequestCode.SEND_MESSAGE_V2: {"field:msgId": _ID_OF_POSITION},
    RequestCode.SEND_BATCH_MESSAGE: {"field:msgId": _ID_OF_POSITION},
    RequestCode.SEND_REPLY_MESSAGE_V2: {"field:msgId": _ID_OF_POSITION},
    RequestCode.QUERY_MESSAGE: {"field:indexLastUpdatePhyoffset": _POSITION, "field:indexLastUpdateTimestamp": _TIME},
    RequestCode.GET_BROKER_CONFIG: {
        "field:version": _VERSION,
        "settings:fileReservedTime": "the recorded broker was given another",
        "settings:disk*Ratio": "the recorded broker was given others, and tests keep no space free",
        "settings:mapp*FileSize*": "tests have small files",
        "settings:maxTransfer*OnMessageInMemory": "ours gives more at once to a client that asks for more",
        "settings:timerMaxDelaySec": "ours takes messages for later times",
        "settings:waitTimeMillsInSendQueue": "200 ms refuse sends after a pause of the machine; ours waits longer",
    },
    RequestCode.GET_ALL_TOPIC_CONFIG: {"body:dataVersion.*": _VERSION, "body:mappingDataVersion.*": _VERSION},
    RequestCode.GET_ALL_GROUP_CONFIG: {"body:dataVersion.*": _VERSION},
    RequestCode.GET_ALL_CONSUMER_OFFSET: {"body:dataVersion.*": _VERSION},
    RequestCode.GET_ALL_DELAY_OFFSET: {"body:dataVersion.*": _VERSION},
    RequestCode.GET_TIMER_CHECK_POINT: {"body:*": "how far the timer was at that moment"},
    RequestCode.GET_TIMER_METRICS: {"body:dataVersion.*": _VERSION},
    RequestCode.GET_TOPIC_STATS: {"body:topicPutTps": _RATE},
    RequestCode.GET_CONSUME_STATS: {"body:consumeTps": _RATE},
    RequestCode.GET_CONSUMER_CONNECTIONS: {
        "body:connectionSet.*.clientAddr": _ADDRESS,
        "body:subscriptionTable.*.subVersion": "when the client subscribed, told in a heartbeat that was left out",
    },
    RequestCode.GET_PRODUCER_CONNECTIONS: {"body:connectionSet.*.clientAddr": _ADDRESS},
    RequestCode.VIEW_BROKER_STATS: {"body:stats*.*": "how much was sent and fetched in the last minute, hour and day"},
    RequestCode.QUERY_CONSUME_QUEUE: {"body:queueData.*.physicOffset": _POSITION},
    RequestCode.POP_MESSAGE: {
        "field:reviveQid": _POPS,
        "field:popTime": "ours is woken by what comes to the retry topic, RocketMQ's when its time is up",
        "records:*.properties.POP_CK": _POPPED,
        "records:*.properties.1ST_POP_TIME": _POPPED,
    },
    RequestCode.GET_BROKER_RUNTIME_INFO: {"body:table.*": "times, sizes, rates and counts of the machine it ran on"},
}

# Members that a body may have or lack, because their very names depend on the moment.
OPTIONAL: Final = {
    "body:table.commitLogDiskRatio_/*": "the name holds the path of the store",
    "body:table.scheduleMessageOffset_*": "one for each delay level that was used before",
}

# Lists that stand for sets: RocketMQ gives them in the order of a hash table.
SETS: Final = {
    RequestCode.QUERY_TOPIC_CONSUMERS: "groupList",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "consumerIdList",
    RequestCode.LOCK_BATCH_MQ: "lockOKMQSet",
}

_ID: Final = re.compile(r"[0-9A-F]{16}(?=[0-9A-F]{16}(?:,|$))")


def differences(request: Command, recorded: Command, answer: Command) -> Iterator[str]:
    """What our answer to `request` has otherwise than RocketMQ's, a sentence each."""
    for name in ("code", "opaque", "flag", "version"):
        if getattr(recorded, name) != getattr(answer, name):
            yield f"{name}: {getattr(recorded, name)} became {getattr(answer, name)} ({answer.remark})"
    if answer.form != request.form:
        yield f"form {request.form} was answered in form {answer.form}"
    if recorded.code and bool(recorded.remark) != bool(answer.remark):
        yield f"remark: {recorded.remark!r} became {answer.remark!r}"
    allowed = ALLOWED.get(request.code, {})
    if "\x02DELAY\x01" in request.fields.get("i", ""):
        allowed = {**allowed, "field:queueOffset": _DELAYED}
    yield from _compare("field:", dict(recorded.fields), dict(answer.fields), allowed)
    yield from _compare_bodies(request.code, recorded.data, answer.data, allowed)


def told_differences(recorded: Command, told: Command) -> Iterator[str]:
    """What a request of ours to a client has otherwise than RocketMQ's."""
    for name in ("code", "flag"):
        if getattr(recorded, name) != getattr(told, name):
            yield f"{name}: {getattr(recorded, name)} became {getattr(told, name)}"
    yield from _compare("field:", dict(recorded.fields), dict(told.fields), {})
    yield from _compare_bodies(recorded.code, recorded.data, told.data, {})


def _compare_bodies(code: int, recorded: bytes, ours: bytes, allowed: dict[str, str]) -> Iterator[str]:
    if code == RequestCode.GET_BROKER_CONFIG:
        yield from _compare_settings(decode_properties(recorded), decode_properties(ours), allowed)
    elif code == RequestCode.GET_TIMER_CHECK_POINT:
        yield from _compare("body:", _shown_check(recorded), _shown_check(ours), allowed)
    elif code in RECORD_ANSWERS:
        yield from _compare("records:", _shown_records(recorded), _shown_records(ours), allowed)
    elif recorded[:1] in (b"{", b"["):
        yield from _compare("body:", _parse(code, recorded), _parse(code, ours), allowed)
    elif recorded != ours:
        yield f"body: {recorded!r} became {ours!r}"


def _shown_check(body: bytes) -> dict[str, object]:
    check = decode_timer_check(body)
    return {"size": len(body), **dict(zip(check._fields[:4], check[:4], strict=True))}


def _parse(code: int, body: bytes) -> object:
    value = parse_lenient(body.decode()) if body else None
    if isinstance(value, dict) and code in SETS and SETS[RequestCode(code)] in value:
        value[SETS[RequestCode(code)]] = sorted(value[SETS[RequestCode(code)]], key=format_compact)
    return value


def _shown_records(data: bytes) -> list[dict[str, object]]:
    return [shown_record(record) for record in iter_records(data)]


def shown_record(record: Record) -> dict[str, object]:
    """A record without what depends on the moment: where and when it was stored, and the sender's port."""
    return {
        **record._asdict(),
        "position": None,
        "store_time": None,
        "born_host": decode_host(record.born_host).address,
        "properties": record.property_map(),
    }


def _compare_settings(recorded: dict[str, str], ours: dict[str, str], allowed: dict[str, str]) -> Iterator[str]:
    """Ours are settings of RocketMQ, by its names and with its defaults; not all of them mean anything here."""
    if unknown := ours.keys() - recorded.keys():
        yield f"settings that RocketMQ does not have: {sorted(unknown)}"
    yield from _compare("settings:", {name: recorded.get(name) for name in ours}, ours, allowed)


def _compare(path: str, recorded: object, ours: object, allowed: dict[str, str]) -> Iterator[str]:
    """Differences of two values at every level."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in recorded.keys() ^ ours.keys():
            place = _join(path, key)
            if not any(fnmatchcase(place, pattern) for pattern in OPTIONAL):
                yield f"{place} " + (f"was added: {ours[key]!r}" if key in ours else f"is missing: {recorded[key]!r}")
        for key in recorded.keys() & ours.keys():
            yield from _compare(_join(path, key), recorded[key], ours[key], allowed)
    elif isinstance(recorded, list) and isinstance(ours, list):
        if len(recorded) != len(ours):
            yield f"{path} had {len(recorded)} elements, now {len(ours)}"
        for number, (left, right) in enumerate(zip(recorded, ours, strict=False)):
            yield from _compare(_join(path, number), left, right, allowed)
    elif any(fnmatchcase(path, pattern) for pattern in allowed):
        if _kind(recorded) != _kind(ours):
            yield f"{path}: {recorded!r} became {ours!r}, which is of another kind"
    elif recorded != ours or type(recorded) is not type(ours):
        yield f"{path}: {recorded!r} became {ours!r}"


def _join(path: str, key: object) -> str:
    return f"{path}{key}" if path.endswith(":") else f"{path}.{key}"


def _kind(value: object) -> object:
    """What stays the same of a value that may differ: its type, and of a text the sort of text."""
    if not isinstance(value, str):
        return type(value)
    if _ID.search(value):
        return tuple(_ID.findall(value))  # the broker's address, which is the same
    return re.sub(r"[KMGT]iB", "B", re.sub(r"[0-9]+(\.[0-9]+)?", "0", value))
