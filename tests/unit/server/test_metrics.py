"""A broker's figures, read from a real store and real tables, as Prometheus reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from embermq import Store
from embermq.broker.membership import Membership
from embermq.broker.pop.figures import PopFigures, ReviveFigures
from embermq.broker.settings import BrokerSettings
from embermq.broker.stages import ENGINE, PLAIN, Stages
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.timer_figures import TimerFigures
from embermq.broker.topics import BrokerTopics
from embermq.broker.transactions.open_counts import OpenCounts
from embermq.errors import DiskFull, SyncFailed
from embermq.format.command import make_request
from embermq.format.heartbeat_body import Consumes, Heartbeat
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.group import PREDEFINED_GROUPS
from embermq.model.subscription import Subscribed
from embermq.server.exposition import render
from embermq.server.meters import LoopLag, MessageSizes, RpcTimes
from embermq.server.metrics import BrokerMetrics, Meters, version_name
from embermq.store.groups import Groups
from embermq.store.offsets import ConsumerOffsets
from tests.builders import ManualClock, a_message, a_store
from tests.unit.access.requests import Caller

COMMON = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class Parts:
    """Those of a broker that figures are read from."""

    store: Store
    settings: BrokerSettings
    statistics: BrokerStatistics
    groups: Groups
    offsets: ConsumerOffsets
    membership: Membership
    open_transactions: OpenCounts
    stages: dict[str, Stages]
    pull_stages: dict[str, Stages]
    clock: ManualClock
    meters: Meters
    timer: TimerFigures = field(default_factory=TimerFigures)
    pops: PopFigures = field(default_factory=PopFigures)

    def timer_figures(self) -> TimerFigures:
        return self.timer

    def pop_figures(self) -> PopFigures:
        return self.pops

    def scrape(self) -> Series:
        metrics = BrokerMetrics(self, self.meters, waiting={"send": lambda: 3}, connections=lambda: 5)
        text, _ = render(metrics.families())
        found: Series = {}
        for family in text_string_to_metric_families(text.decode()):
            for sample in family.samples:
                labels = {name: value for name, value in sample.labels.items() if name not in COMMON}
                assert {name: sample.labels[name] for name in COMMON} == COMMON
                found[sample.name, frozenset(labels.items())] = sample.value
        return found


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    clock, settings = ManualClock(), BrokerSettings()
    with a_store(tmp_path / "store", clock=clock) as store:
        groups = Groups(tmp_path / "groups.json", clock=clock, auto_create=True)
        topics = BrokerTopics(store, settings)
        sizes = MessageSizes()
        store.listen(sizes.count)
        yield Parts(
            store=store,
            settings=settings,
            statistics=BrokerStatistics(clock),
            groups=groups,
            offsets=ConsumerOffsets(tmp_path / "offsets.json", clock=clock),
            membership=Membership(groups, topics, clock, settings),
            open_transactions=OpenCounts(tmp_path / "transactionMetrics", clock=clock),
            stages={ENGINE: Stages(), PLAIN: Stages()},
            pull_stages={ENGINE: Stages(), PLAIN: Stages()},
            clock=clock,
            meters=Meters(RpcTimes(), sizes, LoopLag()),
        )


def value(series: Series, name: str, **labels: str) -> float:
    return series[name, frozenset(labels.items())]


def test_an_empty_broker_has_figures_too(parts: Parts) -> None:
    series = parts.scrape()
    assert value(series, "rocketmq_broker_permission") == 6
    assert value(series, "rocketmq_processor_watermark", processor="send") == 3
    assert value(series, "rocketmq_consumer_group_number") == len(PREDEFINED_GROUPS)
    assert value(series, "embermq_connections") == 5
    assert value(series, "embermq_open_fds") > 0
    assert value(series, "embermq_resident_memory_bytes") > 1_000_000
    assert value(series, "embermq_sync_errors_total") == 0
    assert value(series, "rocketmq_storage_message_reserve_time", storage_type="local", storage_medium="disk") == 0


@pytest.mark.parametrize(
    ("version", "name"), [(479, "v5_3_3"), (478, "v5_3_3_snapshot"), (413, "v5_0_0"), (317, "v4_5_2"), (62, "62")]
)
def test_versions_are_named_as_rocketmq_names_them(version: int, name: str) -> None:
    assert version_name(version) == name


def test_names_are_those_of_rocketmq_or_ours(parts: Parts) -> None:
    assert all(re.fullmatch(r"(rocketmq|embermq)_[a-z_]+", name) for name, _ in parts.scrape())


def test_lag_in_messages_and_in_time(parts: Parts) -> None:
    for _ in range(10):
        parts.store.put(a_message(), queue=0)
        parts.clock.advance(ms=1000)
    parts.offsets.commit("orders", "billing", 0, 4)
    parts.offsets.note_pull("orders", "billing", 0, 7)
    parts.offsets.commit("orders", "done", 0, 10)
    parts.offsets.commit("gone", "billing", 0, 1)
    series = parts.scrape()
    labels = {"consumer_group": "billing", "topic": "orders", "is_retry": "false", "is_system": "false"}
    assert value(series, "rocketmq_consumer_lag_messages", **labels) == 6
    assert value(series, "rocketmq_consumer_inflight_messages", **labels) == 3
    assert value(series, "rocketmq_consumer_ready_messages", **labels) == 3
    assert value(series, "rocketmq_consumer_lag_latency", **labels) == 6000
    assert value(series, "rocketmq_consumer_queueing_latency", **labels) == 3000
    done = {**labels, "consumer_group": "done"}
    assert value(series, "rocketmq_consumer_lag_messages", **done) == 0
    assert value(series, "rocketmq_consumer_lag_latency", **done) == 0
    assert not any(("topic", "gone") in labels for _, labels in series)


def test_what_went_in_and_out(parts: Parts) -> None:
    parts.statistics.count_put("orders", 0, 10, 1000)
    parts.statistics.count_put("orders", 1, 5, 500)
    parts.statistics.count_get("orders", 0, "billing", 7, 700)
    parts.statistics.count_dead_letter("orders", "billing")
    parts.statistics.count_dead_letter("orders", "billing", owner="somebody")
    series = parts.scrape()
    topic = {"topic": "orders", "is_system": "false"}
    assert value(series, "rocketmq_messages_in_total", **topic) == 15
    assert value(series, "rocketmq_throughput_in_total", **topic) == 1500
    read = {**topic, "consumer_group": "billing", "is_retry": "false"}
    assert value(series, "rocketmq_messages_out_total", **read) == 7
    assert value(series, "rocketmq_throughput_out_total", **read) == 700
    assert value(series, "rocketmq_send_to_dlq_messages_total", consumer_group="billing", **topic) == 2


def test_who_is_connected_and_who_disagrees(parts: Parts) -> None:
    request = make_request(RequestCode.HEART_BEAT)
    for client, expression in (("c1", "a"), ("c2", "b")):
        consumes = Consumes("billing", (Subscribed("orders", expression=expression, tags=(expression,)),))
        parts.membership.heartbeat(Caller(), request, Heartbeat(client, ("pg",), (consumes,)))
    series = parts.scrape()
    client = {
        "language": request.language.lower(),
        "version": version_name(request.version),
        "protocol_type": "remoting",
    }
    assert value(series, "rocketmq_producer_connections", **client) == 2
    mode = {"consume_mode": "push", "consumer_group": "billing", "is_system": "false"}
    assert value(series, "rocketmq_consumer_connections", **client, **mode) == 2
    assert value(series, "embermq_subscription_conflicts", consumer_group="billing") == 1


def test_the_store(parts: Parts) -> None:
    parts.store.put_many(a_message(body=b"x" * size) for size in (10, 2000, 5000))
    parts.store.checkpoint()
    parts.clock.advance(hours=1)
    series = parts.scrape()
    state = parts.store.state()
    place = {"storage_type": "local", "storage_medium": "disk"}
    assert value(series, "rocketmq_storage_size", **place) == state.log_written > 7000
    assert value(series, "rocketmq_storage_dispatch_behind_bytes", **place) == 0
    assert value(series, "rocketmq_storage_message_reserve_time", **place) == 3_600_000
    assert value(series, "rocketmq_storage_message_reserve_time_milliseconds", **place) == 3_600_000
    assert value(series, "rocketmq_topic_number") == 1
    assert value(series, "rocketmq_message_size_bucket", le="1024.0") == 1
    assert value(series, "rocketmq_message_size_bucket", le="4096.0") == 2
    assert value(series, "rocketmq_message_size_count") == 3
    assert value(series, "rocketmq_message_size_sum") == state.log_written


def test_syncs_are_timed(tmp_path: Path, parts: Parts) -> None:
    with a_store(tmp_path / "synced", durability="sync") as store:
        parts.store = store
        store.put(a_message())
        series = parts.scrape()
    assert value(series, "embermq_sync_latency_seconds_count") == 1
    assert 0 < value(series, "embermq_sync_latency_seconds_sum") < 10
    assert value(series, "embermq_sync_latency_seconds_bucket", le="+Inf") == 1


def test_a_store_that_refuses_says_why(parts: Parts) -> None:
    gate = parts.store._writer.gate
    gate.refuse(DiskFull(Path("/x"), free=0, limit="1"))
    series = parts.scrape()
    assert value(series, "embermq_store_refusing", reason="DiskFull") == 1
    assert value(series, "embermq_store_refusing", reason="SyncFailed") == 0
    gate.allow()
    assert value(parts.scrape(), "embermq_store_refusing", reason="DiskFull") == 0


def test_a_failed_sync_is_counted(parts: Parts) -> None:
    parts.store._parts.flusher.fail(SyncFailed(Path("/x"), OSError(5, "input/output error")))
    assert value(parts.scrape(), "embermq_sync_errors_total") == 1
    with pytest.raises(SyncFailed):
        parts.store.close()


def test_requests_by_what_they_asked_for_and_how_it_ended(parts: Parts) -> None:
    parts.meters.rpc(RequestCode.PULL_MESSAGE, ResponseCode.SUCCESS, 0.002)
    parts.meters.rpc(99_999, ResponseCode.SYSTEM_ERROR, 0.002)
    series = parts.scrape()
    common = {"protocol_type": "remoting", "is_long_polling": "false"}
    well = {**common, "request_code": "pull_message", "response_code": "success", "result": "success"}
    ill = {
        **common,
        "request_code": "99999",
        "response_code": "system_error",
        "result": "process_request_failed",
    }
    assert value(series, "rocketmq_rpc_latency_bucket", le="1.0", **well) == 0
    assert value(series, "rocketmq_rpc_latency_bucket", le="3.0", **well) == 1
    assert value(series, "rocketmq_rpc_latency_sum", **well) == 2
    assert value(series, "rocketmq_rpc_latency_count", **ill) == 1


def test_how_long_it_took_to_make_topics_and_groups(parts: Parts) -> None:
    for response, seconds in ((ResponseCode.SUCCESS, 0.002), (ResponseCode.INVALID_PARAMETER, 0.004), (29, 0.02)):
        parts.meters.rpc(RequestCode.UPDATE_AND_CREATE_TOPIC, response, seconds)
    parts.meters.rpc(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_ERROR, 0.01)
    series = parts.scrape()
    name = "rocketmq_topic_create_execution_time"
    assert value(series, f"{name}_sum", invocation_status="success") == 2
    assert value(series, f"{name}_count", invocation_status="failure") == 3
    assert value(series, f"{name}_bucket", invocation_status="failure", le="5.0") == 1
    assert value(series, f"{name}_sum", invocation_status="failure") == pytest.approx(34)
    assert not any(name.startswith("rocketmq_consumer_group_create") for name, _ in series)


def test_where_the_time_of_sends_goes(parts: Parts) -> None:
    parts.stages[ENGINE].store.count(100, 0.5)
    parts.stages[ENGINE].store.count(20, 0.25)
    parts.stages[PLAIN].answer.count(3, 0.125)
    series = parts.scrape()
    assert value(series, "embermq_send_messages_total", path="engine", stage="store") == 120
    assert value(series, "embermq_send_calls_total", path="engine", stage="store") == 2
    assert value(series, "embermq_send_seconds_total", path="engine", stage="store") == 0.75
    assert value(series, "embermq_send_seconds_total", path="plain", stage="answer") == 0.125
    assert value(series, "embermq_send_messages_total", path="plain", stage="read") == 0
    assert value(series, "embermq_pull_messages_total", path="engine", stage="store") == 0


def test_where_the_time_of_pulls_goes(parts: Parts) -> None:
    parts.pull_stages[ENGINE].store.count(32, 0.5)
    parts.pull_stages[PLAIN].read.count(7, 0.25)
    series = parts.scrape()
    assert value(series, "embermq_pull_messages_total", path="engine", stage="store") == 32
    assert value(series, "embermq_pull_seconds_total", path="plain", stage="read") == 0.25
    assert value(series, "embermq_pull_calls_total", path="plain", stage="answer") == 0
    assert value(series, "embermq_send_messages_total", path="engine", stage="store") == 0


def test_transactions_are_counted(parts: Parts) -> None:
    parts.open_transactions.add("orders", 3)
    parts.open_transactions.committed["orders"] += 2
    parts.open_transactions.rolled_back["orders"] += 1
    series = parts.scrape()
    assert value(series, "rocketmq_half_messages", topic="orders") == 3
    assert value(series, "rocketmq_commit_messages_total", topic="orders") == 2
    assert value(series, "rocketmq_rollback_messages_total", topic="orders") == 1


def test_what_waits_for_its_time(parts: Parts) -> None:
    parts.timer = TimerFigures(
        late_ms=7, late=1, behind=2, by_topic={"orders": 3}, enqueued=9, dequeued=6, within={5: 1, 60: 3}
    )
    found = parts.scrape()
    assert found["rocketmq_timing_messages", frozenset({("topic", "orders")})] == 3
    assert found["rocketmq_timer_message_snapshot", frozenset({("timer_bound_s", "60")})] == 3
    names = ("rocketmq_timer_enqueue_lag", "rocketmq_timer_dequeue_lag", "rocketmq_timer_dequeue_latency")
    assert [found[name, frozenset()] for name in names] == [2, 1, 7]
    assert found["rocketmq_timer_enqueue_total", frozenset()] == 9
    assert found["rocketmq_timer_dequeue_total", frozenset()] == 6


def test_pops_are_told_under_rocketmqs_names(parts: Parts) -> None:
    parts.pops = PopFigures(
        [ReviveFigures(behind=2, pending=3, late_ms=40, revived=5), ReviveFigures(0, 1, 0, 0)],
        written={(0, "ck"): 4, (0, "ack"): 6, (0, "bAck"): 7},
        read={(1, "ck"): 8},
        unsettled=9,
    )
    series = parts.scrape()
    written, read = "rocketmq_pop_revive_in_message_total", "rocketmq_pop_revive_out_message_total"
    assert value(series, written, queue_id="0", revive_message_type="ACK") == 13
    assert value(series, read, queue_id="1", revive_message_type="CK") == 8
    assert value(series, "rocketmq_pop_revive_retry_messages_total", queue_id="0", put_status="PUT_OK") == 5
    assert value(series, "rocketmq_pop_revive_lag", queue_id="0") == 2
    assert value(series, "rocketmq_pop_revive_latency", queue_id="0") == 40
    assert value(series, "rocketmq_pop_offset_buffer_size") == 9
    assert value(series, "rocketmq_pop_checkpoint_buffer_size") == 4
