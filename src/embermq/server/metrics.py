"""A broker's figures, read at the moment they are asked for.

Names that begin with `rocketmq_` are RocketMQ 5's own, with its labels where we know their values, so that
its dashboards work; those that begin with `embermq_` are ours.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from embermq.broker.counting import Counter as Counted
from embermq.broker.membership import Membership
from embermq.broker.pop.figures import PopFigures
from embermq.broker.settings import BrokerSettings
from embermq.broker.stages import Stages
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.timer_figures import TimerFigures
from embermq.broker.transactions.open_counts import OpenCounts
from embermq.clock import Clock
from embermq.format.stats_body import StatsKind
from embermq.log.sync_times import BOUNDS_S
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.group import SYSTEM_GROUP_PREFIX
from embermq.model.topic import RETRY_PREFIX, is_system_topic
from embermq.server.code_names import answer_name, request_name
from embermq.server.exposition import Family, Row
from embermq.server.lags import Lag, iter_lags
from embermq.server.meters import Histogram, LoopLag, MessageSizes, RpcTimes, sum_histograms
from embermq.server.pop_metrics import pop_families
from embermq.server.timer_metrics import timer_families
from embermq.store.groups import Groups
from embermq.store.offsets import ConsumerOffsets
from embermq.store.store import Store

_REFUSALS: Final = ("DiskFull", "DiskFailed", "SyncFailed", "StoreBusy", "FlushTimeout")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_REMOTING: Final = "remoting"
_MODES: Final = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull", "CONSUME_POP": "pop"}
# RocketMQ documents these names without their unit, and 5.3 tells them with it: both are told here.
_UNITS: Final = {
    "rocketmq_consumer_group_create_execution_time": "milliseconds",
    "rocketmq_consumer_lag_latency": "milliseconds",
    "rocketmq_consumer_queueing_latency": "milliseconds",
    "rocketmq_rpc_latency": "milliseconds",
    "rocketmq_storage_message_reserve_time": "milliseconds",
    "rocketmq_storage_size": "bytes",
    "rocketmq_timer_dequeue_latency": "milliseconds",
    "rocketmq_topic_create_execution_time": "milliseconds",
}


class Parts(Protocol):
    """What of a broker is looked at. `broker.Broker` is one."""

    @property
    def store(self) -> Store: ...
    @property
    def settings(self) -> BrokerSettings: ...
    @property
    def statistics(self) -> BrokerStatistics: ...
    @property
    def groups(self) -> Groups: ...
    @property
    def offsets(self) -> ConsumerOffsets: ...
    @property
    def membership(self) -> Membership: ...
    @property
    def open_transactions(self) -> OpenCounts: ...
    @property
    def stages(self) -> Mapping[str, Stages]: ...
    @property
    def pull_stages(self) -> Mapping[str, Stages]: ...
    @property
    def clock(self) -> Clock: ...
    def timer_figures(self) -> TimerFigures: ...
    def pop_figures(self) -> PopFigures: ...


class Meters(NamedTuple):
    """What is measured all the time; whoever starts a server connects them."""

    rpc: RpcTimes
    sizes: MessageSizes
    loop: LoopLag


class BrokerMetrics:
    """Reads a broker's figures. Called in its event loop; what it returns may go to any thread."""

    def __init__(
        self,
        parts: Parts,
        meters: Meters,
        *,
        waiting: Mapping[str, Callable[[], int]],
        connections: Callable[[], int] = lambda: 0,
    ) -> None:
        """`waiting` counts the requests that wait, by what RocketMQ calls their processor: send, pull, …"""
        self._parts = parts
        self._meters = meters
        self._waiting = waiting
        self._connections = connections

    def families(self) -> list[Family]:
        """All figures of this moment."""
        settings = self._parts.settings
        common = {"cluster": settings.cluster, "node_type": "broker", "node_id": settings.name}
        found = [_with_labels(family, common) for family in self._iter()]
        units = [(family, _UNITS.get(family.name)) for family in found]
        return found + [family._replace(name=f"{family.name}_{unit}") for family, unit in units if unit]

    def _iter(self) -> Iterator[Family]:
        yield from self._broker()
        yield from self._traffic()
        yield from _transaction_families(self._parts.open_transactions)
        yield from self._connected()
        yield from _lag_families(list(iter_lags(self._parts.store, self._parts.offsets, self._parts.clock.now_ms())))
        yield from self._storage()
        yield from timer_families(self._parts.timer_figures())
        yield from pop_families(self._parts.pop_figures())
        yield self._rpc()
        yield from self._creations()
        yield from self._ours()
        yield from _stage_families("send", self._parts.stages)
        yield from _stage_families("pull", self._parts.pull_stages)

    def _broker(self) -> Iterator[Family]:
        waits = [Row((name,), count()) for name, count in self._waiting.items()]
        yield Family("rocketmq_processor_watermark", "gauge", "requests that wait", ("processor",), waits)
        yield _one("rocketmq_broker_permission", "4 read + 2 write", self._parts.settings.permission)
        yield _one("rocketmq_topic_number", "topics", len(self._parts.store.topics()))
        yield _one("rocketmq_consumer_group_number", "consumer groups", len(self._parts.groups.table().groups))

    def _traffic(self) -> Iterator[Family]:
        statistics = self._parts.statistics
        puts = [
            ((topic, _flag(is_system_topic(topic))), each) for topic, each in _items(statistics, StatsKind.TOPIC_PUT)
        ]
        gets = []
        for key, each in _items(statistics, StatsKind.GROUP_GET):
            topic, _, group = key.partition("@")
            is_retry, is_system = topic.startswith(RETRY_PREFIX), is_system_topic(topic)
            gets.append(((topic, group, _flag(is_retry), _flag(is_system)), each))
        labels: tuple[str, ...] = ("topic", "is_system")
        yield _counter("rocketmq_messages_in", "stored", labels, [Row(key, each.messages) for key, each in puts])
        yield _counter("rocketmq_throughput_in", "bytes stored", labels, [Row(key, each.size) for key, each in puts])
        labels = ("topic", "consumer_group", "is_retry", "is_system")
        yield _counter("rocketmq_messages_out", "read", labels, [Row(key, each.messages) for key, each in gets])
        yield _counter("rocketmq_throughput_out", "bytes read", labels, [Row(key, each.size) for key, each in gets])
        dead: Counter[tuple[str, str]] = Counter()
        for key, each in _items(statistics, StatsKind.DEAD_LETTER):
            _, topic, group, _ = key.split("@", 3)
            dead[topic, group] += each.messages
        rows = [Row((*key, _system(*key)), count) for key, count in dead.items()]
        yield _counter("rocketmq_send_to_dlq_messages", "given up", ("topic", "consumer_group", "is_system"), rows)
        sizes = [Row((), self._meters.sizes.histogram())]
        yield Family("rocketmq_message_size", "histogram", "bytes of a record", (), sizes)

    def _connected(self) -> Iterator[Family]:
        membership = self._parts.membership
        producers: Counter[tuple[str, ...]] = Counter(
            (client.language.lower(), version_name(client.version), _REMOTING)
            for group in membership.producer_groups()
            for client in membership.producers(group)
        )
        consumers: Counter[tuple[str, ...]] = Counter(
            (
                *(member.language.lower(), version_name(member.version), _REMOTING),
                *(_MODES.get(group.consume_type, group.consume_type.lower()), group.name, _system("", group.name)),
            )
            for group in membership.consumers()
            for member in group.members.values()
        )
        conflicts = [Row((group.name,), len(group.conflicts())) for group in membership.consumers()]
        labels: tuple[str, ...] = ("language", "version", "protocol_type")
        yield _gauge("rocketmq_producer_connections", "producers", labels, _rows(producers))
        labels = (*labels, "consume_mode", "consumer_group", "is_system")
        yield _gauge("rocketmq_consumer_connections", "consumers", labels, _rows(consumers))
        text = "topics that the members of a group want different messages of"
        yield _gauge("embermq_subscription_conflicts", text, ("consumer_group",), conflicts)

    def _storage(self) -> Iterator[Family]:
        state = self._parts.store.state()
        first = self._parts.store.first_store_time()
        labels, place = ("storage_type", "storage_medium"), ("local", "disk")
        for name, text, value in (
            ("rocketmq_storage_size", "bytes in the log", state.log_written - state.log_begin),
            ("rocketmq_storage_flush_behind_bytes", "written, not on disk", state.flush_behind),
            ("rocketmq_storage_dispatch_behind_bytes", "written, not readable", state.dispatch_behind),
            (
                "rocketmq_storage_message_reserve_time",
                "age of the oldest message in ms",
                max(self._parts.clock.now_ms() - first, 0) if first else 0,
            ),
        ):
            yield _gauge(name, text, labels, [Row(place, value)])
        times = Histogram(BOUNDS_S, state.sync_times.counts, state.sync_times.total_s)
        yield Family("embermq_sync_latency_seconds", "histogram", "times of syncs", (), [Row((), times)])
        yield _counter("embermq_sync_errors", "failed", (), [Row((), int(state.refusal_kind == "SyncFailed"))])
        refusing = [Row((kind,), int(state.refusal_kind == kind)) for kind in _REFUSALS]
        yield _gauge("embermq_store_refusing", "1 while puts are refused", ("reason",), refusing)
        yield _one("embermq_disk_free_bytes", "free where the log is", state.disk_free)
        yield _one("embermq_log_files", "log files", state.log_files)
        yield _counter("embermq_puts_refused", "puts that were refused", (), [Row((), state.puts.refused)])

    def _rpc(self) -> Family:
        rows = [
            Row(
                (_REMOTING, request_name(request), answer_name(response), "false", _result(response)),
                each,
            )
            for (request, response), each in self._meters.rpc.histograms().items()
        ]
        labels = ("protocol_type", "request_code", "response_code", "is_long_polling", "result")
        return Family("rocketmq_rpc_latency", "histogram", "times of requests in ms", labels, rows)

    def _creations(self) -> Iterator[Family]:
        """How long it took to make topics and groups, where an administrator asked for them."""
        times = self._meters.rpc.histograms()
        for what, code in (
            ("topic", RequestCode.UPDATE_AND_CREATE_TOPIC),
            ("consumer_group", RequestCode.UPDATE_AND_CREATE_GROUP),
        ):
            ended: dict[str, list[Histogram]] = {}
            for (request, response), each in times.items():
                if request == code:
                    ended.setdefault("success" if response == ResponseCode.SUCCESS else "failure", []).append(each)
            rows = [Row((status,), sum_histograms(each)) for status, each in ended.items()]
            name = f"rocketmq_{what}_create_execution_time"
            yield Family(name, "histogram", "times of requests in ms", ("invocation_status",), rows)

    def _ours(self) -> Iterator[Family]:
        yield _one("embermq_event_loop_lag_seconds", "largest since the last scrape", self._meters.loop.take())
        yield _one("embermq_connections", "open connections", self._connections())
        with suppress(OSError, ValueError):  # where there is no /proc, these are not told
            yield _one("embermq_open_fds", "open file descriptors", len(os.listdir("/proc/self/fd")))
            with open("/proc/self/statm") as statm:
                pages = int(statm.read().split()[1])
            yield _one("embermq_resident_memory_bytes", "memory of this process", pages * _PAGE)


