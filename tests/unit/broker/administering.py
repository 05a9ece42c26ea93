"""The parts of a broker that have to do with its administration, over a real store, and requests to them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embermq import Store
from embermq.broker.handlers.assignment import AssignmentHandlers
from embermq.broker.handlers.broker_admin import BrokerAdminHandlers
from embermq.broker.handlers.group_admin import GroupAdminHandlers
from embermq.broker.handlers.stats import StatsHandlers
from embermq.broker.handlers.topic_admin import TopicAdminHandlers
from embermq.broker.live_settings import LiveSettings
from embermq.broker.membership import Membership
from embermq.broker.request_modes import MODES_FILE, RequestModes
from embermq.broker.runtime_info import RuntimeInfo
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.topics import BrokerTopics
from embermq.errors import EmberError
from embermq.format.command import Command, make_request
from embermq.format.heartbeat_body import Consumes, Heartbeat
from embermq.format.tables import DelayTable
from embermq.model.codes import RequestCode
from embermq.model.subscription import Subscribed
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion
from embermq.rpc.outcome import make_refusal
from embermq.rpc.router import Handler
from embermq.store.groups import GROUPS_FILE, Groups
from embermq.store.offsets import OFFSETS_FILE, ConsumerOffsets
from tests.builders import a_store
from tests.unit.broker.peers import RecordingPeer, SteppedClock

BROKER = "broker-a"


@dataclass
class Administering:
    """A broker as far as its administrators are concerned."""

    store: Store
    clock: SteppedClock
    topics: BrokerTopics
    groups: Groups
    offsets: ConsumerOffsets
    membership: Membership
    statistics: BrokerStatistics
    live: LiveSettings
    modes: RequestModes
    serves_pop: bool = False

    def routes(self) -> dict[int, Handler]:
        delays = DelayTable(DataVersion(), {})
        runtime = RuntimeInfo(self.store, self.statistics, delays=lambda: delays, clock=self.clock)
        kept = (self.offsets, self.statistics, self.modes)
        shares = AssignmentHandlers(
            self.topics, self.groups, self.membership, self.modes, broker_name=BROKER, serves_pop=self.serves_pop
        )
        return {
            **TopicAdminHandlers(self.store, self.topics, *kept, broker_name=BROKER).routes(),
            **GroupAdminHandlers(self.groups, *kept).routes(),
            **StatsHandlers(self.statistics).routes(),
            **BrokerAdminHandlers(self.store, self.live, runtime).routes(),
            **shares.routes(),
        }

    def ask(self, code: RequestCode, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Command:
        """The answer to a request, of a handler that fails, too."""
        return self.answer(make_request(code, {name: str(value) for name, value in (fields or {}).items()}, body))

    def answer(self, request: Command) -> Command:
        return asyncio.run(self._answer(request))

    async def _answer(self, request: Command) -> Command:
        try:
            answer = self.routes()[request.code](RecordingPeer(), request)
            answer = await answer if inspect.isawaitable(answer) else answer
        except EmberError as error:
            return make_refusal(request, error)
        assert answer is not None
        assert answer.opaque == request.opaque
        assert answer.is_answer
        return answer

    def make_topic(self, name: str, queues: int = 2, **settings: Any) -> TopicConfig:
        config = TopicConfig(name, read_queues=queues, write_queues=queues, **settings)
        self.topics.save(config)
        return config

    def join(self, group: str, *client_ids: str, topic: str = "orders") -> None:
        """Consumers of a topic come."""
        for client_id in client_ids:
            heartbeat = Heartbeat(client_id, consumers=(Consumes(group, (Subscribed(topic, version=1),)),))
            self.membership.heartbeat(RecordingPeer(), make_request(RequestCode.HEART_BEAT), heartbeat)


@contextmanager
def an_administering(path: Path, **settings: Any) -> Iterator[Administering]:
    """Open the parts in directory `path`."""
    clock = SteppedClock()
    broker = BrokerSettings(name=BROKER, **settings)
    config = path / "config"
    with a_store(path, clock=clock) as store:
        topics = BrokerTopics(store, broker)
        groups = Groups(config / GROUPS_FILE, clock=clock, auto_create=broker.auto_create_groups)
        yield Administering(
            store=store,
            clock=clock,
            topics=topics,
            groups=groups,
            offsets=ConsumerOffsets(config / OFFSETS_FILE, clock=clock),
            membership=Membership(groups, topics, clock, broker),
            statistics=BrokerStatistics(clock),
            live=LiveSettings(store, broker, clock=clock, fixed={"brokerRole": "ASYNC_MASTER"}),
            modes=RequestModes(config / MODES_FILE),
        )
