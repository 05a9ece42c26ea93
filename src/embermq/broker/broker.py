"""The parts of a broker, put together over an open store. No sockets: whoever has them hands on requests.

requests ─→ Router ─→ handlers ─→ Puts ─→ Store            answers go back to the peer
                          │                 └─ arrivals ─→ LongPolls, DelayDelivery
                          └─ BrokerTopics, Groups, ConsumerOffsets, Membership, QueueLocks, BrokerStatistics
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from embermq.broker.compaction import BackgroundCompaction
from embermq.broker.delay import DelayDelivery
from embermq.broker.duties import every
from embermq.broker.group_filters import FILTERS_FILE, GroupFilters
from embermq.broker.handlers.assignment import AssignmentHandlers
from embermq.broker.handlers.broker_admin import BrokerAdminHandlers
from embermq.broker.handlers.clients import ClientHandlers
from embermq.broker.handlers.consume_stats import ConsumeStatsHandlers
from embermq.broker.handlers.group_admin import GroupAdminHandlers
from embermq.broker.handlers.offsets import OffsetHandlers
from embermq.broker.handlers.pop import PopHandlers
from embermq.broker.handlers.pop_acks import BATCHED, AckHandlers
from embermq.broker.handlers.pop_watching import WatchHandlers
from embermq.broker.handlers.pull import CODES as PULL_CODES
from embermq.broker.handlers.pull import PullHandlers
from embermq.broker.handlers.query import QueryHandlers
from embermq.broker.handlers.relays import RelayHandlers
from embermq.broker.handlers.reply import ReplyHandlers
from embermq.broker.handlers.resets import ResetHandlers
from embermq.broker.handlers.send import CODES, SendHandlers
from embermq.broker.handlers.send_back import SendBackHandlers
from embermq.broker.handlers.staged import StagedHandlers
from embermq.broker.handlers.stats import StatsHandlers
from embermq.broker.handlers.store_files import StoreFileHandlers
from embermq.broker.handlers.timers import TimerHandlers
from embermq.broker.handlers.topic_admin import TopicAdminHandlers
from embermq.broker.intake import Intake
from embermq.broker.live_settings import LiveSettings
from embermq.broker.locks import QueueLocks
from embermq.broker.long_poll import LongPolls
from embermq.broker.membership import Membership
from embermq.broker.parking import Parking
from embermq.broker.pop.figures import PopFigures
from embermq.broker.pop.pops import Pops
from embermq.broker.publishing import Publisher
from embermq.broker.puts import Puts
from embermq.broker.request_modes import MODES_FILE, RequestModes
from embermq.broker.runtime_info import RuntimeInfo
from embermq.broker.send_answers import SendAnswers
from embermq.broker.settings import BrokerSettings
from embermq.broker.stages import ENGINE, PLAIN, Stages
from embermq.broker.static_topics import StaticTopics
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.broker.timer_delivery import open_timer_delivery
from embermq.broker.timer_figures import TimerFigures
from embermq.broker.topics import BrokerTopics
from embermq.broker.transactions.open_counts import OpenCounts
from embermq.broker.transactions.transactions import Transactions
from embermq.broker.watched_queues import WatchedQueues
from embermq.clock import Clock
from embermq.format.frame import MAX_FRAME_SIZE, FrameLimits
from embermq.format.host import encode_address
from embermq.format.message_id import UniqueIds
from embermq.log.placed import Placed
from embermq.model.codes import RequestCode
from embermq.model.delay import parse_delay_levels
from embermq.model.message import Host
from embermq.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from embermq.rpc.peer import Peer
from embermq.rpc.router import Check, CheckTopic, Handler, Observe, Router, observe_nothing
from embermq.store.groups import GROUPS_FILE, Groups
from embermq.store.offsets import LIGHT_OFFSETS_FILE, OFFSETS_FILE, ConsumerOffsets
from embermq.store.settings import QueueForm
from embermq.store.store import Store

if TYPE_CHECKING:
    from embermq.broker.fast_requests import FastRequests
    from embermq.broker.fast_sends import Received

log = logging.getLogger(__name__)

EXPIRE_S = 10.0
EXPIRE_STAGED_S = 600.0
SAMPLE_S = 1.0
SAVE_COUNTS_S = 3.0
SAVE_FILTERS_S = 10.0


class _Handlers(Protocol):
    """Handlers of one subject."""

    def routes(self) -> dict[int, Handler]: ...


class Broker:
    """One broker: takes requests, answers them, and looks after its tables. All of it runs in the event loop."""

    def __init__(
        self,
        store: Store,
        settings: BrokerSettings,
        *,
        host_of: Callable[[Peer], Host],
        clock: Clock,
        check: Check | None = None,
        check_topic: CheckTopic = lambda peer, request, topic: None,
        observe: Observe = observe_nothing,
        fixed_settings: Mapping[str, str] | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.live_settings = LiveSettings(store, settings, clock=clock, fixed=fixed_settings)
        config = store.path / "config"
        self.delay_levels = parse_delay_levels(store.settings.delay_levels)
        self.statistics = BrokerStatistics(clock, cluster=settings.cluster)
        self.stages = {ENGINE: Stages(), PLAIN: Stages()}  # of sends, by who dealt with them
        self.pull_stages = {ENGINE: Stages(), PLAIN: Stages()}
        self.topics = BrokerTopics(store, settings, clock=clock)
        self.groups = Groups(
            config / GROUPS_FILE,
            clock=clock,
            auto_create=settings.auto_create_groups,
            light_queues=store.settings.light_queues,
        )
        self.offsets = _open_offsets(store, config, clock)
        self.locks = QueueLocks(clock=clock, timeout_ms=settings.lock_timeout_ms)
        self.membership = Membership(self.groups, self.topics, clock, settings)
        self.filters = GroupFilters(config / FILTERS_FILE, settings, clock=clock)
        self.membership.note_subscriptions = self.filters.note
        self.membership.note_gone = self.filters.forget_group
        self.puts = Puts(store, clock=clock)
        self.polls = LongPolls(
            clock=clock,
            most=settings.max_parked_pulls,
            end_of=lambda topic, queue: store.offsets(topic, queue=queue)[1],
        )
        self.membership.note_filter = self.polls.wake_topic
        self.delays = DelayDelivery(
            store, self.puts, self.topics, self.statistics, levels=self.delay_levels, clock=clock
        )
        self.timers = open_timer_delivery(
            store, self.puts, self.topics, self.statistics, settings=settings, clock=clock
        )
        self.compaction = BackgroundCompaction(store, self.topics, settings) if settings.compaction else None
        self.parking = Parking(
            lambda: self.live_settings.broker,
            levels=len(self.delay_levels),
            waiting_at=self.timers.timers.count_at if self.timers is not None else lambda time_ms: 0,
            clock=clock,
        )
        self.publisher = Publisher(
            store, self.puts, self.statistics, settings=lambda: self.live_settings.broker, clock=clock
        )
        self.router = Router(check=check, observe=observe)
        self.static_topics = StaticTopics(self.topics, self.router.handle)
        self.router.detour = self.static_topics.take
        self._host_of = host_of
        self._observe = observe
        self._check_topic = check_topic
        self._tasks: list[asyncio.Task[None]] = []
        self._fast: FastRequests | None = None  # once kernels are in use
        self._add_handlers(settings)

    @property
    def settings(self) -> BrokerSettings:
        """The settings of this moment."""
        return self.live_settings.broker

    @property
    def open_transactions(self) -> OpenCounts:
        """How many transactions are open, and how those ended that were."""
        return self.transactions.counts

    def start(self) -> None:
        """Begin to work; call it in the event loop that requests come from."""
        self.topics.make_system_topics()
        self.puts.start()
        self.polls.start()
        self.delays.start()
        self.transactions.checker.start()
        if self.timers is not None:
            self.timers.start()
        if self.compaction is not None:
            self.compaction.start()
        self.pops.start()
        self.publisher.start()
        if self.settings.filter_bits:
            self.store.add_filter_bits(self.filters.bits_of)
        own = SCHEDULE_TOPIC, TIMER_TOPIC, self.pops.log.topic
        compacted = self.compaction.names if self.compaction is not None else tuple
        self._watched = WatchedQueues(self.store.queue_table(), own, compacted)
        self.store.listen(self._arrived)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(every(SAMPLE_S, self.statistics.sample)),
            loop.create_task(every(EXPIRE_S, self.membership.expire)),
            loop.create_task(every(EXPIRE_S, self.locks.expire)),
            loop.create_task(every(EXPIRE_STAGED_S, self.publisher.expire)),
            loop.create_task(every(self.settings.offset_save_ms / 1000, self.offsets.save, in_thread=True)),
            loop.create_task(every(self.settings.delay_save_ms / 1000, self.delays.save, in_thread=True)),
            loop.create_task(every(SAVE_FILTERS_S, self.filters.save, in_thread=True)),
            loop.create_task(every(SAVE_COUNTS_S, self.transactions.counts.save, in_thread=True)),
        ]

    async def stop(self) -> None:
        """Answer what is in hand and save the tables; the store stays open."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.polls.stop()
        await self.pops.stop()
        await self.delays.stop()
        await self.transactions.checker.stop()
        if self.timers is not None:
            await self.timers.stop()
        if self.compaction is not None:
            await self.compaction.stop()
        await self.publisher.stop()
        await self.static_topics.stop()
        await self.router.stop()
        await self.puts.stop()
        self.transactions.save()
        self.filters.save()
        self.offsets.save()

    def pop_figures(self) -> PopFigures:
        """How pops are doing at this moment."""
        return self.pops.figures()

    def timer_figures(self) -> TimerFigures:
        """How the timer is doing; all zero without one."""
        return self.timers.figures() if self.timers is not None else TimerFigures()

    def make_fast(self, received: Received, frame_limits: FrameLimits) -> FastRequests:
        """What takes plain SENDs, PULLs and ACKs out of received bytes from now on; kernels must be loaded."""
        from embermq.broker.fast_acks import FastAcks
        from embermq.broker.fast_answers import FastAnswers
        from embermq.broker.fast_ends import FastEnds
        from embermq.broker.fast_pulls import FastPulls
        from embermq.broker.fast_requests import FastRequests
        from embermq.broker.fast_sends import FastSends
        from embermq.broker.fast_staging import FastStaging

        self.publisher.fast = self._staged.fast = FastStaging(self.store, self._intake, self.statistics)
        self.store.use_kernels()
        if self.timers is not None:
            self.timers.use_kernels()
        sends = FastSends(
            self.store,
            received,
            self._intake,
            self._sends,
            self.puts,
            self.statistics,
            FastAnswers(self._send_answers),
            stages=self.stages[ENGINE],
            frame_limits=frame_limits,
            now=self.clock.monotonic,
        )
        pulls = FastPulls(
            self._tables,
            received,
            self._pulls,
            self.statistics,
            stages=self.pull_stages[ENGINE],
            frame_limits=frame_limits,
            observe=self._observe,
            now=self.clock.monotonic,
        )
        self._tasks.append(asyncio.get_running_loop().create_task(every(EXPIRE_S, pulls.expire)))
        acks = FastAcks(received, self._acks, self.pops.answering, frame_limits)
        ends = FastEnds(received.view, self.router.receive, frame_limits)
        self._fast = FastRequests(sends, pulls, acks, ends)
        return self._fast

    def connection_closed(self, peer: Peer) -> None:
        """Forget a client whose connection is gone."""
        self.membership.forget(peer)
        if self._fast is not None:
            self._fast.forget(peer)

    def _arrived(self, items: Sequence[Placed]) -> None:
        self.polls.arrived(items)
        self.pops.arrived(items)
        if self._watched.may_have(items):
            self.delays.arrived(items)
            self.pops.revival.arrived(items)
            if self.timers is not None:
                self.timers.arrived(items)
            if self.compaction is not None:
                self.compaction.arrived(items)

    def _add_handlers(self, settings: BrokerSettings) -> None:
        """Have every request answered: messages, then what consumers ask, then what administrators ask."""
        compacted = self.compaction.compacted if self.compaction is not None else None
        tables = Tables(self.store, self.topics, self.groups, self.offsets, self.membership, compacted)
        self._tables = tables
        self.pops = Pops(
            tables,
            self.puts,
            self.statistics,
            settings,
            timers=self.timers.timers if self.timers is not None else None,
            observe=self._observe,
            clock=self.clock,
        )
        modes = RequestModes(self.store.path / "config" / MODES_FILE)
        self._add_messages(tables, settings)
        self._add_pops(tables, settings)
        for handlers in (*self._consuming(tables, settings.name), *self._administration(modes, settings.name)):
            self.router.add(handlers.routes())

    def _add_messages(self, tables: Tables, settings: BrokerSettings) -> None:
        """The handlers that take and give messages; they are told of settings that change."""
        self._add_sends(settings)
        self._add_transactions(tables)
        intake, answers = self._intake, self._send_answers
        pulls = self._pulls = PullHandlers(
            tables,
            self.polls,
            self.statistics,
            settings,
            observe=self._observe,
            filters=self.filters,
            stages=self.pull_stages[PLAIN],
            now=self.clock.monotonic,
        )
        backs = SendBackHandlers(
            self.store,
            self.puts,
            self.topics,
            self.groups,
            self.statistics,
            settings,
            levels=len(self.delay_levels),
            check_topic=self._check_topic,
        )
        replies = ReplyHandlers(intake, self.puts, self.membership, settings, host_of=self._host_of, clock=self.clock)
        staged = self._staged = StagedHandlers(self.store, intake, self.publisher, broker_name=settings.name)
        self._clients = ClientHandlers(self.membership, self.locks, settings, clock=self.clock)
        self.router.add_batch(PULL_CODES, pulls.receive)
        # What brings messages may be as large as a frame; the intake knows their limit.
        self.router.add({**replies.routes(), **staged.stage_routes()}, max_body_size=MAX_FRAME_SIZE)
        self.router.add({**pulls.routes(), **backs.routes(), **staged.routes()})

        def changed(new: BrokerSettings) -> None:
            intake.use(new)
            answers.use(new.region)
            self.groups.auto_create = new.auto_create_groups
            self.locks.timeout_ms = new.lock_timeout_ms
            for part in (self.topics, self.membership, pulls, backs, replies, self._clients):
                part.settings = new
            self.topics.make_system_topics()

        self.live_settings.listeners.append(changed)

    def _add_sends(self, settings: BrokerSettings) -> None:
        self._intake = self._make_intake(settings)
        self._send_answers = SendAnswers(settings.region, host_of=self._host_of)
        self._sends = SendHandlers(
            self._intake,
            self.puts,
            self.membership,
            self.statistics,
            self._send_answers,
            stages=self.stages[PLAIN],
            observe=self._observe,
            now=self.clock.monotonic,
        )
        self.router.add_batch(CODES, self._sends.receive)

    def _add_transactions(self, tables: Tables) -> None:
        """Transactions begin with what is sent."""
        self.transactions = Transactions(
            tables,
            self.puts,
            self.statistics,
            settings=lambda: self.live_settings.broker,
            clock=self.clock,
            check_topic=self._check_topic,
            observe=self._observe,
        )
        self._sends.note_halves = self.transactions.note_stored
        self.router.add_batch((RequestCode.END_TRANSACTION,), self.transactions.handlers.receive, any_order=True)
        self.router.add(self.transactions.handlers.routes())

    def _add_pops(self, tables: Tables, settings: BrokerSettings) -> None:
        """The handlers of consumers that pop."""
        pops, clock = self.pops, self.clock
        taking = PopHandlers(
            tables,
            pops.reader,
            pops.giving,
            pops.order_acks,
            pops.log,
            pops.polls,
            pops.answering,
            settings,
            is_possible=pops.is_possible,
            clock=clock,
        )
        watching = WatchHandlers(
            tables, pops.reader, pops.log, pops.polls, pops.notifications, pops.answering, settings, clock=clock
        )
        acks = self._acks = AckHandlers(
            tables,
            pops.giving,
            pops.order_acks,
            pops.log,
            pops.in_flight,
            pops.answering,
            self.statistics,
            clock=clock,
        )
        self.router.add_batch(BATCHED, acks.receive)
        self.router.add({**taking.routes(), **watching.routes(), **acks.routes()})

        def changed(new: BrokerSettings) -> None:
            taking.settings = watching.settings = new
            pops.in_flight.use(new)

        self.live_settings.listeners.append(changed)

    def _make_intake(self, settings: BrokerSettings) -> Intake:
        store = self.store
        unique_ids = UniqueIds(
            encode_address(store.settings.host().address),
            process=os.getpid(),
            instance=time.monotonic_ns() & 0xFFFF_FFFF,
        )
        return Intake(
            self.topics,
            self.groups,
            self.locks,
            settings,
            lambda: store.settings,
            parking=self.parking,
            unique_ids=unique_ids,
        )

    def _consuming(self, tables: Tables, name: str) -> list[_Handlers]:
        """What clients ask besides messages, and what is asked about them."""
        return [
            QueryHandlers(self.store, check_topic=self._check_topic),
            self._clients,
            OffsetHandlers(tables, delays=self.delays.table),
            ConsumeStatsHandlers(tables, self.statistics, broker_name=name, host_of=self._host_of, clock=self.clock),
            RelayHandlers(tables, broker_name=name),
            ResetHandlers(tables, broker_name=name, wake=self.polls.wake),
            TimerHandlers(
                self.timers.timers if self.timers is not None else None,
                self.parking,
                self.puts,
                self.topics,
                settings=lambda: self.live_settings.broker,
                clock=self.clock,
            ),
        ]

    def _administration(self, modes: RequestModes, name: str) -> list[_Handlers]:
        store, statistics = self.store, self.statistics
        runtime = RuntimeInfo(store, statistics, delays=self.delays.table, timer=self.timer_figures, clock=self.clock)
        return [
            TopicAdminHandlers(store, self.topics, self.offsets, statistics, modes, broker_name=name),
            GroupAdminHandlers(self.groups, self.offsets, statistics, modes),
            StatsHandlers(statistics),
            BrokerAdminHandlers(store, self.live_settings, runtime),
            StoreFileHandlers(store, broker_name=name),
            AssignmentHandlers(
                self.topics, self.groups, self.membership, modes, broker_name=name, serves_pop=self.pops.is_possible
            ),
        ]


def _open_offsets(store: Store, config: Path, clock: Clock) -> ConsumerOffsets:
    """The offsets of all groups; those of light queues have a file of their own, unless queues are in a RocksDB."""
    in_files = store.settings.queue_store is QueueForm.FILES
    has_light_file = store.settings.light_queues and in_files
    return ConsumerOffsets(
        config / OFFSETS_FILE,
        clock=clock,
        light_path=config / LIGHT_OFFSETS_FILE if has_light_file else None,
        counts_saves=not in_files,
    )
