"""Messages that nobody acknowledged in time, as they are stored in the retry topic of their group and topic."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.errors import CorruptRecord, OutOfRange
from embermq.format.record import MAX_PROPERTIES_SIZE, DraftFields, Record, decode_record
from embermq.model.pop import Checkpoint, origin_of, retry_topic_of
from embermq.model.properties import FIRST_POP_TIME, format_properties
from embermq.model.topic import RETRY_PREFIX

log = logging.getLogger(__name__)

ONE_MESSAGE: Final = 1
ANY_SIZE: Final = 2**31
MOST_DELETED: Final = 10_000  # topics


class Retries:
    """Makes the drafts of messages that are delivered again."""

    def __init__(self, tables: Tables, statistics: BrokerStatistics, *, host: bytes) -> None:
        self._tables = tables
        self._statistics = statistics
        self._host = host
        self._deleted: dict[str, None] = {}  # topics, the last ones; some may be there again

    def forget_topic(self, name: str) -> None:
        """A topic was deleted: should it be made again, its new messages are not those that were popped before."""
        self._deleted.pop(name, None)
        self._deleted[name] = None
        if len(self._deleted) > MOST_DELETED:
            del self._deleted[next(iter(self._deleted))]

    def drafts(self, checkpoint: Checkpoint, offsets: Sequence[int]) -> list[DraftFields]:
        """These messages of a checkpoint for the retry topic; none of a topic or group that is gone."""
        topic, group, queue, *_ = checkpoint.delivery
        origin = origin_of(topic, group)
        if self._tables.topics.find(origin) is None or self._tables.groups.find(group) is None:
            log.info("not revived, topic or group is gone topic=%s group=%s", topic, group)
            return []
        name = topic if topic.startswith(RETRY_PREFIX) else retry_topic_of(topic, group)
        self._ensure(name, group)
        pop_time = checkpoint.delivery.pop_time
        records = [self._read(topic, queue, offset) for offset in offsets]
        if topic in self._deleted:
            records = [record for record in records if record is not None and record.store_time <= pop_time]
        return [self._draft(record, name, pop_time) for record in records if record is not None]

    def _ensure(self, name: str, group: str) -> None:
        if self._tables.topics.find(name) is None:
            self._tables.topics.ensure(name)
            if self._tables.offsets.find(name, group, 0) is None:
                self._tables.offsets.commit(name, group, 0, 0)

    def _read(self, topic: str, queue: int, offset: int) -> Record | None:
        try:
            found = self._tables.store.read(topic, queue=queue, offset=offset, limit=ONE_MESSAGE, max_bytes=ANY_SIZE)
            for at, position, data in found.records:
                if at == offset:
                    return decode_record(data, position)
        except (CorruptRecord, OutOfRange) as error:
            log.error("message cannot be revived topic=%s queue=%d offset=%d reason=%s", topic, queue, offset, error)
            return None
        log.warning("message is no longer there to be revived topic=%s queue=%d offset=%d", topic, queue, offset)
        return None

    def _draft(self, record: Record, topic: str, pop_time: int) -> DraftFields:
        properties = record.property_map()
        if record.reconsume_times == 0 or FIRST_POP_TIME not in properties:
            properties[FIRST_POP_TIME] = str(pop_time)
        data = format_properties(properties)
        if len(data) > MAX_PROPERTIES_SIZE:  # better without its first time than not at all
            data = record.properties
        self._statistics.count_put(topic, 0, 1, record.size)
        return (
            topic.encode(), 0, record.body, data, record.flag, record.sys_flag, record.born_time, self._host,
            record.reconsume_times + 1, 0,
        )  # fmt: skip
