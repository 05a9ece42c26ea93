"""The embedded store, as a user sees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from embermq import Message, Store, open_store
from embermq.errors import SettingsError, StoreClosed, TopicNotFound
from embermq.format.record import Draft
from embermq.log.placed import Placed
from embermq.model.flags import SysFlag
from embermq.model.hashing import java_hash
from embermq.model.message import time_of
from embermq.model.topic import TopicConfig
from embermq.store.reading import ReadStatus
from tests.builders import ManualClock, a_message, a_store, read_all, some_messages, wait_until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    with a_store(tmp_path / "store", clock=clock) as store:
        yield store


def test_what_is_put_can_be_read_back_whole(store: Store, clock: ManualClock) -> None:
    properties = {"amount": "12", "名": "值"}
    sent = Message("orders", b"\x00body\xff", tags="eu", keys=["o-1", "o-2"], properties=properties, flag=7)
    receipt = store.put(sent)
    (got,) = store.get("orders", queue=receipt.queue, offset=receipt.offset)
    assert (got.topic, got.queue, got.offset, got.position) == ("orders", receipt.queue, 0, 0)
    assert (got.body, got.tags, got.keys, got.properties) == (sent.body, "eu", ("o-1", "o-2"), sent.properties)
    assert (got.flag, got.message_id) == (7, receipt.message_id)
    assert got.store_time == got.born_time == receipt.store_time == time_of(clock.time_ms)
    assert receipt.message_id == "7F00000100002A9F" + "0" * 16


def test_without_a_queue_the_queues_take_turns(store: Store) -> None:
    receipts = store.put_many(a_message() for _ in range(9))
    assert [receipt.queue for receipt in receipts] == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert [receipt.offset for receipt in receipts] == [0, 0, 0, 0, 1, 1, 1, 1, 2]


def test_a_queue_can_be_named_in_the_message_or_in_the_put(store: Store) -> None:
    assert store.put(a_message(queue=3)).queue == 3
    assert store.put(a_message(queue=3), queue=1).queue == 1


def test_batches_roll_over_files_and_keep_their_order(store: Store) -> None:
    messages = [a_message(body=bytes([number % 256]) * 3000, queue=0) for number in range(100)]
    store.put_many(messages)
    assert store.state().log_files == 5
    batch = store.get("orders", queue=0, offset=0, limit=1000)
    assert [message.body for message in batch] == [message.body for message in messages]


def test_nothing_put_is_nothing_done(store: Store) -> None:
    assert store.put_many([]) == []
    assert store.state().log_written == 0


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [(-1, ReadStatus.TOO_SMALL, 0), (3, ReadStatus.AT_END, 3), (4, ReadStatus.BEYOND, 3), (2, ReadStatus.FOUND, 3)],
)
def test_reading_outside_of_a_queue_says_where_to_go(
    store: Store, offset: int, status: ReadStatus, next_offset: int
) -> None:
    store.put_many(a_message(queue=0) for _ in range(3))
    batch = store.get("orders", queue=0, offset=offset)
    assert (batch.status, batch.next_offset) == (status, next_offset)
    assert (batch.min_offset, batch.max_offset) == (0, 3)


def test_reading_an_unknown_queue_finds_none(store: Store) -> None:
    assert store.get("nothing", queue=0, offset=0).status is ReadStatus.NO_QUEUE
    assert store.offsets("nothing", queue=0) == (0, 0)


def test_a_read_ends_at_its_limits_but_gives_one_message_at_least(store: Store) -> None:
    store.put_many(a_message(body=b"x" * 1000, queue=0) for _ in range(10))
    assert len(store.get("orders", queue=0, offset=0, limit=4)) == 4
    assert len(store.get("orders", queue=0, offset=0, max_bytes=3 * 1097)) == 3
    assert len(store.get("orders", queue=0, offset=0, max_bytes=3 * 1097 - 1)) == 2
    assert len(store.get("orders", queue=0, offset=0, max_bytes=1)) == 1


def test_tags_are_matched_by_their_text_not_their_hash(store: Store) -> None:
    assert java_hash("Aa") == java_hash("BB")
    for tags in ("Aa", "BB", "eu", None):
        store.put(a_message(body=str(tags).encode(), tags=tags, queue=0))
    assert [message.body for message in store.get("orders", queue=0, offset=0, tags="BB || eu")] == [b"BB", b"eu"]
    assert len(store.get("orders", queue=0, offset=0, tags="*")) == 4
    none = store.get("orders", queue=0, offset=0, tags="us")
    assert (len(none), none.status, none.next_offset) == (0, ReadStatus.NO_MATCH, 4)


def test_a_key_finds_its_messages_oldest_first_and_no_other_with_its_hash(store: Store) -> None:
    assert java_hash("orders#Aa") == java_hash("orders#BB")
    store.put_many(
        a_message(body=body, keys=keys) for body, keys in [(b"1", ["Aa"]), (b"2", ["BB"]), (b"3", ["x", "Aa"])]
    )
    store.put(Message("payments", b"4", keys=["Aa"]))
    assert [message.body for message in store.query("orders", key="Aa")] == [b"1", b"3"]
    assert [message.body for message in store.query("orders", key="Aa", limit=1)] == [b"3"]
    assert store.query("orders", key="C#") == []


def test_a_query_can_be_bounded_in_time(store: Store, clock: ManualClock) -> None:
    for number in range(5):
        store.put(a_message(body=b"%d" % number, keys=["k"]))
        clock.advance(ms=10_000)
    begin = time_of(ManualClock().time_ms)
    found = store.query("orders", key="k", since=begin + timedelta(seconds=10), until=begin + timedelta(seconds=30))
    assert [message.body for message in found] == [b"1", b"2", b"3"]


def test_a_message_is_found_by_its_id(store: Store) -> None:
    receipt = store.put_many([a_message(body=b"a"), a_message(body=b"b")])[1]
    found = store.find(receipt.message_id)
    assert found is not None
    assert found.body == b"b"
    assert store.find("7F00000100002A9F" + "F" * 15 + "0") is None


def test_offsets_are_found_by_time(store: Store, clock: ManualClock) -> None:
    begin = clock.time_ms
    for _ in range(5):
        store.put(a_message(queue=0))
        clock.advance(ms=100)
    cases = [(-1, 0, 0), (0, 0, 0), (1, 1, 0), (150, 2, 1), (400, 4, 4), (401, 5, 4)]
    for after, lower, upper in cases:
        time = time_of(begin + after)
        assert store.find_offset("orders", queue=0, time=time) == lower
        assert store.find_offset("orders", queue=0, time=time, upper=True) == upper
    local = time_of(begin + 150).astimezone().replace(tzinfo=None)
    assert store.find_offset("orders", queue=0, time=local) == 2


def test_a_clock_that_goes_back_does_not_take_the_store_with_it(store: Store, clock: ManualClock) -> None:
    first = store.put(a_message(queue=0))
    clock.advance(ms=-60_000)
    second = store.put(a_message(queue=0))
    assert second.store_time == first.store_time


def test_topics_can_be_made_changed_and_deleted(store: Store) -> None:
    store.save_topic(TopicConfig("payments", read_queues=2, write_queues=2))
    assert [store.put(Message("payments", b"x")).queue for _ in range(3)] == [0, 1, 0]
    store.save_topic(TopicConfig("payments", read_queues=1, write_queues=1))
    assert store.put(Message("payments", b"x")).queue == 0
    store.delete_topic("payments")
    assert store.topics() == []
    assert store.queues("payments") == []
    assert store.put(Message("payments", b"again", queue=0)).offset == 0
    with pytest.raises(TopicNotFound):
        store.delete_topic("nothing")


def test_unknown_topics_can_be_refused(tmp_path: Path) -> None:
    with a_store(tmp_path / "s", auto_create_topics=False) as store:
        with pytest.raises(TopicNotFound, match="ember topic create orders"):
            store.put(a_message())
        assert store.state().log_written == 0


def test_listeners_hear_what_becomes_visible_in_order(store: Store) -> None:
    heard: list[Placed] = []

    def listener(items: Sequence[Placed]) -> None:
        heard.extend(items)

    store.listen(listener)
    receipts = store.put_many(some_messages(10))
    assert [(item.queue, item.offset, item.position) for item in heard] == [
        (receipt.queue, receipt.offset, receipt.position) for receipt in receipts
    ]


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_every_durability_gives_back_what_was_put(tmp_path: Path, durability: str) -> None:
    messages = some_messages(500)
    with a_store(tmp_path / "s", durability=durability) as store:
        store.put_many(messages[:250])
        for message in messages[250:260]:
            store.put(message)
        store.put_many(messages[260:])
        wait_until(lambda: store.state().dispatch_behind == 0)
        assert len(store.query("orders", key="key-255")) == 1
    with a_store(tmp_path / "s", durability=durability) as store:
        assert store.state().recovered.clean
        found = [body for bodies in read_all(store).values() for body in bodies]
        assert sorted(found) == sorted(message.body for message in messages)


def test_many_threads_share_one_sync(tmp_path: Path) -> None:
    with a_store(tmp_path / "s", durability="sync") as store:
        before = store.state().syncs
        threads = [
            threading.Thread(target=lambda: [store.put(a_message(queue=0)) for _ in range(20)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        batch = store.get("orders", queue=0, offset=0, limit=1000)
        assert [message.offset for message in batch] == list(range(160))
        assert store.state().syncs - before < 160


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = a_store(tmp_path / "s")
    store.close()
    store.close()
    acts = [lambda: store.put(a_message()), lambda: store.get("t", queue=0, offset=0), lambda: store.query("t", "k")]
    for act in acts:
        with pytest.raises(StoreClosed, match="open it again"):
            act()
    assert not store.state().readable


def test_records_marked_prepared_or_rolled_back_enter_no_queue(store: Store) -> None:
    store.save_topic(TopicConfig("orders"))
    flags = [0, SysFlag.PREPARED, SysFlag.COMMITTED, SysFlag.ROLLED_BACK, 0]
    receipts = store.put_drafts(
        lambda: [Draft(b"orders", 0, b"%d" % flag, b"KEYS\x01k\x02", sys_flag=flag) for flag in flags]
    )
    assert [receipt.offset for receipt in receipts] == [0, 0, 1, 0, 2]
    assert [message.sys_flag for message in store.get("orders", queue=0, offset=0)] == [0, SysFlag.COMMITTED, 0]
    assert len(store.query("orders", "k")) == 4, "all but the one rolled back"


def test_a_last_separator_that_is_missing_is_added(store: Store) -> None:
    (receipt,) = store.put_drafts(lambda: [Draft(b"orders", 0, b"x", b"a\x01b\0")])
    found = store.read("orders", queue=0, offset=receipt.offset, limit=1, max_bytes=1)
    assert bytes(found.records[0][2]).endswith(b"\x00\x05a\x01b\0\x02")


def test_delayed_records_are_filed_under_the_time_of_their_delivery(store: Store, clock: ManualClock) -> None:
    heard: list[Placed] = []
    store.listen(heard.extend)
    properties = [b"DELAY\x013\x02", b"DELAY\x0199\x02", b"TAGS\x01eu\x02"]
    store.put_drafts(lambda: [Draft(b"SCHEDULE_TOPIC_XXXX", 2, b"x", each) for each in properties])
    codes = [item.tags_code for item in heard]
    assert codes == [clock.time_ms + 10_000, clock.time_ms + 7_200_000, java_hash("eu")]


def test_light_queues_hold_a_message_once_more(tmp_path: Path) -> None:
    with a_store(tmp_path / "s", light_queues=True) as store:
        for names in ("%LMQ%a,%LMQ%b", "%LMQ%b"):
            store.put(a_message(body=names.encode(), properties={"INNER_MULTI_DISPATCH": names}, queue=0))
        assert [message.body for message in store.get("%LMQ%b", queue=0, offset=0)] == [b"%LMQ%a,%LMQ%b", b"%LMQ%b"]
        assert store.offsets("%LMQ%a", queue=0) == (0, 1)
        (first, second) = store.get("orders", queue=0, offset=0)
        assert first.properties["INNER_MULTI_QUEUE_OFFSET"] == "0,0"
        assert second.properties["INNER_MULTI_QUEUE_OFFSET"] == "1"
    with a_store(tmp_path / "s", light_queues=True) as store:
        receipt = store.put(a_message(properties={"INNER_MULTI_DISPATCH": "%LMQ%b"}))
        (message,) = store.get("orders", queue=receipt.queue, offset=receipt.offset)
        assert message.properties["INNER_MULTI_QUEUE_OFFSET"] == "2"


@pytest.mark.parametrize(
    "topic", ["%RETRY%g", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC"]
)
def test_a_message_that_waits_is_in_no_light_queue(tmp_path: Path, topic: str) -> None:
    names = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"
    with a_store(tmp_path / "s", light_queues=True) as store:
        store.put_drafts(lambda: [Draft(b"orders", 0, b"first", names)])
        # It comes back with the offset that it had.
        store.put_drafts(lambda: [Draft(topic.encode(), 0, b"waits", names + b"INNER_MULTI_QUEUE_OFFSET\x010\x02")])
        store.put_drafts(lambda: [Draft(b"orders", 0, b"second", names + b"INNER_MULTI_QUEUE_OFFSET\x010\x02")])
        assert [message.body for message in store.get("%LMQ%a", queue=0, offset=0)] == [b"first", b"second"]


def test_listeners_hear_of_light_queues(tmp_path: Path) -> None:
    heard: list[Placed] = []
    with a_store(tmp_path / "s", light_queues=True) as store:
        store.listen(heard.extend)
        store.put(a_message(properties={"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}, queue=0))
    assert [(item.topic, item.offset) for item in heard] == [("orders", 0), ("%LMQ%a", 0), ("%LMQ%b", 0)]


def test_an_inner_batch_takes_as_many_offsets_as_it_holds(store: Store) -> None:
    store.save_topic(TopicConfig("batches", read_queues=1, write_queues=1, attributes={"queue.type": "BatchCQ"}))
    flag = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP

    def batch(count: int) -> Draft:
        return Draft(b"batches", 0, b"%d" % count, b"INNER_NUM\x01%d\x02" % count, sys_flag=flag)

    receipts = store.put_drafts(lambda: [batch(5), batch(3)])
    assert [receipt.offset for receipt in receipts] == [0, 5]
    assert store.offsets("batches", queue=0) == (0, 8)
    found = store.get("batches", queue=0, offset=6)
    assert [(message.body, message.properties["INNER_BASE"]) for message in found] == [(b"3", "5")]
    assert found.next_offset == 8


def test_extended_queues_keep_tags_and_time_beside_the_queue(tmp_path: Path) -> None:
    with a_store(tmp_path / "s", extended_queues=True) as store:
        store.put_many(a_message(tags=f"t{number % 3}", queue=0) for number in range(100))
        assert len(store.get("orders", queue=0, offset=0, limit=100, tags="t1")) == 33
    assert (tmp_path / "s" / "consumequeue_ext" / "orders" / "0").is_dir()


def test_a_state_tells_all_figures(store: Store) -> None:
    store.put_many(some_messages(100))
    state = store.state()
    assert state.puts.messages == 100
    assert (state.puts.batches, state.puts.largest_batch, state.puts.mean_batch) == (1, 100, 100.0)
    assert state.puts.bytes == state.log_written
    assert 0 < state.puts.time_p50_us <= state.puts.time_p999_us <= state.puts.time_max_us
    assert (state.readable, state.writable, state.refusal) == (True, True, None)
    assert (state.topics, state.queues, state.log_files, state.index_files) == (1, 4, 1, 1)
    assert state.index_entries == 100
    assert (state.dispatched, state.dispatch_behind) == (state.log_written, 0)
    assert state.disk_total > state.disk_free > 0


def test_an_unknown_setting_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="did you mean durability"):
        open_store(tmp_path / "s", durabilty="sync")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"durability": "none"}, "sync, async or pooled"),
        ({"log_file_size": 100}, "at least 4096"),
        ({"index_entries": 1}, "at least 2"),
        ({"disk_max_ratio": 75}, "a share of the disk"),
        ({"delete_when": "24"}, "00 to 23"),
        ({"delete_when": "four"}, "hours joined by"),
        ({"store_host": "nowhere"}, "address:port"),
        ({"delay_levels": "1x"}, "such as 30s"),
        ({"store_host": "broker-a:10911"}, "address:port"),
        ({"store_host": "127.0.0.1:65536"}, "address:port"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        open_store(tmp_path / "s", **settings)


def test_the_future_is_read_in_utc(store: Store) -> None:
    receipt = store.put(a_message())
    assert receipt.store_time.tzinfo is UTC
    assert receipt.store_time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