def _stage_families(kind: str, paths: Mapping[str, Stages]) -> Iterator[Family]:
    """Where the time of sends or pulls goes; how many of them kernels took is the share of their path."""
    stages = [((path, name), stage) for path, each in paths.items() for name, stage in each.items()]
    labels = ("path", "stage")
    for name, text, rows in (
        ("seconds", f"spent on {kind}s", [Row(key, stage.seconds) for key, stage in stages]),
        ("messages", "dealt with", [Row(key, stage.messages) for key, stage in stages]),
        ("calls", "each for a batch", [Row(key, stage.calls) for key, stage in stages]),
    ):
        yield _counter(f"embermq_{kind}_{name}", text, labels, rows)


def _lag_families(lags: list[Lag]) -> Iterator[Family]:
    labels = ("consumer_group", "topic", "is_retry", "is_system")
    keys = [
        (lag.group, lag.topic, _flag(lag.topic.startswith(RETRY_PREFIX)), _system(lag.topic, lag.group)) for lag in lags
    ]
    for name, text, values in (
        ("rocketmq_consumer_lag_messages", "not consumed yet", [lag.messages for lag in lags]),
        ("rocketmq_consumer_lag_latency", "age of the oldest of them in ms", [lag.latency_ms for lag in lags]),
        ("rocketmq_consumer_inflight_messages", "pulled, not consumed", [lag.in_flight for lag in lags]),
        ("rocketmq_consumer_ready_messages", "not pulled", [lag.ready for lag in lags]),
        ("rocketmq_consumer_queueing_latency", "age of the oldest of them in ms", [lag.waiting_ms for lag in lags]),
    ):
        yield _gauge(name, text, labels, [Row(key, value) for key, value in zip(keys, values, strict=True)])


