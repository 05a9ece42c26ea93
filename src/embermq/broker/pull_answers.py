"""What a PULL is answered with: the outcome, where to go on, and the records as they lie in the log."""

from __future__ import annotations

from typing import Final

from embermq.format.command import VERSION, Command, EncodedAnswer, make_answer
from embermq.format.frame import JSON_FORM
from embermq.model.codes import ResponseCode
from embermq.model.group import GroupConfig
from embermq.model.topic import TopicConfig
from embermq.store.gathering import FoundBytes
from embermq.store.reading import ReadStatus

OUTCOMES: Final = {
    ReadStatus.FOUND: ("FOUND", ResponseCode.SUCCESS),
    ReadStatus.NO_MATCH: ("NO_MATCHED_MESSAGE", ResponseCode.PULL_RETRY_IMMEDIATELY),
    ReadStatus.REMOVED: ("MESSAGE_WAS_REMOVING", ResponseCode.PULL_RETRY_IMMEDIATELY),
    ReadStatus.NO_QUEUE: ("NO_MATCHED_LOGIC_QUEUE", ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.EMPTY: ("NO_MESSAGE_IN_QUEUE", ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.TOO_SMALL: ("OFFSET_TOO_SMALL", ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.AT_END: ("OFFSET_OVERFLOW_ONE", ResponseCode.PULL_NOT_FOUND),
    ReadStatus.BEYOND: ("OFFSET_OVERFLOW_BADLY", ResponseCode.PULL_OFFSET_MOVED),
}
NOTHING_YET: Final = (ReadStatus.NO_QUEUE, ReadStatus.EMPTY)


def found_answer(request: Command, topic: TopicConfig, group: GroupConfig, found: FoundBytes) -> Command:
    """The answer to a pull for which there are records."""
    if request.form != JSON_FORM:
        fields = pull_fields(topic, group, found.next_offset, found.min_offset, found.max_offset)
        return make_answer(request, ResponseCode.SUCCESS, fields, tuple(found.parts), remark="FOUND")
    _, next_offset, low, high, _, size, parts = found
    header = (
        f'{{"code":0,"extFields":{{"suggestWhichBrokerId":"0","groupSysFlag":"{group.sys_flag}",'
        f'"nextBeginOffset":"{next_offset}","maxOffset":"{high}","minOffset":"{low}",'
        f'"topicSysFlag":"{topic.sys_flag}"}},"flag":1,"language":"PYTHON","opaque":{request.opaque},'
        f'"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
    )
    return EncodedAnswer(ResponseCode.SUCCESS, header.encode(), tuple(parts), size, request.opaque)


def missed_answer(
    request: Command, topic: TopicConfig, group: GroupConfig, found: FoundBytes, *, offset: int
) -> Command:
    """The answer to a pull from `offset` on for which there are none."""
    remark, code = OUTCOMES[found.status]
    if found.status in NOTHING_YET and offset == 0:
        code = ResponseCode.PULL_NOT_FOUND
    fields = pull_fields(topic, group, found.next_offset, found.min_offset, found.max_offset)
    return make_answer(request, code, fields, remark=remark)


def pull_fields(topic: TopicConfig, group: GroupConfig, next_offset: int, low: int, high: int) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "groupSysFlag": str(group.sys_flag),
        "nextBeginOffset": str(next_offset),
        "maxOffset": str(high),
        "minOffset": str(low),
        "topicSysFlag": str(topic.sys_flag),
    }
