"""Answers that say no, as errors of ours."""

from __future__ import annotations

from embermq import errors
from embermq.format.command import Command
from embermq.model.codes import ResponseCode


def check_answer(answer: Command, asked: str, *, topic: str | None = None, group: str | None = None) -> Command:
    """`answer` if it says yes; raises what it says otherwise. `asked` tells, for the message, what was asked."""
    if answer.code != ResponseCode.SUCCESS:
        raise refusal_of(answer, asked, topic=topic, group=group)
    return answer


def refusal_of(answer: Command, asked: str, *, topic: str | None = None, group: str | None = None) -> errors.EmberError:
    """The error that `answer` stands for: one with a name where we have one, else Refused."""
    said = f"{asked}: {answer.remark or 'no reason given'}"
    match answer.code:
        case ResponseCode.TOPIC_NOT_EXIST if topic is not None:
            return errors.TopicNotFound(topic)
        case ResponseCode.GROUP_NOT_EXIST if group is not None:
            return errors.GroupNotFound(group)
        case ResponseCode.QUERY_NOT_FOUND:
            return errors.MessageNotFound(said)
        case ResponseCode.NO_PERMISSION:
            return errors.NotPermitted(said)
        case ResponseCode.CONSUMER_NOT_ONLINE:
            return errors.NotOnline(said)
        case ResponseCode.SUBSCRIPTION_PARSE_FAILED:
            return errors.IllegalFilter(said)
        case ResponseCode.SUBSCRIPTION_NOT_EXIST:
            return errors.NotSubscribed(said)
        case ResponseCode.MESSAGE_ILLEGAL:
            return errors.IllegalMessage(said)
        case ResponseCode.NOT_SUPPORTED:
            return errors.NotSupported(said)
    return errors.Refused(answer.code, answer.remark, asked=asked)
