"""Topics and queues: their settings, and what a legal name is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final, NamedTuple

from embermq.errors import IllegalTopic
from embermq.model.flags import Permission

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
LIGHT_PREFIX: Final = "%LMQ%"
SYSTEM_PREFIX: Final = "rmq_sys_"

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"  # parks messages for a delay level
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"  # parks messages for any time
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"  # parks messages of open transactions
HALF_DONE_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"  # says which of them ended
GIVEN_UP_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"  # keeps those whose end nobody told
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TEMPLATE_TOPIC: Final = "TBW102"  # what topics made on the fly are copied from
BENCHMARK_TOPIC: Final = "BenchmarkTest"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"

SYSTEM_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC, HALF_TOPIC, HALF_DONE_TOPIC, GIVEN_UP_TOPIC, TRACE_TOPIC, TEMPLATE_TOPIC,
        BENCHMARK_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC, CHECKPOINT_TOPIC,
    }
)  # fmt: skip

# Topics that only the system may write to.
UNSENDABLE_TOPICS: Final = frozenset(
    {SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, HALF_DONE_TOPIC, GIVEN_UP_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}
)

MAX_TOPIC_SIZE: Final = 127
MAX_LONG_TOPIC_SIZE: Final = 255  # of retry and dead-letter topics, which hold a group's name
MAX_FILE_NAME_SIZE: Final = 255  # a light queue is a directory of this name

_NEAR: Final = 3  # characters by which the length of a name may differ that was meant
_MOST_COMPARED: Final = 500  # names: a search among all of many would cost a server more than the asker

_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})


class Queue(NamedTuple):
    """One queue of a topic."""

    topic: str
    queue: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue}"


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of one topic."""

    name: str
    read_queues: int = 4
    write_queues: int = 4
    permission: int = Permission.READ | Permission.WRITE
    order: bool = False
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=lambda: _NO_ATTRIBUTES)

    @property
    def queue_type(self) -> str:
        """SimpleCQ, or BatchCQ where client batches are kept as one record."""
        return self.attributes.get("queue.type", "SimpleCQ")

    @property
    def cleanup_policy(self) -> str:
        """DELETE by age, or COMPACTION, which keeps the newest message of each key."""
        return self.attributes.get("cleanup.policy", "DELETE")


def check_topic(name: str) -> None:
    """Raise IllegalTopic unless a topic may have this name."""
    if not name or name.isspace():
        raise IllegalTopic(name, "the name is blank")
    if not _LEGAL.fullmatch(name):
        raise IllegalTopic(name, "only letters, digits and the characters % | _ - may be in a name")
    long = name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
    limit = MAX_LONG_TOPIC_SIZE if long else MAX_TOPIC_SIZE
    if len(name) > limit:
        raise IllegalTopic(name, f"{len(name)} characters, limit {limit}")


def check_light_queue(name: str) -> None:
    """Raise IllegalTopic unless a light queue may have this name, which becomes the name of a directory."""
    if not name.startswith(LIGHT_PREFIX) or name == LIGHT_PREFIX:
        raise IllegalTopic(name, f"the name of a light queue is {LIGHT_PREFIX} and at least one character")
    if "/" in name or "\0" in name or "," in name:
        raise IllegalTopic(name, "the name of a light queue may not hold / , or NUL")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise IllegalTopic(name, f"no UTF-8 for it: {error.reason}") from error
    if size > MAX_FILE_NAME_SIZE:
        raise IllegalTopic(name, f"{size} bytes, limit {MAX_FILE_NAME_SIZE}")


def is_system_topic(name: str) -> bool:
    """Whether the topic belongs to the system: users neither make nor delete it."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX)


def is_directory_name(name: str) -> bool:
    """Whether queues, which are directories, can be named so: what a name from the log is checked for."""
    return (
        name not in ("", ".", "..")
        and "/" not in name
        and "\0" not in name
        and len(name.encode()) <= MAX_FILE_NAME_SIZE
    )


def is_light_queue(name: str) -> bool:
    return name.startswith(LIGHT_PREFIX)


def may_name_light_queues(topic: str) -> bool:
    """Whether light queues have the messages of this topic that name them: not while those wait somewhere else."""
    return topic != SCHEDULE_TOPIC and not topic.startswith((RETRY_PREFIX, SYSTEM_PREFIX))


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was perhaps meant; None for a name that is not typed, such as that of a retry topic."""
    if name.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
        return None
    alike = [each for each in known if abs(len(each) - len(name)) <= _NEAR]
    return next(iter(get_close_matches(name[:300], alike[:_MOST_COMPARED], n=1)), None)
