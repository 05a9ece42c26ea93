"""What a request is answered with when it failed: every error's code, in one place."""

from __future__ import annotations

import asyncio
from typing import Final

from embermq import errors
from embermq.format.command import Command, make_answer
from embermq.model.codes import ResponseCode

MAX_REMARK_SIZE: Final = 4096  # characters; what was asked may be quoted in it, and be as long as a frame

# The first that fits counts, so the narrow ones stand before the wide ones.
_CODES: tuple[tuple[type[BaseException], ResponseCode], ...] = (
    (errors.TopicNotFound, ResponseCode.TOPIC_NOT_EXIST),
    (errors.GroupNotFound, ResponseCode.GROUP_NOT_EXIST),
    (errors.MessageNotFound, ResponseCode.QUERY_NOT_FOUND),
    (errors.TransactionTooLate, ResponseCode.ILLEGAL_OPERATION),
    (errors.NotPopped, ResponseCode.NO_MESSAGE),
    (errors.StagedMissing, ResponseCode.QUERY_NOT_FOUND),
    (errors.NotSubscribed, ResponseCode.SUBSCRIPTION_NOT_EXIST),
    (errors.SubscriptionOutdated, ResponseCode.SUBSCRIPTION_NOT_LATEST),
    (errors.NotOnline, ResponseCode.CONSUMER_NOT_ONLINE),
    (errors.NotLeader, ResponseCode.NOT_LEADER_FOR_QUEUE),
    (errors.NotPermitted, ResponseCode.NO_PERMISSION),
    (errors.NotSupported, ResponseCode.NOT_SUPPORTED),
    (errors.IllegalField, ResponseCode.INVALID_PARAMETER),
    (errors.IllegalFilter, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    (errors.IllegalGroup, ResponseCode.INVALID_PARAMETER),
    (errors.IllegalTopic, ResponseCode.INVALID_PARAMETER),
    (errors.IllegalQueue, ResponseCode.INVALID_PARAMETER),
    (errors.IllegalRecall, ResponseCode.ILLEGAL_OPERATION),
    (errors.IllegalMessage, ResponseCode.MESSAGE_ILLEGAL),
    (errors.SettingsError, ResponseCode.INVALID_PARAMETER),
    (errors.StoreBusy, ResponseCode.SYSTEM_BUSY),
    (errors.FlushTimeout, ResponseCode.FLUSH_DISK_TIMEOUT),
    (errors.StoreUnwritable, ResponseCode.SERVICE_NOT_AVAILABLE),
    (errors.StoreClosed, ResponseCode.SERVICE_NOT_AVAILABLE),
    (errors.CallTimeout, ResponseCode.CONSUME_MSG_TIMEOUT),
    (asyncio.CancelledError, ResponseCode.SERVICE_NOT_AVAILABLE),
)


def code_of(error: BaseException) -> ResponseCode:
    """The response code for `error`; SYSTEM_ERROR for one that nobody foresaw."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ResponseCode.SYSTEM_ERROR)


def make_refusal(request: Command, error: BaseException) -> Command:
    """The answer to a request that failed with `error`."""
    remark = str(error) if isinstance(error, errors.EmberError) else f"{type(error).__name__}: {error}"
    return make_answer(request, code_of(error), remark=remark[:MAX_REMARK_SIZE])
