"""SEND_REPLY_MESSAGE: the answer of a consumer to a request, pushed to whoever asked, and kept.

The requester is told first; whether that worked is what the replier learns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from embermq.broker.client_calls import push_reply
from embermq.broker.intake import Intake, Sent, born_of, short_fields
from embermq.broker.membership import Membership
from embermq.broker.puts import Puts
from embermq.broker.settings import BrokerSettings
from embermq.clock import Clock
from embermq.errors import NotOnline, RequestError, StoreError, TransportError
from embermq.format.command import Command, make_answer
from embermq.format.host import encode_host
from embermq.format.message_id import encode_message_id
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import Host
from embermq.model.properties import (
    MSG_REGION,
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    TRACE_ON,
    format_properties,
    parse_properties,
)
from embermq.rpc.outcome import make_refusal
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler

log = logging.getLogger(__name__)


class ReplyHandlers:
    """Hands replies to those who asked."""

    def __init__(
        self,
        intake: Intake,
        puts: Puts,
        membership: Membership,
        settings: BrokerSettings,
        *,
        host_of: Callable[[Peer], Host],
        clock: Clock,
    ) -> None:
        self._intake = intake
        self._puts = puts
        self._membership = membership
        self.settings = settings  # replaced when one is changed at run time
        self._host_of = host_of
        self._clock = clock
        self._always = {MSG_REGION: settings.region, TRACE_ON: "true"}

    def routes(self) -> dict[int, Handler]:
        return {RequestCode.SEND_REPLY_MESSAGE: self.reply, RequestCode.SEND_REPLY_MESSAGE_V2: self.reply}

    async def reply(self, peer: Peer, request: Command) -> Command:
        sent = self._intake.careful(request, born_of(peer.peer))
        fields = {"msgId": "0", "queueId": str(sent.queue), "queueOffset": "0", **self._always}
        code, remark = ResponseCode.SUCCESS, None
        try:
            await self._push(peer, request)
        except (RequestError, TransportError) as error:
            code, remark = ResponseCode.SYSTEM_ERROR, f"push reply message fail: {error}"
            log.warning("reply not delivered peer=%s reason=%s", peer.peer, error)
        if self.settings.keep_replies:
            fields |= await self._keep(peer, request, sent)
        return make_answer(request, code, fields, remark=remark)

    async def _push(self, peer: Peer, request: Command) -> None:
        fields = short_fields(request)
        properties = parse_properties(fields.get("i", "").encode(errors="replace"))
        client = properties.get(REPLY_TO_CLIENT)
        if not client:
            raise NotOnline(f"property {REPLY_TO_CLIENT} of the reply is missing; it names who asked")
        requester = self._membership.producer_peer(client)
        if requester is None:
            raise NotOnline(f"channel of {client!r} not found; the client that asked is no longer connected")
        now = self._clock.now_ms()
        properties |= {**self._always, PUSH_REPLY_TIME: str(now)}
        told = {
            "producerGroup": fields.get("a", ""),
            "topic": fields.get("b", ""),
            "defaultTopic": fields.get("c", ""),
            "defaultTopicQueueNums": fields.get("d", "4"),
            "queueId": fields.get("e", "0"),
            "sysFlag": fields.get("f", "0"),
            "bornTimestamp": fields.get("g", "0"),
            "flag": fields.get("h", "0"),
            "properties": format_properties(properties).decode(),
            "reconsumeTimes": fields.get("j", "0"),
            "unitMode": fields.get("k", "false"),
            "bornHost": str(peer.peer),
            "storeHost": str(self._host_of(peer)),
            "storeTimestamp": str(now),
        }
        answer = await push_reply(requester, told, request.data)
        if answer.code != ResponseCode.SUCCESS:
            raise NotOnline(f"{client!r} answered with code {answer.code}: {answer.remark}")

    async def _keep(self, peer: Peer, request: Command, sent: Sent) -> dict[str, str]:
        """Store the reply in its topic; tells where it is. One that cannot be kept was delivered all the same."""
        try:
            submitted = await self._puts.put(sent.drafts)
        except (RequestError, StoreError) as error:
            log.warning("reply not kept peer=%s reason=%s", peer.peer, make_refusal(request, error).remark)
            return {}
        host = encode_host(self._host_of(peer))
        return {
            "msgId": encode_message_id(host, submitted.positions[0]),
            "queueOffset": str(submitted.offsets[0]),
        }
