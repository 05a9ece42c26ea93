"""Consumer groups: made, changed, deleted, listed, and what is forbidden to them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from embermq.broker.handlers.paging import find_page, read_body
from embermq.broker.request_modes import RequestModes
from embermq.broker.statistics import BrokerStatistics
from embermq.errors import GroupNotFound, IllegalAttribute, IllegalField
from embermq.format.command import Command, make_answer
from embermq.format.group_body import (
    Readable,
    decode_group,
    decode_group_configs,
    encode_group,
    encode_group_table,
    encode_readable,
)
from embermq.model.codes import RequestCode
from embermq.model.group import GroupConfig, check_group
from embermq.model.topic import check_topic
from embermq.rpc.fields import find_boolean, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler
from embermq.store.groups import Groups
from embermq.store.offsets import ConsumerOffsets

log = logging.getLogger(__name__)

MOST_RETRY_QUEUES: Final = 1024


class GroupAdminHandlers:
    """Answers those who look after consumer groups."""

    def __init__(
        self, groups: Groups, offsets: ConsumerOffsets, statistics: BrokerStatistics, modes: RequestModes
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._statistics = statistics
        self._modes = modes

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_GROUP: self.update,
            RequestCode.UPDATE_AND_CREATE_GROUP_LIST: self.update_list,
            RequestCode.DELETE_GROUP: self.delete,
            RequestCode.GET_ALL_GROUP_CONFIG: self.list_all,
            RequestCode.GET_GROUP_CONFIG: self.show,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.forbid,
        }

    def update(self, peer: Peer, request: Command) -> Command:
        """Make a group, or change it."""
        self._save(peer, [read_body(request.data, decode_group)])
        return make_answer(request)

    def update_list(self, peer: Peer, request: Command) -> Command:
        """Make or change many groups: all of them or none."""
        self._save(peer, read_body(request.data, decode_group_configs))
        return make_answer(request)

    def delete(self, peer: Peer, request: Command) -> Command:
        """Forget a group, and with `cleanOffset` where it was. One that is not there is as good as deleted."""
        name = read_text(request.fields, "groupName")
        check_group(name)
        with_offsets = find_boolean(request.fields, "cleanOffset") or False
        if self._groups.find(name) is not None:
            self._groups.delete(name)
            log.warning("group deleted group=%s offsets_too=%s by=%s", name, with_offsets, peer.peer)
        if with_offsets:
            self._offsets.forget_group(name)
        else:
            self._drop_resets(name)
        self._statistics.forget_group(name)
        self._modes.forget_group(name)
        return make_answer(request)

    def list_all(self, peer: Peer, request: Command) -> Command:
        """All groups and the version of their table, or one page of them."""
        table = self._groups.table()
        page = find_page(request.fields, table.groups, table.version, begin="groupSeq", most="maxGroupNum")
        groups = list(table.groups.values()) if page is None else [table.groups[name] for name in page]
        forbidden = {group.name: table.forbidden[group.name] for group in groups if group.name in table.forbidden}
        told = {} if page is None else {"totalGroupNum": str(len(table.groups))}
        return make_answer(request, fields=told, body=encode_group_table(table.version, groups, forbidden=forbidden))

    def show(self, peer: Peer, request: Command) -> Command:
        """The settings of one group, which is not made by asking for it."""
        name = read_text(request.fields, "group")
        found = self._groups.find(name)
        if found is None:
            raise GroupNotFound(name)
        return make_answer(request, body=encode_group(found))

    def forbid(self, peer: Peer, request: Command) -> Command:
        """Whether a group may read a topic; with `readable`, whether it may from now on."""
        group, topic = read_text(request.fields, "group"), read_text(request.fields, "topic")
        check_group(group)
        check_topic(topic)
        readable = find_boolean(request.fields, "readable")
        if readable is not None:
            self._groups.read(group)
            self._groups.set_forbidden(group, topic, readable)
            log.info("reading changed group=%s topic=%s readable=%s by=%s", group, topic, readable, peer.peer)
        body = encode_readable(Readable(group, topic, not self._groups.is_forbidden(group, topic)))
        return make_answer(request, body=body)

    def _save(self, peer: Peer, wanted: list[GroupConfig]) -> None:
        configs = [_checked(config, self._groups.find(config.name)) for config in wanted]
        changed = [config for config in configs if self._groups.find(config.name) != config]
        if changed:
            self._groups.save(*changed)
            log.info("groups changed groups=%s by=%s", ",".join(config.name for config in changed), peer.peer)

    def _drop_resets(self, group: str) -> None:
        """An offset that the group was to be told is not for another one of the same name."""
        for topic in self._offsets.topics_of(group):
            for queue in list(self._offsets.queues(topic, group)):
                self._offsets.take_reset(topic, group, queue)


def _checked(config: GroupConfig, current: GroupConfig | None) -> GroupConfig:
    """`config` with the attributes it is to have: a group has none but those it came with. Raises a RequestError."""
    check_group(config.name)
    if not 0 <= config.retry_queues <= MOST_RETRY_QUEUES:
        raise IllegalField("retryQueueNums", f"{config.retry_queues} queues; 0 to {MOST_RETRY_QUEUES} are possible")
    attributes = dict(current.attributes) if current else {}
    for signed, value in config.attributes.items():
        name = signed.lstrip("+-")
        if name not in attributes:
            raise IllegalAttribute(name, "groups have no attributes")
        if signed[:1] == "-":
            del attributes[name]
        else:
            attributes[name] = value
    return replace(config, attributes=attributes)
