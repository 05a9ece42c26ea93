"""The parts of a broker that have to do with consumers, over a real store, and requests to them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embermq import Store
from embermq.broker.handlers.clients import ClientHandlers
from embermq.broker.handlers.consume_stats import ConsumeStatsHandlers
from embermq.broker.handlers.offsets import OffsetHandlers
from embermq.broker.handlers.relays import RelayHandlers
from embermq.broker.handlers.resets import ResetHandlers
from embermq.broker.locks import QueueLocks
from embermq.broker.membership import Membership
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.broker.topics import BrokerTopics
from embermq.errors import EmberError
from embermq.format.command import Command, make_request
from embermq.format.heartbeat_body import Consumes, Heartbeat, encode_heartbeat
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
class Consuming:
    """A broker as far as consumers are concerned."""

    store: Store
    clock: SteppedClock
    settings: BrokerSettings
    topics: BrokerTopics
    groups: Groups
    offsets: ConsumerOffsets
    membership: Membership
    locks: QueueLocks
    statistics: BrokerStatistics
    woken: list[tuple[str, int]] = field(default_factory=list)
    young_bytes: int = 2**40

    def make_topic(self, name: str, queues: int = 2, **settings: Any) -> TopicConfig:
        config = TopicConfig(name, read_queues=queues, write_queues=queues, **settings)
        self.topics.save(config)
        return config

    def routes(self) -> dict[int, Handler]:
        tables = Tables(self.store, self.topics, self.groups, self.offsets, self.membership)
        delays = DelayTable(DataVersion(0, 1, 2), {1: 5})
        stats = ConsumeStatsHandlers(
            tables, self.statistics, broker_name=BROKER, host_of=lambda peer: peer.local, clock=self.clock
        )
        resets = ResetHandlers(
            tables, broker_name=BROKER, wake=lambda topic, queue: self.woken.append((topic, queue)), push_after_s=0.01
        )
        return {
            **ClientHandlers(self.membership, self.locks, self.settings, clock=self.clock).routes(),
            **OffsetHandlers(tables, delays=lambda: delays, young_bytes=self.young_bytes).routes(),
            **stats.routes(),
            **RelayHandlers(tables, broker_name=BROKER).routes(),
            **resets.routes(),
        }

    def ask(
        self,
        code: int,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        *,
        by: RecordingPeer | None = None,
    ) -> Command:
        """The answer to a request, of a handler that fails, too."""
        texts = {name: str(value) for name, value in (fields or {}).items()}
        return self.answer(make_request(code, texts, body), by=by)

    def answer(self, request: Command, *, by: RecordingPeer | None = None) -> Command:
        return asyncio.run(self._answer(request, by or RecordingPeer()))

    async def _answer(self, request: Command, peer: RecordingPeer) -> Command:
        try:
            answer = self.routes()[request.code](peer, request)
            answer = await answer if inspect.isawaitable(answer) else answer
        except EmberError as error:
            return make_refusal(request, error)
        assert answer is not None
        assert answer.opaque == request.opaque
        assert answer.is_answer
        return answer

    def join(
        self,
        group: str,
        client_id: str,
        topics: Mapping[str, str] | None = None,
        *,
        peer: RecordingPeer | None = None,
        version: int = 1,
        **consumes: Any,
    ) -> RecordingPeer:
        """A consumer's heartbeat; `topics` are expressions by topic."""
        peer = peer or RecordingPeer()
        wanted = tuple(
            Subscribed(topic, expression, version=version) for topic, expression in (topics or {"orders": "*"}).items()
        )
        beat(self, peer, Heartbeat(client_id, consumers=(Consumes(group, wanted, **consumes),)))
        return peer


def beat(consuming: Consuming, peer: RecordingPeer, heartbeat: Heartbeat) -> Command:
    request = make_request(RequestCode.HEART_BEAT, body=encode_heartbeat(heartbeat))
    answer = consuming.answer(request, by=peer)
    assert answer.code == 0, answer.remark
    return answer


@contextmanager
def a_consuming(path: Path, clock: SteppedClock | None = None, **settings: Any) -> Iterator[Consuming]:
    """Open the parts in directory `path`; the offsets are saved at the end."""
    clock = clock or SteppedClock()
    broker = BrokerSettings(**settings)
    with a_store(path, clock=clock) as store:
        topics = BrokerTopics(store, broker)
        groups = Groups(path / "config" / GROUPS_FILE, clock=clock, auto_create=broker.auto_create_groups)
        offsets = ConsumerOffsets(path / "config" / OFFSETS_FILE, clock=clock)
        yield Consuming(
            store=store,
            clock=clock,
            settings=broker,
            topics=topics,
            groups=groups,
            offsets=offsets,
            membership=Membership(groups, topics, clock, broker),
            locks=QueueLocks(clock, timeout_ms=broker.lock_timeout_ms),
            statistics=BrokerStatistics(clock),
        )
        offsets.save()
