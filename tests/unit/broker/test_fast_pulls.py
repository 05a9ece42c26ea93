"""PULLs that kernels take: answered as ordinary code would, byte for byte, whatever happens around them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from embermq.broker.broker import Broker
from embermq.broker.stages import ENGINE
from embermq.format.command import ONEWAY, Command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, Frame
from embermq.format.heartbeat_body import Consumes, Heartbeat, encode_heartbeat
from embermq.format.stats_body import StatsKind
from embermq.format.tables import OffsetTable
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.flags import Permission
from embermq.model.subscription import Subscribed
from embermq.model.topic import TopicConfig
from embermq.net.connection import Connection
from tests.unit.broker.both_ways import SENDER, Caller, a_send_elsewhere, feed_both, opaque_of, serving
from tests.unit.broker.brokers import pull_fields, send_fields, until

CASES = [pytest.param(6), pytest.param(2_000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
QUEUES = 3
MESSAGES = 900


class Client(Caller):
    """A connection, and pulls over it."""

    async def pull(self, offset: int = 0, **fields: Any) -> Command:
        return await self.ask(RequestCode.PULL_MESSAGE, pull_fields(offset=offset, **fields))


async def subscribe(client: Client, expression: str, version: int) -> None:
    """A heartbeat of the group's one member."""
    subscribed = Subscribed("orders", expression, tags=(), codes=(), version=version)
    beat = Heartbeat("client-1", consumers=(Consumes("billing", subscriptions=(subscribed,)),))
    assert (await client.ask(RequestCode.HEART_BEAT, {}, encode_heartbeat(beat))).code == ResponseCode.SUCCESS


async def fill(client: Client, *, topic: str = "orders", count: int = MESSAGES, seed: int = 1) -> None:
    """Messages in some queues, mostly several of one queue in a row."""
    random, queue, requests = Random(seed), 0, []
    for number in range(count):
        queue = random.randrange(QUEUES) if random.random() < 0.3 else queue
        fields = send_fields(topic, queue=queue, TAGS=random.choice("abc"), UNIQ_KEY=f"ID{number:08}", WAIT="true")
        requests.append(Command(310, fields, random.randbytes(random.choice((10, 500, 900))), number))
    client.writer.write(b"".join(map(encode_command, requests)))
    await client.answers(count)


def visible(broker: Broker) -> int:
    """How many messages can be pulled."""
    return sum(broker.store.offsets("orders", queue=queue)[1] for queue in range(QUEUES))


class Consumer(NamedTuple):
    """Whose pulls are alike."""

    form: int
    queue: int
    texts: dict[str, str]


def a_consumer(random: Random) -> Consumer:
    texts = {
        "subscription": random.choice(("*", "*", "*", "a", "a || c", "none")),
        "maxMsgNums": random.choice(("1", "32", "32", "1000")),
        "sysFlag": random.choice(("4", "4", "5")),
        "expressionType": "TAG",
    }
    return Consumer(BINARY_FORM if random.random() < 0.3 else JSON_FORM, random.randrange(QUEUES), texts)


