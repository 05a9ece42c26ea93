"""Requests that an administrator sends to a consumer through the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from embermq.broker.client_calls import ask_status, relay
from embermq.broker.consumer_group import Member
from embermq.broker.tables import Tables
from embermq.errors import CorruptRecord, NotOnline, OutOfRange, TransportError
from embermq.format.command import Command, make_answer
from embermq.format.consume_status_body import encode_consume_status
from embermq.format.message_id import decode_message_id
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.rpc.fields import read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler

log = logging.getLogger(__name__)

OLDEST_VERSION = 62  # of a client that can be asked about itself: RocketMQ 3.1.8


class RelayHandlers:
    """Hands requests on to clients, and their answers back."""

    def __init__(self, tables: Tables, *, broker_name: str) -> None:
        self._tables = tables
        self._broker_name = broker_name

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.ask_running,
            RequestCode.CONSUME_DIRECTLY: self.consume_directly,
            RequestCode.GET_CONSUMER_STATUS: self.ask_offsets,
        }

    async def ask_running(self, peer: Peer, request: Command) -> Command:
        """All that a consumer tells of itself."""
        return await self._relay(request, request.fields, request.data)

    async def consume_directly(self, peer: Peer, request: Command) -> Command:
        """Have a consumer consume one message now."""
        fields = request.fields
        try:
            _, position = decode_message_id(read_text(fields, "msgId"))
            record = self._tables.store.read_record(position)
        except (OutOfRange, CorruptRecord, ValueError) as error:
            remark = f"no message {fields['msgId'][:64]!r}: {error}"
            return make_answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        topic, group = (
            self._tables.topics.find(record.topic),
            self._tables.groups.find(read_text(fields, "consumerGroup")),
        )
        told = {
            **fields,
            "brokerName": self._broker_name,
            "topicSysFlag": str(topic.sys_flag if topic else 0),
            "groupSysFlag": str(group.sys_flag if group else 0),
        }
        return await self._relay(request, told, bytes(self._tables.store.select_record(position, record.size)))

    async def ask_offsets(self, peer: Peer, request: Command) -> Command:
        """Where the members of a group say they are, all of them or one."""
        fields = request.fields
        topic, group = read_text(fields, "topic"), read_text(fields, "group")
        found = self._tables.membership.consumer(group)
        if found is None:
            raise NotOnline(f"the consumer group[{group[:255]}] not online")
        only = fields.get("clientAddr")
        members = [member for member in found.members.values() if not only or member.client_id == only]
        answers = await asyncio.gather(*(_ask(member, topic=topic, group=group) for member in members))
        clients = {
            member.client_id: offsets for member, offsets in zip(members, answers, strict=True) if offsets is not None
        }
        return make_answer(request, body=encode_consume_status(clients))

    async def _relay(self, request: Command, fields: Mapping[str, str], body: bytes) -> Command:
        name, client_id = read_text(fields, "consumerGroup"), read_text(fields, "clientId")
        group = self._tables.membership.consumer(name)
        member = group.find_member(client_id) if group else None
        if member is None:
            remark = f"The Consumer <{name[:255]}> <{client_id[:255]}> not online"
            return make_answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        if member.version < OLDEST_VERSION:
            remark = f"The Consumer <{client_id[:255]}> is of version {member.version}, which cannot be asked this"
            return make_answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        answer = await relay(member.peer, request.code, fields, body)
        return make_answer(request, answer.code, answer.fields, answer.body, remark=answer.remark)


async def _ask(member: Member, *, topic: str, group: str) -> dict[BrokerQueue, int] | None:
    """What one member says; None, and a line in the log, if it does not answer or makes no sense."""
    try:
        return await ask_status(member.peer, topic=topic, group=group)
    except (TransportError, CorruptRecord) as error:
        log.warning("member did not say where it is group=%s client=%s reason=%s", group, member.client_id, error)
        return None