def _with_labels(family: Family, common: Mapping[str, str]) -> Family:
    values = tuple(common.values())
    rows = [Row((*values, *row.labels), row.value) for row in family.rows]
    return family._replace(labels=(*common, *family.labels), rows=rows)


def _one(name: str, text: str, value: float) -> Family:
    return Family(name, "gauge", text, (), [Row((), value)])


def _gauge(name: str, text: str, labels: Sequence[str], rows: Sequence[Row]) -> Family:
    return Family(name, "gauge", text, labels, rows)


def _counter(name: str, text: str, labels: Sequence[str], rows: Sequence[Row]) -> Family:
    return Family(name, "counter", text, labels, rows)


def _transaction_families(counts: OpenCounts) -> Iterator[Family]:
    labels = ("topic",)
    yield _gauge("rocketmq_half_messages", "transactions that are open", labels, _by_topic(dict(counts.items())))
    yield _counter("rocketmq_commit_messages", "transactions committed", labels, _by_topic(counts.committed))
    yield _counter("rocketmq_rollback_messages", "transactions rolled back", labels, _by_topic(counts.rolled_back))


def _by_topic(counts: Mapping[str, int]) -> list[Row]:
    return [Row((topic,), count) for topic, count in counts.items()]


def _rows(counts: Mapping[tuple[str, ...], int]) -> list[Row]:
    return [Row(key, count) for key, count in counts.items()]


def _items(statistics: BrokerStatistics, kind: StatsKind) -> list[tuple[str, Counted]]:
    return list(statistics.counters(kind).items())


def version_name(version: int) -> str:
    """A client's version as RocketMQ writes it, such as v5_3_3; of very old ones, the number."""
    for major, first in ((5, 413), (4, 213)):
        if version >= first - 1:
            minor, twice = divmod(version - first + 1, 20)  # a snapshot is one below its version
            return f"v{major}_{minor}_{twice // 2}{'' if twice % 2 else '_snapshot'}"
    return str(version)


def _system(topic: str, group: str) -> str:
    return _flag(is_system_topic(topic) or group.startswith(SYSTEM_GROUP_PREFIX))


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _result(response_code: int) -> str:
    return "process_request_failed" if response_code == ResponseCode.SYSTEM_ERROR else "success"
