"""RECALL_MESSAGE takes a waiting message back; replicas ask how far the timer is and what waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from embermq.broker.intake import born_of
from embermq.broker.parking import Parking, Target
from embermq.broker.puts import Puts
from embermq.broker.settings import BrokerSettings
from embermq.broker.topics import BrokerTopics
from embermq.clock import Clock
from embermq.errors import IllegalRecall, NotPermitted, NotSupported
from embermq.format.command import Command, make_answer
from embermq.format.recall_handle import RecallHandle, decode_recall_handle
from embermq.format.record import DraftFields
from embermq.format.timer_check import encode_timer_check
from embermq.format.timer_metrics import encode_timer_metrics
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.flags import Permission
from embermq.model.properties import (
    BORN_TIMESTAMP,
    PRODUCER_GROUP,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
    check_characters,
    format_properties,
)
from embermq.rpc.fields import read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler
from embermq.timers.timers import Timers

RECALL_TAG: Final = "_RECALL_TAG_"
RECALL_BODY: Final = b"0"


class TimerHandlers:
    """Answers what is asked about messages that wait for a time."""

    def __init__(
        self,
        timers: Timers | None,
        parking: Parking,
        puts: Puts,
        topics: BrokerTopics,
        *,
        settings: Callable[[], BrokerSettings],
        clock: Clock,
    ) -> None:
        self._timers = timers
        self._parking = parking
        self._puts = puts
        self._topics = topics
        self._settings = settings
        self._clock = clock

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.RECALL_MESSAGE: self.recall,
            RequestCode.GET_TIMER_CHECK_POINT: self.check_point,
            RequestCode.GET_TIMER_METRICS: self.metrics,
        }

    async def recall(self, peer: Peer, request: Command) -> Command:
        """Have a message that waits cancelled: another one is put into its slot that says so."""
        settings = self._settings()
        if not settings.recall:
            raise NotPermitted("this broker lets nobody recall messages (recall = no)")
        if not settings.permission & Permission.WRITE:
            raise NotPermitted(f"broker {settings.name!r} takes no messages; give it write permission")
        topic = self._topics.read(read_text(request.fields, "topic")).name
        handle = decode_recall_handle(read_text(request.fields, "recallHandle"))
        self._check(handle, topic, settings)
        draft = self._cancelling(handle, request.fields.get("producerGroup") or "", peer)
        await self._puts.put([draft])
        return make_answer(request, ResponseCode.SUCCESS, {"msgId": handle.unique_key})

    def _check(self, handle: RecallHandle, topic: str, settings: BrokerSettings) -> None:
        if handle.topic != topic:
            raise IllegalRecall(f"the handle is of topic {handle.topic[:200]!r}, not of {topic!r}")
        if handle.broker != settings.name:
            raise IllegalRecall(f"the handle is of broker {handle.broker[:200]!r}; this is {settings.name!r}")
        left = handle.time_ms - self._clock.now_ms()
        if left <= 0:
            raise IllegalRecall("the message is due; only one that still waits can be recalled")
        if left > settings.timer_max_delay_s * 1000:
            raise IllegalRecall(f"no message waits that long; the limit is {settings.timer_max_delay_s} s")
        if self._timers is None:
            raise NotSupported("nothing waits: this broker delivers at no given time (timers = no)")

    def _cancelling(self, handle: RecallHandle, group: str, peer: Peer) -> DraftFields:
        """The message that cancels another. Raises IllegalProperty for what cannot be written down."""
        now = self._clock.now_ms()
        properties = {
            TIMER_DEL_UNIQKEY: f"{handle.topic}+{handle.unique_key}",
            UNIQ_KEY: handle.unique_key,
            TIMER_DELIVER_MS: str(handle.time_ms),
            BORN_TIMESTAMP: str(now),
            TAGS: RECALL_TAG,
        }
        if group:
            properties[PRODUCER_GROUP] = group
        for name, value in properties.items():
            check_characters(name, value)
        parked = self._parking.park_until(Target(handle.topic, 0, properties), handle.time_ms)
        born = born_of(peer.peer)
        data = format_properties(parked.properties)
        return (parked.topic.encode(), parked.queue, RECALL_BODY, data, 0, born.flag, now, born.host, 0, 0)

    def check_point(self, _: Peer, request: Command) -> Command:
        """How far the timer is, in the bytes of its file."""
        return make_answer(request, body=encode_timer_check(self._read().check()))

    def metrics(self, _: Peer, request: Command) -> Command:
        """How many messages wait for each topic."""
        return make_answer(request, body=encode_timer_metrics(self._read().waiting.metrics()))

    def _read(self) -> Timers:
        if self._timers is None:
            raise NotSupported("this broker delivers at no given time (timers = no)")
        return self._timers
