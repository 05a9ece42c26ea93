"""CONSUMER_SEND_MSG_BACK: a consumer could not handle a message and gives it back."""

from __future__ import annotations

from embermq.broker.puts import Puts
from embermq.broker.retries import give_back, retry_limit
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.topics import BrokerTopics
from embermq.errors import CorruptRecord, MessageNotFound, NotPermitted, OutOfRange
from embermq.format.command import Command, make_answer
from embermq.format.record import Record
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.flags import Permission
from embermq.model.properties import RETRY_TOPIC
from embermq.model.topic import RETRY_PREFIX
from embermq.rpc.fields import I32, find_boolean, find_integer, read_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import CheckTopic, Handler
from embermq.store.groups import Groups
from embermq.store.store import Store


class SendBackHandlers:
    """Takes messages back."""

    def __init__(
        self,
        store: Store,
        puts: Puts,
        topics: BrokerTopics,
        groups: Groups,
        statistics: BrokerStatistics,
        settings: BrokerSettings,
        *,
        levels: int,
        check_topic: CheckTopic,
    ) -> None:
        self._store = store
        self._puts = puts
        self._topics = topics
        self._groups = groups
        self._statistics = statistics
        self.settings = settings  # replaced when one is changed at run time
        self._levels = levels
        self._check_topic = check_topic

    def routes(self) -> dict[int, Handler]:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back}

    async def send_back(self, peer: Peer, request: Command) -> Command:
        fields = request.fields
        group = self._groups.read(read_text(fields, "group"))
        if not self.settings.permission & Permission.WRITE:
            raise NotPermitted(f"broker {self.settings.name!r} takes no messages; give it write permission")
        if group.retry_queues <= 0:  # the group wants no retries: the message is done with
            return make_answer(request)
        asked = find_integer(fields, "maxReconsumeTimes", limit=I32)
        record = self._read(read_integer(fields, "offset"), fields.get("originTopic"))
        if not record.topic.startswith(RETRY_PREFIX):
            self._check_topic(peer, request, record.topic)
        given = give_back(
            record,
            group,
            self._topics,
            delay_level=find_integer(fields, "delayLevel", limit=I32) or 0,
            limit=retry_limit(request, asked, group),
            unit_mode=bool(find_boolean(fields, "unitMode")),
            levels=self._levels,
        )
        await self._puts.put([given.draft])
        self._statistics.count_send_back(given.origin, group.name)
        if given.is_dead:
            self._statistics.count_dead_letter(given.origin, group.name)
        return make_answer(request, ResponseCode.SUCCESS)

    def _read(self, position: int, topic: str | None) -> Record:
        """The message that is given back; only one that the group can have got."""
        try:
            record = self._store.read_record(position)
        except (OutOfRange, CorruptRecord) as error:
            raise MessageNotFound(f"no message at position {position} of the log: {error}") from error
        origin = record.property_map().get(RETRY_TOPIC, record.topic)
        if topic and topic not in (record.topic, origin):
            raise MessageNotFound(f"the message at position {position} is of topic {origin!r}, not of {topic!r}")
        return record
