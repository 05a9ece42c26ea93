"""What brokers ask of a consumer: that members changed, to go elsewhere, how it is doing, to take one message now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from embermq.client.delivery import Verdict
from embermq.client.incoming import decode_messages
from embermq.client.membership import Membership
from embermq.client.progress import QueueProgress
from embermq.errors import EmberError
from embermq.format.command import Command, make_answer
from embermq.format.consume_status_body import encode_client_status
from embermq.format.heartbeat_body import subscribed_members
from embermq.format.offset_table_body import decode_offset_table
from embermq.format.wire_json import encode_body
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import StoredMessage
from embermq.net.connection import Connection

TakeNow = Callable[[StoredMessage, str], Awaitable[Verdict | None]]

_RESULTS: Final = {Verdict.DONE: "CR_SUCCESS", Verdict.AGAIN: "CR_LATER", Verdict.DEAD: "CR_LATER"}


class BrokerRequests:
    """Answers brokers for one member of a group."""

    def __init__(self, membership: Membership, *, take_now: TakeNow) -> None:
        self._membership = membership
        self._take_now = take_now
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, connection: Connection, request: Command) -> None:
        """Do what a broker asks; what we do not know is answered so."""
        match request.code:
            case RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                self._membership.rebalance()
            case RequestCode.RESET_CLIENT_OFFSET:
                self._reset(request)
            case RequestCode.GET_STATUS_FROM_CLIENT:
                self._answer(connection, make_answer(request, body=self._status(request)), request)
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                self._answer(connection, make_answer(request, body=self._running_info()), request)
            case RequestCode.CONSUME_DIRECTLY:
                task = asyncio.get_running_loop().create_task(self._consume_directly(connection, request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case _:
                remark = f"request type {request.code} not supported"
                self._answer(connection, make_answer(request, ResponseCode.NOT_SUPPORTED, remark=remark), request)

    def _answer(self, connection: Connection, answer: Command, request: Command) -> None:
        if not request.is_oneway:
            connection.send(answer)

    def _reset(self, request: Command) -> None:
        if request.fields.get("group") != self._membership.group:
            return
        for queue, offset in decode_offset_table(request.data).items():
            self._membership.move(queue, offset)

    def _status(self, request: Command) -> bytes:
        """How far each queue of the topic is."""
        topic = request.fields.get("topic")
        every = self._membership.progress.items()
        return encode_client_status({queue: each.committable for queue, each in every if queue.topic == topic})

    def _running_info(self) -> bytes:
        """What `mqadmin consumerStatus` shows."""
        membership = self._membership
        return encode_body(
            {
                "mqPopTable": {},
                "mqTable": {queue: _queue_members(each) for queue, each in membership.progress.items()},
                "properties": {
                    "PROP_CLIENT_VERSION": "V5_3_3",
                    "PROP_CONSUMER_START_TIMESTAMP": str(membership.began_ms),
                    "PROP_CONSUMEORDERLY": "false",
                    "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
                    "consumerGroup": membership.group,
                    "language": "PYTHON",
                },
                "statusTable": {},
                "subscriptionSet": [subscribed_members(each) for each in membership.subscriptions.values()],
                "userConsumerInfo": {},
            }
        )

    async def _consume_directly(self, connection: Connection, request: Command) -> None:
        """Hand out one message that an operator chose, and tell what became of it."""
        began = time.monotonic()
        try:
            (message,) = decode_messages(request.data)
            verdict = await self._take_now(message, request.fields.get("brokerName", ""))
            result, remark = (
                ("CR_THROW_EXCEPTION", "nobody took it in time") if verdict is None else (_RESULTS[verdict], "")
            )
        except (EmberError, ValueError) as error:
            result, remark = "CR_THROW_EXCEPTION", f"no message: {error}"
        members = {
            "autoCommit": True,
            "consumeResult": result,
            "order": False,
            "remark": remark or None,
            "spentTimeMills": int((time.monotonic() - began) * 1000),
        }
        self._answer(connection, make_answer(request, body=encode_body(members)), request)


def _queue_members(progress: QueueProgress) -> dict[str, object]:
    return {
        "cachedMsgCount": progress.waiting,
        "cachedMsgMaxOffset": progress.next_offset - 1 if progress.waiting else 0,
        "cachedMsgMinOffset": progress.committable if progress.waiting else 0,
        "cachedMsgSizeInMiB": progress.waiting_bytes >> 20,
        "commitOffset": progress.committable,
        "droped": progress.is_dropped,  # RocketMQ's spelling
        "lastConsumeTimestamp": progress.pulled_at_ms,
        "lastLockTimestamp": 0,
        "lastPullTimestamp": progress.pulled_at_ms,
        "locked": False,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }
