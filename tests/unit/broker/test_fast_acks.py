"""ACKs that kernels take: stored and answered as by ordinary code, whatever else comes with them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from embermq.broker.broker import Broker
from embermq.broker.fast_acks import FastAcks, shape_of
from embermq.broker.fast_shapes import MOST_SHAPES
from embermq.format.command import ONEWAY, Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, Frame, split_frames
from embermq.format.pop_records import ACK_TAG, BATCH_ACK_TAG, decode_ack
from embermq.format.stats_body import StatsKind
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.pop import Delivery
from embermq.model.properties import TAGS
from embermq.model.topic import TIMER_TOPIC
from tests.unit.broker.both_ways import NOW, Caller, a_send_elsewhere, feed_both, opaque_of, serving
from tests.unit.broker.brokers import send_fields, until
from tests.unit.broker.golden_wire import sent_frames
from tests.unit.broker.popping import GROUP, TOPIC, pop_fields, popped_of

CASES = [pytest.param(6), pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
ACK, POP = RequestCode.ACK_MESSAGE, RequestCode.POP_MESSAGE
QUEUES, MESSAGES = 3, 300  # of each queue
MOST = 10_000


async def fill(client: Caller) -> None:
    requests = [
        Command(310, send_fields(TOPIC, queue=number % QUEUES, UNIQ_KEY=f"ID{number:08}"), b"body", number)
        for number in range(QUEUES * MESSAGES)
    ]
    client.writer.write(b"".join(map(encode_command, requests)))
    await client.answers(len(requests))


def an_ack(
    opaque: int, queue: int = 0, offset: object = 0, *, form: int = JSON_FORM, handle: str = "", **changes: str
) -> Command:
    fields = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": str(queue), "offset": str(offset), "bname": "broker-a",
        "extraInfo": f"{handle or f'0 {NOW - 5} 60000 3'} 0 broker-a {queue} {offset}", **changes,
    }  # fmt: skip
    return Command(ACK, fields, b"", opaque, form=form)


def a_random_ack(random: Random, opaque: int) -> Command:
    """An ack of one of a few pops, now and then with something that is not right."""
    queue, offset = random.randrange(QUEUES), random.choice((random.randrange(MESSAGES), MESSAGES))
    start, popped = random.choice((0, 7)), NOW - random.choice((5, 70_000))  # of the latter, the time is up
    form = BINARY_FORM if random.random() < 0.2 else JSON_FORM
    request = an_ack(opaque, queue, offset, form=form, handle=f"{start} {popped} 60000 {random.randrange(2)}")
    fields = dict(request.fields)
    match random.randrange(40):
        case 0:
            fields["offset"] = random.choice(("-1", "007", "x", "301", "9" * 18, "9" * 25, ""))
        case 1:
            fields["queueId"] = random.choice(("3", "9", "-1", "x", "00"))
        case 2:
            fields["consumerGroup"] = random.choice(("other", "", "%illegal"))
        case 3:
            fields["topic"] = random.choice(("unknown", "", "no/topic"))
        case 4:
            handle = random.choice(("0 1 2 8", "0 1 2 999", f"0 {10**14} 5 3", f"0 5 {10**14} 3", "0 1 2", "1 x 2 3"))
            fields["extraInfo"] = f"{handle} 0 broker-a 0 0"
        case 5:
            start_of = fields["extraInfo"].split(" ")
            fields["extraInfo"] = " ".join(random.choice((start_of[:6], start_of[:7], [*start_of, "more"], ["é", "x"])))
        case 6:
            del fields[random.choice(list(fields))]
        case 7:
            fields["bname"] = random.choice(('quo"ted', "é", '\\"offset\\":\\"5\\"'))
        case 8:
            return Command(ACK, fields, b"body", opaque, form=form)
    return Command(ACK, fields, b"", opaque, ONEWAY if random.random() < 0.02 else 0, form=form)


def a_stream(random: Random, count: int) -> tuple[list[bytes], int]:
    """Acks and some sends as bytes, cut anywhere, and how many of them are answered."""
    requests = [
        a_random_ack(random, number) if random.random() < 0.97 else a_send_elsewhere(random, number)
        for number in range(count)
    ]
    requests[-1].flag = 0  # else nobody would wait for it
    data = b"".join(map(encode_command, requests))
    cuts = sorted(random.sample(range(1, len(data)), random.randrange(3, 20)))
    reads = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return reads, sum(1 for request in requests if not request.is_oneway)


def stored_acks(broker: Broker) -> Counter[tuple[Delivery, int]]:
    """How often each message of each pop was acknowledged, as the log has it: a record names it once."""
    found: Counter[tuple[Delivery, int]] = Counter()
    topics = [(TIMER_TOPIC, 0), *((broker.pops.log.topic, queue) for queue in range(broker.pops.log.queues))]
    for topic, queue in topics:
        for entry in broker.store.entries(topic, queue=queue, offset=0, limit=MOST):
            record = broker.store.read_record(entry.position)
            if record.property_map().get(TAGS) in (ACK_TAG, BATCH_ACK_TAG):
                ack = decode_ack(record.body, broker="nobody")
                found.update((ack.delivery, offset) for offset in ack.offsets)
    return found


class Outcome(NamedTuple):
    """What a broker made of a stream."""

    answers: dict[int, Frame]
    acked: set[tuple[Delivery, int]]
    counted: dict[str, int]
    taken: int


def fast_acks(broker: Broker) -> FastAcks:
    assert broker._fast is not None
    return broker._fast.acks


async def feed(path: Path, reads: list[bytes], count: int, *, with_kernels: bool, **settings: Any) -> Outcome:
    async with serving(path, with_kernels=with_kernels, **settings) as (broker, host):
        client = await Caller.connect(host)
        await fill(client)
        for data in reads:
            client.writer.write(data)
            await client.writer.drain()
            await asyncio.sleep(0)
        frames = await client.answers(count)
        acked = set(stored_acks(broker))
        counted = {key: each.messages for key, each in broker.statistics.counters(StatsKind.GROUP_ACK).items()}
        client.writer.close()
        taken = fast_acks(broker).taken if with_kernels else 0
        return Outcome({opaque_of(frame): frame for frame in frames}, acked, counted, taken)


@pytest.mark.parametrize("durability", ["async", "sync"])
@pytest.mark.parametrize("cases", CASES)
def test_any_stream_of_acks_has_the_same_outcome(tmp_path: Path, cases: int, durability: str) -> None:
    taken = 0
    for seed in range(cases):
        random = Random(seed)
        reads, count = a_stream(random, random.randrange(50, 400))
        fast, plain = feed_both(tmp_path / str(seed), feed, reads, count, durability=durability)
        assert fast.answers.keys() == plain.answers.keys()
        for opaque, frame in plain.answers.items():
            found, expected = decode_command(fast.answers[opaque]), decode_command(frame)
            if "queueOffset" not in expected.fields:  # of a send, which tells where in the log it is
                assert fast.answers[opaque] == frame, f"{found} {expected}"
            assert (found.code, found.remark) == (expected.code, expected.remark)
        assert (fast.acked, fast.counted) == (plain.acked, plain.counted)
        taken += fast.taken
    assert taken > 60 * cases, f"kernels were to take more of them than {taken}"


Work = Callable[[Broker, Caller], Awaitable[None]]


def with_filled(path: Path, work: Work, **settings: Any) -> None:
    """Let `work` use a broker with kernels and messages, and a connection whose acks they know."""

    async def run() -> None:
        async with serving(path, with_kernels=True, **settings) as (broker, host):
            client = await Caller.connect(host)
            await fill(client)
            assert (await client.ask(ACK, dict(an_ack(0).fields))).code == ResponseCode.SUCCESS
            assert fast_acks(broker).taken == 1
            await work(broker, client)
            client.writer.close()

    asyncio.run(run())


async def tell(client: Caller, *requests: Command) -> list[Command]:
    """Send requests in one write; their answers in the order of the requests."""
    client.writer.write(b"".join(map(encode_command, requests)))
    answers = {each.opaque: each for each in map(decode_command, await client.answers(len(requests)))}
    return [answers[request.opaque] for request in requests]


def test_what_was_popped_is_acknowledged_with_the_next_pop_in_one_write(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Caller) -> None:
        before, seen = fast_acks(broker).taken, set()
        acks: list[Command] = []
        for number in range(5):
            pop = Command(POP, pop_fields(TOPIC, GROUP), b"", 5000 + number)
            *answers, popped = await tell(client, *acks, pop)
            assert {answer.code for answer in answers} <= {ResponseCode.SUCCESS}
            messages = popped_of(popped, TOPIC, GROUP)
            assert len(messages) == 32
            seen |= {(each.queue, each.offset) for each in messages}
            acks = [
                an_ack(at, each.queue, each.offset, extraInfo=each.handle) for at, each in enumerate(messages)
            ]  # fmt: skip
        assert len(seen) == 5 * 32
        assert fast_acks(broker).taken == before + 4 * 32
        last = {(ack.fields["queueId"], ack.fields["offset"]) for ack in acks}
        acked = {(each.queue, offset) for each, offset in stored_acks(broker) if each.pop_time == NOW}
        assert acked == seen - {(int(queue), int(offset)) for queue, offset in last}

    with_filled(tmp_path, work)


def test_acks_of_one_pop_in_one_read_are_one_record(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Caller) -> None:
        end = broker.store.offsets(TIMER_TOPIC, queue=0)[1]
        acks = [an_ack(number, number % 2, number) for number in range(40)]
        assert {answer.code for answer in await tell(client, *acks)} == {ResponseCode.SUCCESS}
        entries = broker.store.entries(TIMER_TOPIC, queue=0, offset=end, limit=9)
        found = [decode_ack(broker.store.read_record(each.position).body, broker="nobody") for each in entries]
        assert sorted(ack.offsets for ack in found) == [tuple(range(0, 40, 2)), tuple(range(1, 40, 2))]

    with_filled(tmp_path, work)


@pytest.mark.parametrize("form", [JSON_FORM, BINARY_FORM])
def test_what_cannot_be_stored_is_refused_one_by_one(tmp_path: Path, form: int) -> None:
    async def work(broker: Broker, client: Caller) -> None:
        broker.store.change(reserve_bytes=2**62)
        await until(lambda: not broker.store.state().writable)
        before = fast_acks(broker).taken
        acks = [an_ack(number, 1, number, form=form) for number in range(20)]
        for answer in await tell(client, *acks):
            assert (answer.code, answer.form) == (ResponseCode.SERVICE_NOT_AVAILABLE, form)
            assert "reserve_bytes" in (answer.remark or "")
        assert fast_acks(broker).taken == before + 20
        broker.store.change(reserve_bytes=0)
        await until(lambda: broker.store.state().writable)
        assert {answer.code for answer in await tell(client, *acks)} == {ResponseCode.SUCCESS}

    with_filled(tmp_path, work)


def test_an_unusual_ack_among_others_is_left_to_ordinary_code(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Caller) -> None:
        before = fast_acks(broker).taken
        acks = [an_ack(number, 0, number) for number in range(9)]
        acks[4] = an_ack(4, 0, MESSAGES + 1)
        acks[6] = an_ack(6, 0, 6, handle=f"0 {NOW} 60000 999")  # of an ordered pop: no record
        codes = [answer.code for answer in await tell(client, *acks)]
        assert codes == [0] * 4 + [ResponseCode.NO_MESSAGE] + [0] * 4
        assert 4 <= fast_acks(broker).taken - before <= 7
        assert {offset for _, offset in stored_acks(broker)} == {0, 1, 2, 3, 5, 7, 8}

    with_filled(tmp_path, work)


def test_a_topic_that_is_gone_is_told_so(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Caller) -> None:
        broker.topics.delete(TOPIC)
        (answer,) = await tell(client, an_ack(5))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST

    with_filled(tmp_path, work)


def test_a_closed_connection_is_forgotten(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Caller) -> None:
        assert fast_acks(broker).has_readers
        client.writer.close()
        await until(lambda: not fast_acks(broker).has_readers)

    with_filled(tmp_path, work)


def test_a_client_whose_acks_are_never_alike_is_left_to_ordinary_code(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Caller) -> None:
        before = fast_acks(broker).taken
        for part in range(8):
            acks = [an_ack(number, 0, number % MESSAGES, bname=f"broker-{part}-{number}") for number in range(100)]
            assert {answer.code for answer in await tell(client, *acks)} == {ResponseCode.SUCCESS}
        assert MOST_SHAPES <= fast_acks(broker).taken - before < 2 * MOST_SHAPES  # of 800

    with_filled(tmp_path, work)


def header_of(request: Command) -> bytes:
    ((_, header, _),), _ = split_frames(encode_command(request))
    return header


@pytest.mark.parametrize("name", ["pop", "push-consumer-pop-mode"])
def test_every_ack_of_rocketmqs_client_can_be_taken(name: str) -> None:
    recorded = [(shape_of(frame), decode_command(frame)) for frame in sent_frames(name, ACK)]
    for shape, request in recorded:
        assert shape is not None
        assert (shape.topic, shape.group, shape.broker) == (
            request.fields["topic"], request.fields["consumerGroup"], "broker-a",
        )  # fmt: skip


@pytest.mark.parametrize("form", [JSON_FORM, BINARY_FORM])
def test_an_ack_as_clients_send_it_is_learned(form: int) -> None:
    def is_learned(request: Command) -> bool:
        return shape_of((form, header_of(request), b"")) is not None

    assert is_learned(an_ack(1, form=form))
    assert is_learned(an_ack(1, form=form, topic="offset", consumerGroup="extraInfo"))
    assert not is_learned(an_ack(1, form=form, extraInfo="0 1 2 3 0 broker-a"))
    assert not is_learned(an_ack(1, form=form, extraInfo="0 1 2 3 0 broker-a 5 6 7"))
    assert not is_learned(an_ack(1, form=form, extraInfo="00 1 2 3 0 broker-a 5 x"))
    assert not is_learned(an_ack(1, offset=-1, form=form))
    assert is_learned(an_ack(1, form=form, extraInfo=f"0 1 2 3 0 {'b' * 255} 5 6"))
    assert not is_learned(an_ack(1, form=form, extraInfo=f"0 1 2 3 0 {'b' * 256} 5 6"))
    assert not is_learned(an_ack(1, form=form, topic=""))
    assert not is_learned(Command(RequestCode.PULL_MESSAGE, an_ack(1).fields, b"", 1, form=form))
    assert not is_learned(Command(ACK, an_ack(1).fields, b"", 1, ONEWAY, form=form))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"offset":"0"', b'"offset":0'),
        (b'"offset":"0"', b'"offset":"0","offset":"0"'),
        (b'"offset":"0",', b""),
        (b'"queueId":"0"', b'"queueId":" 0"'),
        (b'"opaque":1,', b""),
        (b'"opaque":1', b'"x":{"opaque":1}'),
        (b'"bname":"broker-a"', b'"bname":"quo\\"ted"'),
        (b'"bname":"broker-a"', b'"extraInfo":"0 1 2 3 0 broker-a 5 6"'),
    ],
)
def test_json_in_which_something_is_not_certain_is_not_learned(old: bytes, new: bytes) -> None:
    header = header_of(an_ack(1))
    assert old in header
    assert shape_of((JSON_FORM, header.replace(old, new), b"")) is None


def test_white_space_and_any_order_of_members_will_do() -> None:
    fields = dict(reversed(an_ack(1).fields.items()))
    header = json.dumps({"opaque": 5, "version": 1, "extFields": fields, "flag": 0, "code": int(ACK)}, indent=2)
    assert shape_of((JSON_FORM, header.encode(), b"")) is not None


def test_a_binary_header_with_a_field_inside_of_another_is_not_learned() -> None:
    inner = "\0\x06offset\0\0\0\x015"
    assert shape_of((BINARY_FORM, header_of(an_ack(1, form=BINARY_FORM, bname=inner)), b"")) is None
