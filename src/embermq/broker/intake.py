"""What may be sent: a SEND request becomes drafts, or is refused before anything is changed.

Most requests are plain, and `plain` makes their draft with few questions. Whatever is unusual
about one (a delay, a batch, a retry, odd numbers) makes it return nothing, and `careful` looks
at every part.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from embermq.broker.locks import QueueLocks
from embermq.broker.parking import Parking, Target, names_time, split_timer
from embermq.broker.retries import retry_limit, retrying_group
from embermq.broker.settings import BrokerSettings
from embermq.broker.topics import BrokerTopics
from embermq.broker.transactions.halves import CHECK_ROOM, HALF_QUEUE, SentHalf, hide, is_transactional
from embermq.errors import (
    BodyTooLarge,
    CorruptRecord,
    IllegalMessage,
    IllegalProperty,
    IllegalQueue,
    NotPermitted,
    PropertiesTooLarge,
)
from embermq.files.memory import bytes_address
from embermq.format.batch import BatchElement, iter_batch
from embermq.format.command import Command
from embermq.format.host import HOST_V6_SIZE, encode_host
from embermq.format.message_id import UniqueIds
from embermq.format.recall_handle import RecallHandle, encode_recall_handle
from embermq.format.record import DraftFields
from embermq.format.staged import StagedMessage
from embermq.kernels.commands import SendCommand
from embermq.model.codes import RequestCode
from embermq.model.flags import Permission, SysFlag
from embermq.model.message import Host
from embermq.model.pop import REVIVE_TOPIC_PREFIX
from embermq.model.properties import (
    CHECK_IMMUNITY_TIME,
    CLUSTER,
    DELAY,
    INNER_NUM,
    KEYS,
    MSG_REGION,
    POP_CK,
    PRODUCER_GROUP,
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_OUT_MS,
    TRACE_ON,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    TRANSIENT_PREFIX,
    UNIQ_KEY,
    format_properties,
    parse_properties,
)
from embermq.model.topic import (
    DEAD_LETTER_PREFIX,
    HALF_TOPIC,
    LIGHT_PREFIX,
    MAX_TOPIC_SIZE,
    RETRY_PREFIX,
    TIMER_TOPIC,
    UNSENDABLE_TOPICS,
    TopicConfig,
    check_topic,
)
from embermq.rpc.fields import I32, I64, find_boolean, find_integer, read_integer, read_text
from embermq.store.groups import Groups
from embermq.store.settings import StoreSettings

# The fields of a SEND by their full names, as old clients and Go send them.
_SHORT_NAMES: Final = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
    "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
    "maxReconsumeTimes": "l", "batch": "m",
}  # fmt: skip
_LONG_FORM: Final = frozenset(map(int, (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)))
CLIENTS_FLAGS: Final = SysFlag.COMPRESSED | SysFlag.MULTI_TAG | SysFlag.COMPRESSION_MASK
_UNIQUE: Final = UNIQ_KEY + "\x01"
_TIMER: Final = TIMER_TOPIC.encode()
UNIQUE_KEY_ROOM: Final = len(_UNIQUE) + 33  # of one with 32 digits, and its separator
_GROUP: Final = PRODUCER_GROUP + "\x01"
_PREPARED: Final = TRANSACTION_PREPARED + "\x01true\x02"
_OF_TRANSACTIONS: Final = (CHECK_IMMUNITY_TIME, REAL_TOPIC, REAL_QUEUE, TRANSACTION_ID, TRANSACTION_CHECK_TIMES)
_HALF: Final = HALF_TOPIC.encode()
_OF_CONSUMERS: Final = (RETRY_PREFIX, DEAD_LETTER_PREFIX)


class Born(NamedTuple):
    """Where a message comes from: the bytes of the address, and their mark in the sys flag."""

    host: bytes
    flag: int
    address: int  # of the bytes, while they are kept


@lru_cache(maxsize=10_000)
def born_of(host: Host) -> Born:
    """What records keep of where a message comes from."""
    data = encode_host(host)
    flag = SysFlag.BORN_HOST_V6 if len(data) == HOST_V6_SIZE else 0
    return Born(data, int(flag), bytes_address(data))


class Sent(NamedTuple):
    """A request that may be stored, and what its answer tells."""

    drafts: Sequence[DraftFields]
    queue: int
    unique_id: str
    half: SentHalf | None = None  # of a transaction
    is_batch: bool = False
    is_one_record: bool = False  # of a batch: kept as it came
    recall_handle: str = ""  # of one that waits for its time


class _Head(NamedTuple):
    """What all messages of one request share."""

    topic: TopicConfig
    queue: int
    sys_flag: int
    born_time: int
    flag: int
    reconsume_times: int
    properties: dict[str, str]


class Intake:
    """Checks SEND requests."""

    def __init__(
        self,
        topics: BrokerTopics,
        groups: Groups,
        locks: QueueLocks,
        settings: BrokerSettings,
        limits: Callable[[], StoreSettings],
        *,
        parking: Parking,
        unique_ids: UniqueIds,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._limits = limits
        self.max_body = limits().max_message_size
        self.max_properties = limits().max_properties_size
        self.parking = parking
        self._unique_ids = unique_ids
        self.known: dict[str, tuple[bytes, int]] = {}  # topics that plain messages may go to, with their queues
        self._known_of = topics.table()
        self.use(settings)

    def use(self, settings: BrokerSettings) -> None:
        """Work with these settings of the broker from now on."""
        self.settings = settings
        self._own = {MSG_REGION: settings.region, TRACE_ON: "true", CLUSTER: settings.cluster}
        self.suffix_bytes = format_properties(self._own)  # of the properties of plain messages
        self.suffix = self.suffix_bytes.decode()
        self.known = {}

    def refresh(self) -> None:
        """Forget what is known of topics if one has changed; to be called before messages are looked at."""
        limits = self._limits()
        self.max_body, self.max_properties = limits.max_message_size, limits.max_properties_size
        table = self._topics.table()
        if table is not self._known_of:
            self._known_of = table
            self.known = {}

    def plain(self, request: Command, born: Born, instead: str | None = None) -> tuple[DraftFields, int, str] | None:
        """The draft of a plain message, its queue and its unique id; None if it is not as plain as that.

        It is made with the properties `instead`, if there are any.
        """
        try:
            if type(request) is SendCommand:
                sent = request.sent
                name, queue, sys_flag, born_time, flag = sent.b, sent.e, sent.f, sent.g, sent.h
                properties, retries, is_batch = sent.i, sent.j, sent.m
            else:
                fields = short_fields(request)
                name, properties = fields["b"], fields["i"]
                queue, sys_flag, born_time = int(fields["e"]), int(fields["f"]), int(fields["g"])
                flag, retries, is_batch = int(fields["h"]), int(fields.get("j", 0)), fields.get("m", "false") != "false"
            topic, queues = self.known[name]
            if not 0 <= queue < queues or not 0 <= born_time < I64 or not -I32 <= flag < I32 or retries or is_batch:
                return None
            properties = properties if instead is None else instead
            unique_id = _find_plain_id(properties)
            data = (properties + self.suffix).encode()
        except (KeyError, ValueError):
            return None
        body = request.body
        if not 0 < len(body) <= self.max_body or len(data) > self.max_properties or not unique_id:
            return None
        assert isinstance(body, bytes)
        host, host_flag, _ = born
        sys_flag = sys_flag & CLIENTS_FLAGS | host_flag if sys_flag else host_flag
        return (topic, queue, body, data, flag, sys_flag, born_time, host, 0, 0), queue, unique_id

    def half(self, request: Command, born: Born) -> tuple[DraftFields, int, str, SentHalf] | None:
        """The same for a plain message that begins a transaction: nothing else is unusual about it."""
        properties = request.sent.i if type(request) is SendCommand else short_fields(request).get("i", "")
        group = _find_plain_group(properties)
        found = self.plain(request, born, properties.replace(_PREPARED, "", 1)) if group else None
        if found is None or not self.settings.transactions:
            return None
        draft, queue, unique_id = found
        topic = draft[0].decode()
        place = f"{TRANSACTION_ID}\x01{unique_id}\x02{REAL_TOPIC}\x01{topic}\x02{REAL_QUEUE}\x01{queue}\x02"
        data = (properties + place + self.suffix).encode()
        if len(data) > self.max_properties - CHECK_ROOM:
            return None
        hidden = (_HALF, HALF_QUEUE, draft[2], data, *draft[4:])
        return hidden, queue, unique_id, SentHalf(hidden, topic, queue, group, is_immune=False)

    def timed(self, request: Command, born: Born) -> Sent | None:
        """The draft of a message that is plain but for naming its time; None if it is not. Raises a RequestError."""
        properties = request.sent.i if type(request) is SendCommand else short_fields(request).get("i") or ""
        split = split_timer(properties)
        found = self.plain(request, born, split.rest) if split is not None else None
        if split is None or found is None:
            return None
        draft, queue, unique_id = found
        out = self.parking.slot_of({split.name: split.value})
        if out is None:
            return None
        topic = draft[0].decode()
        parked = f"{TIMER_OUT_MS}\x01{out}\x02{REAL_TOPIC}\x01{topic}\x02{REAL_QUEUE}\x01{queue}\x02"
        data = (properties + parked + self.suffix).encode()
        if len(data) > self.max_properties:
            return None
        handle = self._make_handle(topic, out, unique_id)
        return Sent(((_TIMER, 0, draft[2], data, *draft[4:]),), queue, unique_id, recall_handle=handle)

    def careful(self, request: Command, born: Born) -> Sent:
        """The drafts of any message or batch. Raises a RequestError."""
        fields = short_fields(request)
        head = self._head(request, fields)
        self._remember(head.topic)
        if find_boolean(fields, "m"):
            return self._batch(request, head, born)
        properties = head.properties
        unique_id = properties.setdefault(UNIQ_KEY, self._unique_ids.next())
        self._check_asked(head.topic, properties)
        target = self._redirect(request, fields, head, properties)
        name = target.topic
        if is_transactional(properties, head.reconsume_times) and not target.topic.startswith(_OF_CONSUMERS):
            target = self._hide(target, unique_id, group=fields.get("a") or "")
        else:
            target = self.parking.park(target)
        target = target._replace(properties={**target.properties, **self._own})
        body = request.data
        if not body:
            raise IllegalMessage(f"an empty body for topic {head.topic.name!r}; a message has one byte at least")
        draft = self._draft(target, body, format_properties(target.properties), head, born)
        half = None
        if target.topic == HALF_TOPIC:
            kept = target.properties
            half = SentHalf(draft, name, head.queue, kept[PRODUCER_GROUP], is_immune=CHECK_IMMUNITY_TIME in kept)
        handle = self._recall_handle(head.topic, target, unique_id)
        return Sent((draft,), head.queue, unique_id, half, recall_handle=handle)

    def _recall_handle(self, topic: TopicConfig, target: Target, unique_id: str) -> str:
        """What a message in the timer can be taken back with; nothing for others, and for retries."""
        if target.topic != TIMER_TOPIC or topic.name.startswith(RETRY_PREFIX):
            return ""
        return self._make_handle(topic.name, int(target.properties[TIMER_OUT_MS]), unique_id)

    def _make_handle(self, topic: str, out: int, unique_id: str) -> str:
        return encode_recall_handle(RecallHandle(topic, self.settings.name, out + 1, unique_id))  # within its slot

    def staged_topic(self, request: Command) -> TopicConfig:
        """The topic of messages that are kept aside for now. Raises a RequestError."""
        return self._staged_head(request).topic

    def staged(self, request: Command, messages: Iterable[StagedMessage], born: Born) -> list[DraftFields]:
        """The drafts of messages that are kept aside for now, without unique keys. Raises a RequestError."""
        head = self._staged_head(request)
        return [self._staged_draft(message, head, born) for message in messages]

    def _staged_head(self, request: Command) -> _Head:
        head = self._head(request, request.fields)
        name = head.topic.name
        if name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
            raise IllegalMessage(f"nothing may be staged for topic {name[:300]!r}; send its messages one by one")
        return head

    def _staged_draft(self, message: StagedMessage, head: _Head, born: Born) -> DraftFields:
        topic, queues = head.topic.name, max(head.topic.write_queues, head.topic.read_queues)
        if not 0 <= message.queue < queues:
            raise IllegalQueue(topic, message.queue, queues)
        if not message.body:
            raise IllegalMessage(f"an empty body for topic {topic!r}; a message has one byte at least")
        properties = _properties(message.properties.decode(errors="surrogateescape")) | self._own
        properties.pop(UNIQ_KEY, None)
        self._check_asked(head.topic, properties)
        _check_not_transactional(head.topic, properties)
        target = self.parking.park(Target(topic, message.queue, properties))
        data = format_properties(target.properties)
        if len(data) > self.max_properties - UNIQUE_KEY_ROOM:
            raise PropertiesTooLarge(topic, size=len(data) + UNIQUE_KEY_ROOM, limit=self.max_properties)
        own = head._replace(
            flag=message.flag,
            sys_flag=message.sys_flag & CLIENTS_FLAGS,
            born_time=message.born_time,
            queue=target.queue,
        )
        return self._draft(target, message.body, data, own, born)

    def _head(self, request: Command, fields: Mapping[str, str]) -> _Head:
        name = read_text(fields, "b")
        check_topic(name)
        if name in UNSENDABLE_TOPICS or name.startswith(REVIVE_TOPIC_PREFIX):
            raise NotPermitted(f"topic {name!r} belongs to the broker; nobody may send to it")
        if not self.settings.permission & Permission.WRITE:
            raise NotPermitted(f"broker {self.settings.name!r} takes no messages; give it write permission")
        config = self._topic(name, fields)
        if not config.permission & Permission.WRITE:
            raise NotPermitted(f"topic {name!r} takes no messages; give it write permission")
        queue = read_integer(fields, "e", limit=I32)
        if queue >= max(config.write_queues, config.read_queues):
            raise IllegalQueue(name, queue, max(config.write_queues, config.read_queues))
        if queue < 0:
            queue = random.randrange(max(config.write_queues, 1))
        return _Head(
            config,
            queue,
            (find_integer(fields, "f", limit=I32) or 0) & CLIENTS_FLAGS,
            find_integer(fields, "g") or 0,
            find_integer(fields, "h", limit=I32) or 0,
            find_integer(fields, "j", limit=I32) or 0,
            _properties(fields.get("i") or ""),
        )

    def _topic(self, name: str, fields: Mapping[str, str]) -> TopicConfig:
        if name.startswith(RETRY_PREFIX):
            group = retrying_group(name, self._groups, self._topics)
            return self._topics.ensure(name, queues=max(group.retry_queues, 1))
        queues = find_integer(fields, "d", limit=I32)
        return self._topics.for_send(name, template=fields.get("c") or "", queues=4 if queues is None else queues)

    def _check_asked(self, topic: TopicConfig, properties: Mapping[str, str]) -> None:
        """Refuse what the topic or the broker does not do."""
        if topic.cleanup_policy == "COMPACTION" and not properties.get(KEYS, "").strip():
            raise IllegalMessage(f"topic {topic.name!r} is compacted by key; send the message with a key")

    def _redirect(self, request: Command, fields: Mapping[str, str], head: _Head, properties: dict[str, str]) -> Target:
        """Where a message goes: to the dead letters, if it comes back to a retry topic too often."""
        name = head.topic.name
        if not name.startswith(RETRY_PREFIX):
            return Target(name, head.queue, properties)
        group = retrying_group(name, self._groups, self._topics)
        limit = retry_limit(request, find_integer(fields, "l", limit=I32), group)
        if head.reconsume_times <= limit and not self._locks.is_any_locked(group.name):
            return Target(name, head.queue, properties)
        dead = self._topics.ensure(DEAD_LETTER_PREFIX + group.name)
        return Target(dead.name, 0, properties | {DELAY: "-1"})

    def _hide(self, target: Target, unique_id: str, *, group: str) -> Target:
        """Where a transactional message waits for the end of its transaction."""
        if not self.settings.transactions:
            raise NotPermitted(f"broker {self.settings.name!r} takes no transactional messages; see its `transactions`")
        hidden = hide(target, unique_id, group=group)
        size = len(format_properties({**hidden.properties, **self._own})) + CHECK_ROOM
        if size > self.max_properties:
            raise PropertiesTooLarge(target.topic, size=size, limit=self.max_properties)
        return hidden

    def _batch(self, request: Command, head: _Head, born: Born) -> Sent:
        topic = head.topic
        if topic.name.startswith(RETRY_PREFIX) or len(topic.name) > MAX_TOPIC_SIZE:
            raise IllegalMessage(f"no batch may be sent to topic {topic.name[:300]!r}; send its messages one by one")
        body = request.data
        if len(body) > self.max_body:
            raise BodyTooLarge(topic.name, size=len(body), limit=self.max_body)
        try:
            elements = list(iter_batch(body))
        except CorruptRecord as error:
            raise IllegalMessage(f"the body of a batch for topic {topic.name!r} cannot be read: {error}") from error
        if not elements:
            raise IllegalMessage(f"a batch without messages for topic {topic.name!r}")
        unique_id = head.properties.get(UNIQ_KEY, "")
        if topic.queue_type == "BatchCQ" and unique_id:
            return self._inner_batch(head, body, len(elements), born)
        drafts = [self._element(element, head, born) for element in elements]
        return Sent(drafts, head.queue, unique_id, is_batch=True)

    def _element(self, element: BatchElement, head: _Head, born: Born) -> DraftFields:
        """One message of a batch: its own properties, what only the batch says, and what the broker says."""
        text = element.properties.decode(errors="surrogateescape")
        found = _properties(text)
        missing = {name: value for name, value in head.properties.items() if name not in found and name != UNIQ_KEY}
        properties = found | missing | self._own
        self._check_asked(head.topic, properties)
        _check_not_transactional(head.topic, properties)
        if names_time(properties):
            raise IllegalMessage("no message of a batch can wait for its time; send it alone")
        if not element.body:
            raise IllegalMessage(f"a batch for topic {head.topic.name!r} holds a message with an empty body")
        if _find_plain_id(text):  # kept as they are, as those of a message that comes alone
            data = element.properties + format_properties(missing | self._own)
        else:
            properties.setdefault(UNIQ_KEY, self._unique_ids.next())
            data = format_properties(properties)
        target = Target(head.topic.name, head.queue, properties)
        return self._draft(target, element.body, data, head._replace(flag=element.flag), born)

    def _inner_batch(self, head: _Head, body: bytes, count: int, born: Born) -> Sent:
        """A batch that is kept as one record."""
        properties = head.properties | self._own | {INNER_NUM: str(count)}
        target = Target(head.topic.name, head.queue, properties)
        flags = head.sys_flag | SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
        draft = self._draft(target, body, format_properties(properties), head._replace(sys_flag=flags), born)
        return Sent((draft,), head.queue, head.properties[UNIQ_KEY], is_batch=True, is_one_record=True)

    def _draft(self, target: Target, body: bytes, data: bytes, head: _Head, born: Born) -> DraftFields:
        if len(body) > self.max_body:
            raise BodyTooLarge(target.topic, size=len(body), limit=self.max_body)
        if len(data) > self.max_properties:
            raise PropertiesTooLarge(target.topic, size=len(data), limit=self.max_properties)
        return (
            target.topic.encode(), target.queue, body, data, head.flag, head.sys_flag | born.flag, head.born_time,
            born.host, head.reconsume_times, 0,
        )  # fmt: skip

    def _remember(self, topic: TopicConfig) -> None:
        """Know this topic as one that plain messages may go to."""
        is_special = bool(topic.attributes) or self._topics.is_static(topic.name)
        if not topic.name.startswith((RETRY_PREFIX, LIGHT_PREFIX)) and not is_special:  # they are looked at closely
            self.known[topic.name] = (topic.name.encode(), max(topic.write_queues, topic.read_queues))


def is_half(request: Command) -> bool:
    """Whether a SEND begins a transaction, as far as that can be told at once."""
    return type(request) is SendCommand and _PREPARED in request.sent.i


def short_fields(request: Command) -> Mapping[str, str]:
    """The fields of a SEND or a reply by their short names."""
    if request.code not in _LONG_FORM:
        return request.fields
    return {_SHORT_NAMES[name]: value for name, value in request.fields.items() if name in _SHORT_NAMES}


def _check_not_transactional(topic: TopicConfig, properties: Mapping[str, str]) -> None:
    if is_transactional(properties, 0):
        raise IllegalMessage(f"a transactional message for topic {topic.name!r} among others; send it alone")


def _find_plain_group(properties: str) -> str:
    """The producer group of a transactional message of which the broker knows everything; nothing otherwise."""
    at, count = properties.find(_GROUP), properties.count
    is_whole = at == 0 or (at > 0 and properties[at - 1] == "\x02")
    is_once = _PREPARED in properties and count(TRANSACTION_PREPARED) == count(_GROUP) == count(_UNIQUE) == 1
    if not is_whole or not is_once or any(word in properties for word in _OF_TRANSACTIONS):
        return ""
    return properties[at + len(_GROUP) : properties.find("\x02", at)]


def _find_plain_id(properties: str) -> str:
    """The unique id in properties that ask for no more than to be stored; nothing if they do, or have none."""
    at = properties.find(_UNIQUE)
    if (
        at < 0
        or (at and properties[at - 1] != "\x02")
        or properties[-1] != "\x02"
        or "DELAY" in properties
        or "TIMER_" in properties
        or "TRAN_MSG" in properties
        or "POP_CK" in properties
        or "INNER_" in properties
        or "REPLY_TO_CLIENT" in properties
        or TRANSIENT_PREFIX in properties
    ):
        return ""
    return properties[at + len(_UNIQUE) : properties.index("\x02", at)]


def _properties(text: str) -> dict[str, str]:
    """The properties of a message, without those that no sender may set."""
    try:
        found = parse_properties(text.encode())
    except UnicodeEncodeError as error:
        raise IllegalProperty(text[:80], f"it is not UTF-8: {error.reason}") from error
    return {name: value for name, value in found.items() if name != POP_CK and not name.startswith(TRANSIENT_PREFIX)}
