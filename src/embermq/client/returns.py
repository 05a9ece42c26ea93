"""Giving messages back: the broker brings them again, from the retry topic of the group."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from embermq.client.answers import check_answer
from embermq.client.connections import Connections
from embermq.client.delivery import Delivery, Verdict
from embermq.client.outgoing import send_fields
from embermq.client.retry import Backoff, is_passing
from embermq.client.routes import Routes
from embermq.errors import EmberError, NoRoute
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode
from embermq.model.properties import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC, format_properties
from embermq.model.topic import RETRY_PREFIX

log = logging.getLogger(__name__)

DEFAULT_MOST_RETRIES: Final = 16
_FIRST_LEVEL: Final = 3  # the delay level of a first retry


class Returns:
    """Gives messages of one group back to their brokers."""

    def __init__(
        self, connections: Connections, routes: Routes, *, group: str, most_retries: int | None, timeout_s: float
    ) -> None:
        self._connections = connections
        self._routes = routes
        self._group = group
        self._most_retries = DEFAULT_MOST_RETRIES if most_retries is None else most_retries
        self._timeout_s = timeout_s

    async def give_back(self, delivery: Delivery) -> None:
        """Return when the broker has it; goes on trying until then, or until it is cancelled."""
        backoff = Backoff()
        while True:
            try:
                return await self._give_back_once(delivery)
            except EmberError as error:
                wait_s = backoff.next()
                log.warning(
                    "give back failed group=%s message=%s retry_s=%.2f cause=%s",
                    self._group, delivery.message_id, wait_s, error,
                )  # fmt: skip
            await asyncio.sleep(wait_s)

    async def _give_back_once(self, delivery: Delivery) -> None:
        try:
            await self._send_back(delivery)
        except EmberError as error:
            if is_passing(error) or isinstance(error, NoRoute) or delivery.verdict is Verdict.DEAD:
                raise
            # The broker cannot find or copy it, so we send a copy, as RocketMQ's clients do.
            log.warning("sent as a copy group=%s message=%s cause=%s", self._group, delivery.message_id, error)
            await self._send_copy(delivery)

    async def _send_back(self, delivery: Delivery) -> None:
        message = delivery.message
        fields = {
            "offset": str(message.position),
            "group": self._group,
            "delayLevel": str(delivery.level),
            "originMsgId": delivery.unique_key,
            "originTopic": message.topic,
            "unitMode": "false",
            "maxReconsumeTimes": str(self._most_retries),
            "bname": delivery.broker,
        }
        answer = await self._connections.call(
            await self._address(delivery), RequestCode.CONSUMER_SEND_MSG_BACK, fields, timeout_s=self._timeout_s
        )
        check_answer(answer, f"give back {delivery.message_id}", topic=message.topic, group=self._group)

    async def _send_copy(self, delivery: Delivery) -> None:
        message = delivery.message
        times = message.reconsume_times
        properties = {
            **message.properties,
            RETRY_TOPIC: message.properties.get(RETRY_TOPIC, message.topic),
            ORIGIN_MESSAGE_ID: message.properties.get(ORIGIN_MESSAGE_ID, message.message_id),
            DELAY: str(delivery.level or _FIRST_LEVEL + times),
        }
        fields = send_fields(
            BrokerQueue(delivery.broker, f"{RETRY_PREFIX}{self._group}", 0),
            group="CLIENT_INNER_PRODUCER",
            properties=format_properties(properties).decode(),
            sys_flag=0,  # its body is unpacked already
            flag=message.flag,
            born_ms=time.time_ns() // 1_000_000,
            is_batch=False,
            reconsume_times=times + 1,
            max_reconsume_times=self._most_retries,
        )
        address = await self._address(delivery)
        answer = await self._connections.call(
            address, RequestCode.SEND_MESSAGE_V2, fields, message.body, timeout_s=self._timeout_s
        )
        check_answer(answer, f"copy of {delivery.message_id} to the retries", group=self._group)

    async def _address(self, delivery: Delivery) -> str:
        route = await self._routes.read(delivery.topic)
        return route.address_of(delivery.broker)
