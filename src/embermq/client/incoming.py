"""Messages as they come from a broker: records taken apart, bodies unpacked, retries under their own topic."""

from __future__ import annotations

from collections.abc import Iterator

from embermq.errors import CorruptRecord
from embermq.format.batch import iter_batch
from embermq.format.host import decode_host
from embermq.format.message_id import encode_message_id
from embermq.format.packed_body import unpack_body
from embermq.format.record import Record, decode_record, read_frame
from embermq.model.flags import SysFlag
from embermq.model.message import StoredMessage
from embermq.model.properties import INNER_BASE, KEYS, RETRY_TOPIC, TAGS, UNIQ_KEY, parse_properties
from embermq.model.topic import RETRY_PREFIX


def decode_messages(body: bytes) -> list[StoredMessage]:
    """The messages of the records that `body` consists of. Raises CorruptRecord."""
    messages: list[StoredMessage] = []
    view, at = memoryview(body), 0
    while at < len(body):
        size = read_frame(view, at).size
        # A position is the broker's own; what counts here is that the record is whole.
        record = decode_record(view[at : at + size], at, check_position=False)
        if record.sys_flag & SysFlag.INNER_BATCH and record.sys_flag & SysFlag.NEED_UNWRAP:
            messages += _unwrap(record)
        else:
            messages.append(_message(record, unpack_body(record.body, record.sys_flag)))
        at += size
    return messages


def unique_key_of(message: StoredMessage) -> str:
    """The id that the producer gave; the broker's own if it gave none."""
    return message.properties.get(UNIQ_KEY) or message.message_id


def _message(
    record: Record, body: bytes, *, offset: int | None = None, properties: dict[str, str] | None = None
) -> StoredMessage:
    properties = record.property_map() if properties is None else properties
    topic = record.topic
    if topic.startswith(RETRY_PREFIX):
        topic = properties.get(RETRY_TOPIC, topic)
    return StoredMessage(
        topic=topic,
        queue=record.queue,
        offset=record.offset if offset is None else offset,
        position=record.position,
        size=record.size,
        body=body,
        tags=properties.get(TAGS),
        keys=tuple(properties.get(KEYS, "").split()),
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_time_ms=record.born_time,
        born_host=decode_host(record.born_host),
        store_time_ms=record.store_time,
        store_host=decode_host(record.store_host),
        reconsume_times=record.reconsume_times,
        message_id=encode_message_id(record.store_host, record.position),
    )


def _unwrap(record: Record) -> Iterator[StoredMessage]:
    """The messages of a batch that is kept as one record."""
    try:
        base = int(record.property_map().get(INNER_BASE, record.offset))
        for number, element in enumerate(iter_batch(unpack_body(record.body, record.sys_flag))):
            yield _message(record, element.body, offset=base + number, properties=parse_properties(element.properties))
    except ValueError as error:
        raise CorruptRecord(record.position, f"no batch: {error}") from error
