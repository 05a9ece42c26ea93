"""What a request can need: an action on a topic, a group or the cluster, taken from its fields or its body.

Where several actions are given, any of them is enough. A retry topic belongs to its group, so
whoever may consume as the group may read and write it, and nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from embermq.errors import AccessDenied
from embermq.format.command import Command
from embermq.model.access import Action, Kind, Resource
from embermq.model.pop import origin_of
from embermq.model.topic import RETRY_PREFIX


class Need(NamedTuple):
    """One of these actions on this resource; a cluster without a name is the one that is asked."""

    resource: Resource
    actions: tuple[Action, ...]


Part = Callable[[Command], Iterable[Need]]  # what it finds in a request, as needs. Raises AccessDenied


class Names(NamedTuple):
    """The groups and topics that a body names."""

    groups: Sequence[str] = ()
    topics: Sequence[str] = ()


def topic_need(topic: str, actions: tuple[Action, ...]) -> Need:
    """The need for a topic; for a retry topic, that for its group."""
    if not topic.startswith(RETRY_PREFIX):
        return Need(Resource(Kind.TOPIC, topic), actions)
    group = topic.removeprefix(RETRY_PREFIX)
    on_group = (Action.SUB if action is Action.PUB else action for action in actions)
    return Need(Resource(Kind.GROUP, group), tuple(on_group))


def topic(*actions: Action, field: str = "topic") -> Part:
    return lambda request: (topic_need(_read(request, field), actions),)


def popped_topic(*actions: Action) -> Part:
    """The topic that a message was popped from; for one from the retry topic of the group, that where it came from."""
    return lambda request: (topic_need(origin_of(_read(request, "topic"), _read(request, "consumerGroup")), actions),)


def topics_if_given(*actions: Action, field: str = "topic") -> Part:
    """The topics that a field names, joined by `;`; the field may be missing."""
    return lambda request: [topic_need(name, actions) for name in request.fields.get(field, "").split(";") if name]


def group(*actions: Action, field: str = "consumerGroup") -> Part:
    return lambda request: (Need(Resource(Kind.GROUP, _read(request, field)), actions),)


def groups_if_given(*actions: Action, field: str = "consumerGroup") -> Part:
    """The groups that a field names, joined by `;` or `,`; the field may be missing."""

    def part(request: Command) -> Iterable[Need]:
        names = request.fields.get(field, "").replace(",", ";").split(";")
        return [Need(Resource(Kind.GROUP, name), actions) for name in names if name]

    return part


def every(kind: Kind, *actions: Action) -> Part:
    """All topics, or all groups: what only an entry for the whole kind allows."""
    return lambda request: (Need(Resource(kind, None), actions),)


def cluster(*actions: Action) -> Part:
    return lambda request: (Need(Resource(Kind.CLUSTER, None), actions),)


def body(names: Callable[[bytes], Names], *actions: Action) -> Part:
    """Every group and every topic that the body names."""

    def part(request: Command) -> Iterable[Need]:
        found = names(request.data)
        yield from (Need(Resource(Kind.GROUP, name), actions) for name in found.groups)
        yield from (topic_need(name, actions) for name in found.topics)

    return part


def either(field: str, *, given: Part, missing: Part) -> Part:
    """One part for requests with this field, another for those without."""
    return lambda request: (given if request.fields.get(field) else missing)(request)


def _read(request: Command, field: str) -> str:
    value = request.fields.get(field)
    if not value:
        raise AccessDenied(f"request {request.code} must name what it is about: its field {field!r} is missing")
    return value
