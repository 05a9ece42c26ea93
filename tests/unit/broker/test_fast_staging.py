"""Kernels keep and publish staged messages as plain code does: the same files, byte for byte."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from embermq.broker.broker import Broker
from embermq.broker.fast_staging import FastStaging
from embermq.broker.intake import born_of
from embermq.format.staged import StagedMessage, encode_staged
from embermq.model.message import Host
from embermq.model.staged import BatchKeys
from embermq.model.topic import TopicConfig
from tests.builders import ManualClock
from tests.unit.broker.both_ways import files_of
from tests.unit.broker.brokers import Client, with_broker
from tests.unit.broker.staging import a_staged, publish, stage

NAMES = ("a", "amount", "ä", "TAGS", "KEYS", "__SHARDINGKEY", "CLUSTER", "UNIQ_KEY", "MSG_REGIO", "DELAY", "TTL")
SIZE_LIMIT = 10_000


def some_properties(random: Random) -> bytes:
    """Mostly what senders write, sometimes with a flaw that is taken all the same."""
    names = random.sample(NAMES[:6], random.randrange(4))
    if random.random() < 0.1:
        names.append(random.choice(NAMES))
    data = b"".join(b"%s\x01%s\x02" % (name.encode(), random.choice((b"1", b"eu", "ö".encode()))) for name in names)
    data += b"WAIT\x01true\x02"
    if random.random() < 0.1:
        at = random.choice([at for at, byte in enumerate(data) if byte < 0x80])  # so that it stays UTF-8
        data = data[:at] + random.choice((b"", b"\x01", b"\x02", b"x")) + data[at + 1 :]
    return data


def some_messages(random: Random, count: int) -> list[StagedMessage]:
    return [
        StagedMessage(
            random.randrange(4),
            random.randrange(-5, 5),
            random.choice((0, 0, 1, 0xFFFF)),
            1_700_000_000_000 + random.randrange(1000),
            random.randbytes(random.choice((1, 10, 100, 1500))),
            some_properties(random),
        )
        for _ in range(count)
    ]


def fast_of(broker: Broker) -> FastStaging:
    assert broker.publisher.fast is not None
    return broker.publisher.fast


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("durability", ["async", "sync"])
def test_both_keep_and_publish_the_same(tmp_path: Path, seed: int, durability: str) -> None:
    def run(path: Path, *, with_kernels: bool) -> dict[str, bytes]:
        random, kept = Random(seed), {}

        async def work(broker: Broker) -> None:
            client, tasks = Client(broker), []
            client.peer.peer = Host("::1" if seed % 2 else "127.0.0.3", 40_123)
            for task in "abc":
                counts = [random.choice((1, 5, 40)) for _ in range(4)]
                for number, count in enumerate(counts):
                    answer = await stage(client, task, number, *some_messages(random, count))
                    assert answer.code == 0, answer
                tasks.append((task, len(counts), sum(counts)))
            kept.update({file.name: file.read_bytes() for file in path.glob("staged/*/*.chunks")})
            assert (await publish(client, 0, tasks)).code == 0

        with_broker(path, work, clock=ManualClock(), with_kernels=with_kernels, durability=durability)
        return files_of(path) | kept

    fast, plain = run(tmp_path / "kernels", with_kernels=True), run(tmp_path / "plain", with_kernels=False)
    assert fast == plain
    assert len(plain["a.chunks"]) > 1000


def test_what_asks_for_more_than_to_be_stored_is_for_plain_code(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        fast, born = fast_of(broker), born_of(Host("127.0.0.1", 10))
        topic = TopicConfig("orders", read_queues=4, write_queues=4)
        for properties in (
            b"DELAY\x013\x02",
            b"INNER_MULTI_DISPATCH\x01x\x02",
            b"UNIQ_KEY\x01x\x02",
            b"CLUSTER\x01x\x02",
            b"__RMQ.TRANSIENT.x\x01y\x02",
            b"a\x011\x02a\x012\x02",  # of which the later counts
            b"a\x011",
            b"a\x01\x02",
            b"\x011\x02",
            b"a\x02",
            b"a\x01\xff\x02",
        ):
            data = encode_staged([a_staged(b"x", properties=properties)])
            assert fast.keep(topic, data, born, size_limit=SIZE_LIMIT) is None, properties
        for message in (a_staged(b""), a_staged(b"x", queue=4), a_staged(b"x", queue=-1), a_staged(b"x" * SIZE_LIMIT)):
            assert fast.keep(topic, encode_staged([message]), born, size_limit=SIZE_LIMIT) is None, message
        whole = encode_staged([a_staged(b"body")])
        assert fast.keep(topic, whole, born, size_limit=SIZE_LIMIT) is not None
        for cut in range(len(whole)):
            assert fast.keep(topic, whole[:cut], born, size_limit=SIZE_LIMIT) is None, cut

    with_broker(tmp_path, work, with_kernels=True)


def test_drafts_of_a_topic_that_is_gone_are_for_plain_code(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        fast, born = fast_of(broker), born_of(Host("127.0.0.1", 10))
        topic = TopicConfig("orders", read_queues=4, write_queues=4)
        kept = fast.keep(topic, encode_staged([a_staged(b"x")]), born, size_limit=SIZE_LIMIT)
        assert kept is not None
        assert fast.draft(kept.data, 1, BatchKeys("job", 0, 0), 0) is None
        broker.store.save_topic(topic)
        assert fast.draft(kept.data, 1, BatchKeys("job", 0, 0), 0) is not None
        for cut in range(len(kept.data)):
            assert fast.draft(kept.data[:cut], 1, BatchKeys("job", 0, 0), 0) is None, cut

    with_broker(tmp_path, work, with_kernels=True)
