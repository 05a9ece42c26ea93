"""POP: who gets which message, who waits, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.command import make_request
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.pop import retry_topic_of, revive_topic_of
from embermq.model.topic import TIMER_TOPIC, TopicConfig
from tests.unit.broker.brokers import until, with_broker
from tests.unit.broker.peers import SteppedClock
from tests.unit.broker.popping import GROUP, TOPIC, PopClient, popped_of

POP = RequestCode.POP_MESSAGE


async def fill(client: PopClient, count: int, *, queues: int = 2, **properties: str) -> list[bytes]:
    bodies = [b"message %d" % number for number in range(count)]
    for number, body in enumerate(bodies):
        answer = await client.send(client.topic, body, queue=number % queues, **properties)
        assert answer.code == 0, answer
    return bodies


def test_a_popped_message_is_with_one_consumer_of_its_group(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        first, second, other = PopClient(broker), PopClient(broker), PopClient(broker, group="audit")
        bodies = await fill(first, 6)
        assert sorted(each.body for each in await first.pop()) == bodies
        assert await second.pop() == []
        assert sorted(each.body for each in await other.pop()) == bodies

    with_broker(tmp_path, work)


def test_a_pop_takes_as_many_as_it_wants_and_tells_how_many_are_left(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 7)
        answer = await client.ask(POP, client.fields(maxMsgNums=3))
        assert answer.fields["restNum"] == "4"
        assert len(await client.pop(maxMsgNums=32)) == 4

    with_broker(tmp_path, work)


def test_pops_of_one_queue_give_its_messages_in_order(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 9, queues=3)
        found = [await client.pop(queueId=1, maxMsgNums=1) for _ in range(4)]
        assert [[each.offset for each in some] for some in found] == [[0], [1], [2], []]

    with_broker(tmp_path, work)


def test_a_pop_with_tags_passes_over_other_messages_for_good(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 4, queues=1, TAGS="us")
        await client.send(client.topic, b"wanted", TAGS="eu")
        assert [each.body for each in await client.pop(exp="eu || asia")] == [b"wanted"]
        assert await client.pop(exp="asia") == []
        assert broker.pops.progress.find(TOPIC, GROUP, 0) == 5

    with_broker(tmp_path, work)


@pytest.mark.parametrize(("mode", "expected"), [(0, 3), (1, 3)])
def test_a_new_group_begins_at_the_first_message_of_a_young_queue(tmp_path: Path, mode: int, expected: int) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 3, queues=1)
        assert len(await client.pop(initMode=mode)) == expected

    with_broker(tmp_path, work)


def test_a_pop_waits_for_a_message(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        broker.topics.ensure(TOPIC, queues=4)
        request = make_request(POP, client.fields(pollTime=20_000))
        client.tell(request)
        assert broker.pops.polls.count(TOPIC, GROUP, -1) == 1
        await client.send(TOPIC, b"at last", queue=3)
        answer = await client.answer_to(request)
        assert (answer.code, answer.fields["msgOffsetInfo"]) == (0, "0 3 0")

    with_broker(tmp_path, work)


def test_a_message_in_the_retry_topic_of_the_group_wakes_a_pop_too(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        retry = retry_topic_of(TOPIC, GROUP)
        for name in (TOPIC, retry):
            broker.topics.ensure(name)
        request = make_request(POP, client.fields(pollTime=20_000))
        client.tell(request)
        draft = (retry.encode(), 0, b"again", b"", 0, 0, 0, b"\x7f\0\0\1\0\0\0\1", 1, 0)
        await broker.puts.put([draft])
        answer = await client.answer_to(request)
        assert (answer.code, answer.fields["msgOffsetInfo"]) == (0, "1 0 0")

    with_broker(tmp_path, work)


def test_a_pop_that_waited_in_vain_is_told_so(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        broker.topics.ensure(TOPIC)
        request = make_request(POP, client.fields(pollTime=5_000))
        client.tell(request)
        assert client.peer.sent == []
        clock.advance(ms=5_001)
        answer = await client.answer_to(request)
        assert (answer.code, answer.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")

    with_broker(tmp_path, work, clock=clock)


def test_too_many_pops_that_wait_are_refused(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        broker.topics.ensure(TOPIC)
        client.tell(make_request(POP, client.fields(pollTime=20_000)))
        answer = await client.ask(POP, client.fields(pollTime=20_000))
        assert answer.code == ResponseCode.POLLING_FULL

    with_broker(tmp_path, work, settings=BrokerSettings(max_parked_pops_alike=1))


def test_a_group_with_too_many_open_messages_waits_until_it_has_acknowledged_some(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        for number in range(5):
            await client.send(TOPIC, b"%d" % number)
        first = await client.pop(maxMsgNums=3)
        assert len(first) == 3
        assert await client.pop() == []
        request = make_request(POP, client.fields(pollTime=20_000))
        client.tell(request)
        await client.change(first[0], 60_000)  # still with the consumer
        assert len(await PopClient(broker, group="another").pop(maxMsgNums=3)) == 3
        await client.ack(first[1])
        answer = await client.answer_to(request)
        assert [popped.body for popped in popped_of(answer, TOPIC, GROUP)] == [b"3", b"4"]

    with_broker(tmp_path, work, settings=BrokerSettings(limits_popped=True, max_popped=3))


def test_nothing_has_to_be_brought_back_to_the_revive_topic(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        assert (await PopClient(broker).ask(RequestCode.POP_ROLLBACK)).code == ResponseCode.SUCCESS

    with_broker(tmp_path, work)


def test_a_request_older_than_its_poll_time_is_of_nobody(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 1)
        born = clock.now_ms() - 1_501
        late = await client.ask(POP, client.fields(pollTime=1_000, bornTime=born))
        assert late.code == ResponseCode.POLLING_TIMEOUT
        assert len(await client.pop(pollTime=1_000, bornTime=born + 1)) == 1

    with_broker(tmp_path, work, clock=clock)


def test_the_rest_of_one_pop_wakes_the_next(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        broker.topics.ensure(TOPIC)
        waiting = [make_request(POP, client.fields(pollTime=20_000, maxMsgNums=1)) for _ in range(3)]
        client.tell(*waiting)
        drafts = [(TOPIC.encode(), 0, b"m%d" % n, b"", 0, 0, 0, b"\x7f\0\0\1\0\0\0\1", 0, 0) for n in range(3)]
        await broker.puts.put(drafts)
        answers = [await client.answer_to(request) for request in waiting]
        assert sorted(answer.fields["msgOffsetInfo"] for answer in answers) == ["0 0 0", "0 0 1", "0 0 2"]

    with_broker(tmp_path, work)


def test_a_reset_sends_pops_to_its_offset(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 4, queues=1)
        await client.pop()
        broker.offsets.reset(TOPIC, GROUP, 0, 1)
        assert [each.offset for each in await client.pop()] == [1, 2, 3]

    with_broker(tmp_path, work)


def test_an_offset_beyond_the_queue_goes_back_to_its_end(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 2, queues=1)
        broker.offsets.commit(TOPIC, GROUP, 0, 77)
        assert await client.pop() == []
        await client.send(TOPIC, b"next")
        assert [each.offset for each in await client.pop()] == [2]

    with_broker(tmp_path, work)


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_offsets_are_committed_once_the_disk_has_the_checkpoint(tmp_path: Path, durability: str) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 4, queues=1)
        await client.pop()
        assert broker.pops.progress.find(TOPIC, GROUP, 0) == 4
        await until(lambda: broker.offsets.find(TOPIC, GROUP, 0) == 4)
        entries = broker.store.entries(TIMER_TOPIC, queue=0, offset=0, limit=9)
        assert len(entries) == 1
        assert entries[0].position < broker.store.flushed

    with_broker(tmp_path, work, durability=durability)


def test_a_short_time_goes_straight_to_the_revive_topic(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 1)
        await client.pop(invisibleTime=900)
        topic = revive_topic_of("DefaultCluster")
        assert sum(broker.store.offsets(topic, queue=queue)[1] for queue in range(8)) == 1

    with_broker(tmp_path, work)


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"maxMsgNums": 33}, ResponseCode.INVALID_PARAMETER, "1 to 32"),
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST, "nowhere"),
        ({"queueId": 4}, ResponseCode.INVALID_PARAMETER, "has 4 queues"),
        ({"invisibleTime": -1}, ResponseCode.INVALID_PARAMETER, "allowed are"),
        ({"invisibleTime": 10**12}, ResponseCode.INVALID_PARAMETER, "allowed are"),
        ({"invisibleTime": "soon"}, ResponseCode.INVALID_PARAMETER, "no number"),
        ({"consumerGroup": "g" * 242}, ResponseCode.INVALID_PARAMETER, "256 characters, limit 255"),
        ({"topic": "writeonly", "queueId": 0}, ResponseCode.NO_PERMISSION, "read permission"),
        ({"consumerGroup": "no group!"}, ResponseCode.INVALID_PARAMETER, "no group!"),
        ({"attemptId": "a" * 257, "order": "true"}, ResponseCode.INVALID_PARAMETER, "at most 256"),
        ({"attemptId": "\ud800", "order": "true"}, ResponseCode.INVALID_PARAMETER, "printable"),
        ({"expType": "REGEX"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "REGEX"),
    ],
)
def test_what_cannot_be_popped_is_refused(tmp_path: Path, changes: dict[str, object], code: int, said: str) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        broker.topics.ensure(TOPIC, queues=4)
        broker.topics.save(TopicConfig("writeonly", permission=2))
        answer = await client.ask(POP, client.fields(**changes))
        assert answer.code == code
        assert said in (answer.remark or "")

    with_broker(tmp_path, work)


def test_a_group_that_does_not_exist_is_refused_where_none_are_made(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        broker.topics.ensure(TOPIC)
        answer = await client.ask(POP, client.fields())
        assert answer.code == ResponseCode.GROUP_NOT_EXIST
        assert GROUP in (answer.remark or "")

    with_broker(tmp_path, work, settings=BrokerSettings(auto_create_groups=False))


def test_a_look_takes_nothing(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        empty = await client.ask(RequestCode.PEEK_MESSAGE, client.fields(topic="TBW102"))
        assert empty.code == ResponseCode.PULL_NOT_FOUND
        bodies = await fill(client, 3)
        for _ in range(2):
            answer = await client.ask(RequestCode.PEEK_MESSAGE, client.fields(maxMsgNums=2))
            assert (answer.code, answer.fields["restNum"]) == (0, "1")
        assert sorted(each.body for each in await client.pop()) == bodies

    with_broker(tmp_path, work)


def test_a_notification_comes_with_the_message(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        broker.topics.ensure(TOPIC, queues=4)
        nothing = await client.ask(RequestCode.NOTIFICATION, client.fields())
        assert dict(nothing.fields) == {"hasMsg": "false", "pollingFull": "false"}
        request = make_request(RequestCode.NOTIFICATION, client.fields(pollTime=20_000))
        client.tell(request)
        await client.send(TOPIC, b"there", queue=1)
        assert (await client.answer_to(request)).fields["hasMsg"] == "true"

    with_broker(tmp_path, work)


def test_the_number_of_waiting_pops_is_told(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        broker.topics.ensure(TOPIC)
        client.tell(*[make_request(POP, client.fields(pollTime=20_000)) for _ in range(3)])
        answer = await client.ask(RequestCode.POLLING_INFO, client.fields())
        assert answer.fields["pollingNum"] == "3"

    with_broker(tmp_path, work)


def test_a_pop_looks_for_what_it_wants_through_any_number_of_others(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        broker.topics.ensure(TOPIC)
        host = b"\x7f\0\0\1\0\0\0\1"
        drafts = [(TOPIC.encode(), 0, b"unwanted", b"TAGS\1us\2", 0, 0, 0, host, 0, 0)] * 3_000
        await broker.puts.put([*drafts, (TOPIC.encode(), 0, b"wanted", b"TAGS\1eu\2", 0, 0, 0, host, 0, 0)])
        assert [each.body for each in await client.pop(exp="eu", pollTime=20_000)] == [b"wanted"]

    with_broker(tmp_path, work, queue_file_size=20 * 4_000, log_file_size=1 << 21)


def test_large_messages_are_popped_a_few_at_a_time(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        for number in range(6):
            await client.send(TOPIC, bytes(1_500_000), queue=number % 2)
        counts = [len(await client.pop()) for _ in range(3)]
        assert sum(counts) == 6
        assert max(counts) == 3

    with_broker(tmp_path, work, log_file_size=1 << 24)


def test_ordered_pops_begin_at_the_first_message_that_is_left(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 2, queues=1)
        broker.offsets.commit(TOPIC, GROUP, 0, 77)
        assert await client.pop(order="true") == []
        await client.send(TOPIC, b"next")
        assert [each.offset for each in await client.pop(order="true")] == [2]

    with_broker(tmp_path, work)
