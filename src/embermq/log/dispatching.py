"""From a record in the log to what queues and index are told of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from embermq.errors import CorruptRecord
from embermq.format.queue_entry import tags_code
from embermq.format.record import DraftFields, Scanned, scan_record
from embermq.log.placed import Placed
from embermq.model.many_properties import ManyProperties
from embermq.model.properties import (
    DELAY,
    INNER_BASE,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
    TAGS,
    find_property,
)
from embermq.model.topic import SCHEDULE_TOPIC, is_directory_name, is_light_queue, may_name_light_queues

UNKNOWN_LEVEL_MS = 1_000
_is_topic = lru_cache(maxsize=4096)(is_directory_name)
_TAGS = TAGS.encode()
_SCHEDULE = SCHEDULE_TOPIC.encode()
_DELAY = DELAY.encode()
_INNER_NUM = INNER_NUM.encode()
_INNER_BASE = INNER_BASE.encode()
_MULTI_DISPATCH = INNER_MULTI_DISPATCH.encode()
_MULTI_OFFSET = INNER_MULTI_QUEUE_OFFSET.encode()


def tags_code_of(topic: str, properties: bytes, store_time: int, delay_levels: Sequence[int]) -> int:
    """The third field of a record's queue entry: the hash of its tags, or the time of its delivery."""
    if topic == SCHEDULE_TOPIC:
        level = _number(find_property(properties, _DELAY))
        if level is not None and level > 0:
            level = min(level, len(delay_levels))
            return store_time + (delay_levels[level - 1] if level else UNKNOWN_LEVEL_MS)
    tags = find_property(properties, _TAGS)
    return tags_code(tags.decode()) if tags else 0


def tags_codes(drafts: Sequence[DraftFields], store_time: int, delay_levels: Sequence[int]) -> list[int]:
    """The same for many drafts."""
    tags = ManyProperties([draft[3] for draft in drafts]).find(_TAGS)
    if tags is None or _SCHEDULE in {draft[0] for draft in drafts}:
        return [tags_code_of(draft[0].decode(), draft[3], store_time, delay_levels) for draft in drafts]
    if not tags:
        return [0] * len(drafts)
    codes = {each: tags_code(each.decode()) for each in set(tags)}
    return [codes[each] for each in tags]


def placed_of(scanned: Scanned, position: int, delay_levels: Sequence[int]) -> Placed:
    """What the dispatcher hands on for the record that was scanned at `position`."""
    offset, count = scanned.offset, 1
    properties = scanned.properties
    if b"INNER_" in properties:
        number, base = _number(find_property(properties, _INNER_NUM)), _number(find_property(properties, _INNER_BASE))
        if number is not None and base is not None:
            offset, count = base, number
    code = tags_code_of(scanned.topic, properties, scanned.store_time, delay_levels)
    return Placed(
        scanned.topic,
        scanned.queue,
        offset,
        position,
        scanned.size,
        code,
        scanned.store_time,
        scanned.sys_flag,
        properties,
        count,
    )


def iter_placed(
    data: memoryview, position: int, delay_levels: Sequence[int], *, check_body: bool = False
) -> Iterator[Placed]:
    """The records that `data`, cut from log `position`, holds; up to the first that is none.

    Raises CorruptRecord where bytes are neither a record nor the end of a file's records.
    """
    at = 0
    while True:
        scanned = scan_record(data, at, position + at, check_body=check_body)
        if scanned is None:
            return
        if not _is_topic(scanned.topic):
            raise CorruptRecord(position + at, f"{scanned.topic[:300]!r} is no topic")
        try:
            yield placed_of(scanned, position + at, delay_levels)
        except ValueError as error:
            raise CorruptRecord(position + at, f"its properties cannot be read: {error}") from error
        at += scanned.size


def light_copies(item: Placed) -> list[Placed]:
    """`item` as the light queues that its message names will see it."""
    names = find_property(item.properties, _MULTI_DISPATCH)
    offsets = find_property(item.properties, _MULTI_OFFSET)
    if not names or not offsets or not may_name_light_queues(item.topic):
        return []
    copies = []
    for name, text in zip(names.decode(errors="replace").split(","), offsets.split(b","), strict=False):
        offset = _number(text)
        if offset is None or offset < 0 or not is_directory_name(name):
            continue  # a record from elsewhere must not stop the dispatcher
        queue = 0 if is_light_queue(name) else item.queue
        copies.append(item._replace(topic=name, queue=queue, offset=offset, count=1))
    return copies


def _number(text: bytes | None) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        return None