def a_pull(random: Random, opaque: int, consumer: Consumer) -> Command:
    """A pull of a consumer, now and then with something that nobody sends."""
    form, queue, texts = consumer
    offset, commit_offset = random.randrange(MESSAGES // QUEUES), str(random.randrange(50))
    fields = pull_fields(queue=queue, offset=offset, commitOffset=commit_offset, **texts)
    match random.randrange(60):
        case 0:
            fields["queueOffset"] = random.choice(("-1", "007", "x", "99999", "9" * 25))
        case 1:
            fields["queueId"] = random.choice(("3", "9", "-1", "x"))
        case 2:
            fields["consumerGroup"] = random.choice(("other", "", "%illegal"))
        case 3:
            fields["sysFlag"] = random.choice(("0", "2", "6", "x"))
        case 4:
            fields["expressionType"] = random.choice(("", "SQL92"))
        case 5:
            fields["maxMsgBytes"] = random.choice(("1", "2000", "-5", "x"))
        case 6:
            fields["topic"] = random.choice(("bills", "unknown", ""))
        case 7:
            del fields[random.choice(list(fields))]
        case 8:
            fields["subscription"] = 'quo"ted \\ "queueOffset":"5"'
    return Command(11, fields, b"", opaque, ONEWAY if random.random() < 0.02 else 0, form=form)


def a_stream(random: Random, count: int) -> tuple[list[bytes], int]:
    """Pulls and some sends as bytes, cut anywhere, and how many of them are answered."""
    consumers = [a_consumer(random) for _ in range(6)]
    requests = [
        a_pull(random, number, random.choice(consumers)) if random.random() < 0.97 else a_send_elsewhere(random, number)
        for number in range(count)
    ]
    requests[-1].flag = 0  # else nobody would wait for it
    data = b"".join(map(encode_command, requests))
    cuts = sorted(random.sample(range(1, len(data)), random.randrange(10, 50)))
    reads = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return reads, sum(1 for request in requests if not request.is_oneway)


class Outcome(NamedTuple):
    """What a broker made of a stream."""

    answers: dict[int, Frame]
    offsets: OffsetTable
    totals: tuple[int, ...]
    counters: dict[str, tuple[int, int, int]]
    taken: int  # messages that kernels found


async def feed(path: Path, reads: list[bytes], count: int, *, with_kernels: bool, **settings: Any) -> Outcome:
    async with serving(path, with_kernels=with_kernels, **settings) as (broker, host):
        sender, client = await Client.connect(host, SENDER), await Client.connect(host)
        await fill(sender)
        await until(lambda: visible(broker) == MESSAGES)
        for data in reads:
            client.writer.write(data)
            await client.writer.drain()
            await asyncio.sleep(0)
        frames = await client.answers(count)
        totals = broker.statistics.totals
        counters = {
            key: (each.messages, each.size, each.times)
            for kind in (StatsKind.QUEUE_GET, StatsKind.GROUP_GET)
            for key, each in broker.statistics.counters(kind).items()
        }
        sender.writer.close()
        client.writer.close()
        return Outcome(
            {opaque_of(frame): frame for frame in frames},
            broker.offsets.table(),
            (totals.found, totals.missed, totals.transferred),
            counters,
            broker.pull_stages[ENGINE].store.messages,
        )


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
@pytest.mark.parametrize("cases", CASES)
def test_any_stream_of_pulls_has_the_same_outcome(tmp_path: Path, cases: int, durability: str) -> None:
    taken = 0
    for seed in range(cases):
        random = Random(seed)
        reads, count = a_stream(random, random.randrange(50, 400))
        fast, plain = feed_both(tmp_path / str(seed), feed, reads, count, durability=durability)
        for opaque, frame in plain.answers.items():
            assert fast.answers[opaque] == frame, f"{fast.answers[opaque][1]!r} {frame[1]!r}"
        assert len(fast.answers) == len(plain.answers)
        assert fast.offsets.offsets == plain.offsets.offsets
        assert (fast.totals, fast.counters) == (plain.totals, plain.counters)
        assert plain.taken == 0
        taken += fast.taken
    assert taken > 150 * cases, "kernels were to take more of them"


Work = Callable[[Broker, Client], Awaitable[None]]


def with_filled(path: Path, work: Work, **settings: Any) -> None:
    """Let `work` use a broker with kernels and messages, and a connection whose pulls they know."""

    async def run() -> None:
        async with serving(path, with_kernels=True, **settings) as (broker, host):
            client = await Client.connect(host)
            await fill(client)
            for _ in range(3):
                answer = await client.pull()
                assert answer.code == ResponseCode.SUCCESS
            assert taken(broker) > 0
            await work(broker, client)
            client.writer.close()

    asyncio.run(run())


def taken(broker: Broker) -> int:
    """How many calls kernels have answered."""
    return broker.pull_stages[ENGINE].store.calls


def test_a_group_that_was_reset_is_told_once(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        broker.offsets.reset("orders", "billing", 0, 7)
        told = await client.pull(50)
        assert (told.code, told.remark, told.fields["nextBeginOffset"]) == (
            ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", "7",
        )  # fmt: skip
        before = taken(broker)
        assert [(await client.pull(7)).code for _ in range(4)] == [ResponseCode.SUCCESS] * 4
        assert taken(broker) > before

    with_filled(tmp_path, work)


def test_what_is_forbidden_meanwhile_is_refused(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        topic = broker.topics.read("orders")
        broker.topics.save(replace(topic, permission=Permission.WRITE))
        assert (await client.pull()).code == ResponseCode.NO_PERMISSION
        broker.topics.save(topic)
        assert (await client.pull()).code == ResponseCode.SUCCESS
        group = broker.groups.read("billing")
        broker.groups.save(replace(group, may_consume=False))
        assert (await client.pull()).code == ResponseCode.NO_PERMISSION
        broker.groups.save(group)
        broker.live_settings.change({"permission": 2}, {}, by="test")
        assert (await client.pull()).code == ResponseCode.NO_PERMISSION

    with_filled(tmp_path, work)


def test_a_topic_that_was_deleted_and_made_again_is_another(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        broker.topics.delete("orders")
        assert (await client.pull()).code == ResponseCode.TOPIC_NOT_EXIST
        broker.topics.save(TopicConfig("orders", read_queues=4, write_queues=4))
        assert (await client.pull()).code != ResponseCode.SUCCESS
        await fill(client, count=60, seed=2)
        plain = broker.store.read_bytes("orders", queue=0, offset=0, limit=32, max_bytes=1 << 20)
        for _ in range(4):
            answer = await client.pull()
            assert answer.data == b"".join(plain.parts) and answer.fields["maxOffset"] == str(plain.max_offset)

    with_filled(tmp_path, work)


def test_messages_that_arrive_meanwhile_are_found(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        _, end = broker.store.offsets("orders", queue=0)
        assert [(await client.pull(0, maxMsgNums="2")).code for _ in range(2)] == [ResponseCode.SUCCESS] * 2
        assert (await client.pull(end, maxMsgNums="2")).code == ResponseCode.PULL_NOT_FOUND
        await fill(client, count=100, seed=3)
        before = taken(broker)
        found = await client.pull(end, maxMsgNums="2")
        assert (found.code, found.fields["nextBeginOffset"]) == (ResponseCode.SUCCESS, str(end + 2))
        _, new_end = broker.store.offsets("orders", queue=0)
        assert int(found.fields["maxOffset"]) == new_end > end
        assert taken(broker) > before

    with_filled(tmp_path, work)


def test_files_that_are_deleted_are_not_read_and_not_kept(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        chain = broker.store._parts.commit_log.chain
        first, files = chain.files[0].path, len(chain.files)
        assert files > 3
        chain.delete_oldest(lambda file: True, limit=2)
        broker.store._parts.queues.delete_before(chain.begin)
        low, _ = broker.store.offsets("orders", queue=0)
        assert low > 0
        assert (await client.pull(0)).code == ResponseCode.PULL_OFFSET_MOVED
        before = taken(broker)
        for _ in range(4):
            answer = await client.pull(low)
            assert (answer.code, answer.fields["minOffset"]) == (ResponseCode.SUCCESS, str(low))
        assert taken(broker) > before
        chain.delete_oldest(lambda file: True, limit=1)
        assert broker._fast is not None
        for _ in range(2):
            broker._fast.pulls.expire()
        assert str(first) not in mapped_files() and len(chain.files) == files - 3
        assert sum(str(chain.paths[0]) in line for line in mapped_files().splitlines()) <= len(chain.files) + 4

    def mapped_files() -> str:
        return Path("/proc/self/maps").read_text()

    with_filled(tmp_path, work)


def test_the_subscription_of_the_group_counts_where_a_pull_has_none(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        async def found(count: int) -> set[bytes]:
            return {(await client.pull(0, sysFlag="0", subscription="")).data for _ in range(count)}

        await subscribe(client, "*", 1)
        before = taken(broker)
        everything = await found(4)
        await subscribe(client, "a", 2)
        some = await found(4)
        assert taken(broker) >= before + 4
        assert len(everything) == len(some) == 1 and everything != some

    with_filled(tmp_path, work)


def test_a_pull_with_a_filter_that_its_client_gave_up_comes_again(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        async def codes(count: int, **fields: str) -> set[int]:
            return {(await client.pull(0, **fields)).code for _ in range(count)}

        before = taken(broker)
        old, new = {"subscription": "a", "subVersion": "1"}, {"subscription": "c", "subVersion": "2"}
        assert await codes(4, **old) == {ResponseCode.SUCCESS}  # of nobody who is known
        assert taken(broker) > before
        await subscribe(client, "a", 1)
        assert await codes(4, **old) == {ResponseCode.SUCCESS}
        await subscribe(client, "c", 2)
        before = taken(broker)
        assert await codes(4, **old) == {ResponseCode.PULL_RETRY_IMMEDIATELY}
        assert taken(broker) == before
        assert await codes(4, **new) == {ResponseCode.SUCCESS}
        assert taken(broker) > before

    with_filled(tmp_path, work)


def test_a_client_that_does_not_read_gets_no_more_than_a_few_answers(tmp_path: Path) -> None:
    async def work(broker: Broker, client: Client) -> None:
        _, end = broker.store.offsets("orders", queue=0)
        requests = [
            Command(11, pull_fields(offset=number % (end - 200), maxMsgNums="200"), b"", number)
            for number in range(400)
        ]
        before = broker.statistics.totals.found
        client.writer.write(b"".join(map(encode_command, requests)))
        assert broker._fast is not None
        (connection,) = broker._fast.pulls._readers
        assert isinstance(connection, Connection) and connection._transport is not None
        await until(lambda: connection.is_blocked)
        waiting = connection._transport.get_write_buffer_size()
        assert waiting < 6 * 1024 * 1024 and broker.statistics.totals.found - before < len(requests)
        frames = await client.answers(len(requests))
        assert [opaque_of(frame) for frame in frames] == list(range(len(requests)))

    with_filled(tmp_path, work)
