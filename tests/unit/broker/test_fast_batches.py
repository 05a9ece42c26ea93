"""Batches that kernels take: stored and answered as ordinary code would, byte for byte, and never divided."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.batch import BatchElement, encode_batch
from embermq.format.command import ONEWAY, Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, FrameLimits
from embermq.format.record import BLANK_SIZE
from embermq.kernels import loading
from embermq.log.commit_log import CommitLog
from embermq.model.codes import ResponseCode
from embermq.model.topic import TopicConfig
from embermq.net.receiving import SHARED_SIZE, ReceiveBuffer
from embermq.store.store import Store
from tests.builders import ManualClock, a_store
from tests.unit.broker.both_ways import Outcome, a_plain, an_odd_one, feed
from tests.unit.broker.brokers import HOST, send_fields
from tests.unit.broker.peers import RecordingPeer

CASES = [pytest.param(8), pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
FILE_SIZE = 64 * 1024


def both(path: Path, reads: list[bytes], count: int, **settings: object) -> tuple[Outcome, Outcome]:
    path.mkdir(exist_ok=True)

    async def run() -> tuple[Outcome, Outcome]:
        fast = await feed(path / "fast", reads, count, with_kernels=True, **settings)
        plain = await feed(path / "plain", reads, count, with_kernels=False, **settings)
        return fast, plain

    fast, plain = asyncio.run(run())
    assert fast.answers == plain.answers
    assert fast.files.keys() == plain.files.keys()
    for name, data in plain.files.items():
        assert fast.files[name] == data, f"{name} differs"
    return fast, plain


def messages(random: Random, opaque: int, *, most: int = 12) -> Iterator[BatchElement]:
    for number in range(random.randrange(1, most)):
        text = f"UNIQ_KEY\x01{opaque:04X}{number:04X}{random.getrandbits(64):016X}\x02WAIT\x01true\x02"
        if random.random() < 0.5:
            text += f"TAGS\x01{random.choice(('TagA', 'é', '中文'))}\x02"
        body = random.randbytes(random.choice((1, 10, 100, 1024)))
        yield BatchElement(random.randrange(-9, 9), body, text.encode())


def a_batch(random: Random, opaque: int, elements: Sequence[BatchElement] | None = None) -> Command:
    fields = send_fields(random.choice(("orders", "bills")), queue=random.randrange(4), UNIQ_KEY=f"AC{opaque:06X}")
    fields["m"] = "true"
    if random.random() < 0.8:
        fields["i"] += "WAIT\x01true\x02"
    body = encode_batch(elements if elements is not None else messages(random, opaque))
    flag = ONEWAY if random.random() < 0.1 else 0
    return Command(320, fields, body, opaque, flag, form=BINARY_FORM if random.random() < 0.3 else JSON_FORM)


def an_odd_batch(random: Random, opaque: int) -> Command:
    command = a_batch(random, opaque)
    fields, body = dict(command.fields), command.data
    match random.randrange(7):
        case 0:
            body = body[: random.randrange(len(body))]
        case 1:
            fields["i"] += random.choice(
                ("TAGS\x01all\x02", "KEYS\x01all\x02", "DELAY\x013\x02", "TRAN_MSG\x01true\x02")
            )
        case 2:
            fields["i"] = random.choice(("", "WAIT\x01true\x02"))
        case 3:
            body += encode_batch([BatchElement(0, b"", b"UNIQ_KEY\x01x\x02WAIT\x01true\x02")])
        case 4:
            body += encode_batch(
                [BatchElement(0, b"b", b"UNIQ_KEY\x01x\x02X\x01y\x02" + random.choice((b"", b"\xff")))]
            )
        case 5:
            fields["i"] = "UNIQ_KEY\x01" + random.choice(("a b", 'q"', "\\", "é")) + "\x02WAIT\x01true\x02"
        case _:
            fields["e"] = "9"
    return Command(320, fields, body, opaque, command.flag, form=command.form)


def a_stream(random: Random, count: int, *, odd: float) -> tuple[list[bytes], int]:
    """Requests as bytes, cut anywhere, and how many of them are answered."""
    kinds = random.choices((a_batch, an_odd_batch, a_plain, an_odd_one), (1 - odd, odd, 0.5, odd / 2), k=count)
    requests = [make(random, number) for number, make in enumerate(kinds)]
    requests[-1].flag = 0  # so that all of them were dealt with when all answers are there
    data = b"".join(map(encode_command, requests))
    cuts = sorted(random.sample(range(1, len(data)), min(random.randrange(12), len(data) - 1)))
    reads = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return reads, sum(1 for request in requests if not request.is_oneway)


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
@pytest.mark.parametrize("cases", CASES)
def test_any_stream_of_batches_has_the_same_outcome(tmp_path: Path, cases: int, durability: str) -> None:
    taken = 0
    for seed in range(cases):
        random = Random(f"batches-{seed}")
        reads, count = a_stream(random, random.randrange(1, 60), odd=random.choice((0.0, 0.1, 0.5)))
        folder = tmp_path / str(seed)
        folder.mkdir()
        fast, _ = both(folder, reads, count, durability=durability)
        taken += fast.taken
    assert taken > 20 * cases, "kernels were to take most of them"


def make_stores(path: Path, **attributes: str) -> None:
    """Two stores that have the topic already."""
    path.mkdir(exist_ok=True)
    for name in ("fast", "plain"):
        with a_store(path / name) as store:
            store.save_topic(TopicConfig("orders", read_queues=4, write_queues=4, attributes=attributes))


def ids_of(outcome: Outcome, opaque: int) -> list[int]:
    """The log positions that an answer tells."""
    answer = decode_command(outcome.answers[opaque])
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return [int(each[-16:], 16) for each in answer.fields["msgId"].split(",")]


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
def test_records_of_a_batch_lie_side_by_side_in_one_file(tmp_path: Path, durability: str) -> None:
    random = Random("together")
    sizes = {}
    requests = []
    for opaque in range(80):
        elements = list(messages(random, opaque, most=40))
        sizes[opaque] = len(elements)
        requests.append(a_batch(random, opaque, elements))
        requests[-1].flag = 0
    data = b"".join(map(encode_command, requests))
    warm = encode_command(a_plain_one(random, 1000, "orders")) + encode_command(a_plain_one(random, 1001, "bills"))
    fast, _ = both(tmp_path, [warm, data], len(requests) + 2, durability=durability)
    assert fast.taken > 1000, "kernels were to take them"
    ends = []
    for opaque, count in sizes.items():
        positions = ids_of(fast, opaque)
        assert len(positions) == count
        assert positions == sorted(positions)
        assert positions[0] // FILE_SIZE == positions[-1] // FILE_SIZE, "a batch is in two files"
        ends.append(positions[0])
    assert ends == sorted(ends), "batches are in the order they came in"
    assert len({end // FILE_SIZE for end in ends}) > 5, "too few files to tell"


def a_plain_one(random: Random, opaque: int, topic: str) -> Command:
    fields = send_fields(topic, queue=random.randrange(4), UNIQ_KEY=f"AB{opaque:06X}")
    return Command(310, fields, b"body", opaque)


@pytest.mark.parametrize("spare", range(-2, 3))
def test_a_batch_that_just_fits_and_one_that_does_not(tmp_path: Path, spare: int) -> None:
    """Around the end of a file, both ways agree where a batch goes, to the byte."""
    random = Random("just")

    def batch(opaque: int, size: int) -> Command:
        elements = [BatchElement(0, bytes(size), b"UNIQ_KEY\x01%d\x02WAIT\x01t\x02" % each) for each in range(2)]
        fields = send_fields("orders", queue=1, UNIQ_KEY=f"AB{opaque}") | {"m": "true"}
        return Command(320, fields, encode_batch(elements), opaque)

    first = [encode_command(a_plain_one(random, 1, "orders")), encode_command(batch(2, 100))]
    fast, _ = both(tmp_path / "before", first, 2)
    record = ids_of(fast, 2)[1] - ids_of(fast, 2)[0]  # with 100 bytes of body
    left = FILE_SIZE - BLANK_SIZE - (ids_of(fast, 2)[1] + record)
    filler = 10_000
    left -= 4 * (record + filler - 100)
    size = (left + 2 * spare) // 2 - (record - 100)
    make_stores(tmp_path / "after")
    more = [batch(6, filler), batch(7, filler), batch(4, size), batch(5, 9)]
    fast, _ = both(tmp_path / "after", [*first, b"".join(map(encode_command, more))], 6)
    assert fast.taken >= 8, "kernels were to take these"
    assert ids_of(fast, 4)[1] // FILE_SIZE == ids_of(fast, 4)[0] // FILE_SIZE
    assert (ids_of(fast, 4)[0] < FILE_SIZE) == (spare <= 0)


def test_a_batch_kept_as_one_record_is_for_ordinary_code(tmp_path: Path) -> None:
    make_stores(tmp_path, **{"queue.type": "BatchCQ"})
    random = Random("one")
    elements = [BatchElement(0, b"b", b"UNIQ_KEY\x01%d\x02WAIT\x01t\x02" % each) for each in range(3)]
    fields = send_fields("orders", queue=1, UNIQ_KEY="AB") | {"m": "true"}
    requests = [Command(320, fields, encode_batch(elements), opaque) for opaque in range(30)]
    data = b"".join(map(encode_command, [*requests, a_plain_one(random, 30, "bills")]))
    fast, plain = both(tmp_path, [data], 31)
    assert fast.taken <= 1, "only what went to the other topic"
    assert "batchUniqId" in decode_command(plain.answers[3]).fields


class WithoutSocket(RecordingPeer):
    """A peer whose answers go by its own `write`."""

    slot = -1
    is_free = False


class InProcess:
    """A broker whose SENDs kernels take, without a socket."""

    def __init__(self, store: Store) -> None:
        self.broker = Broker(store, BrokerSettings(), host_of=lambda peer: HOST, clock=ManualClock())
        self._received = ReceiveBuffer(SHARED_SIZE)
        self.peer = WithoutSocket()

    async def start(self) -> None:
        """Know the topic."""
        self.broker.start()
        self._fast = self.broker.make_fast(self._received, FrameLimits()).sends
        self.broker.router.receive(self.peer, [Command(310, send_fields(UNIQ_KEY="AB"), b"body", -1)])
        await asyncio.sleep(0)
        assert [answer.code for answer in self.peer.take_sent()] == [ResponseCode.SUCCESS]

    def send(self, requests: Sequence[Command]) -> None:
        """Have kernels take these, all in one turn."""
        data = b"".join(map(encode_command, requests))
        self._received.begin(b"")[: len(data)] = data
        begin = self._received.end
        assert self._fast.take(self.peer, begin, begin + len(data)) == len(data)
        self._fast.put_turn()


def some_batches(count: int, size: int) -> list[Command]:
    elements = [BatchElement(0, bytes(size), b"UNIQ_KEY\x01%d\x02WAIT\x01t\x02" % each) for each in range(4)]
    fields = send_fields(UNIQ_KEY="AB12") | {"m": "true"}
    return [Command(320, fields, encode_batch(elements), opaque) for opaque in range(count)]


def test_batches_that_a_closed_store_does_not_take_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        with a_store(tmp_path / "store") as store:
            store.save_topic(TopicConfig("orders", read_queues=4, write_queues=4))
            server = InProcess(store)
            await server.start()
        requests = [*some_batches(3, 10), a_plain_one(Random(1), 3, "orders")]
        requests[1].flag = ONEWAY
        server.send(requests)
        answers = server.peer.take_sent()
        assert [answer.opaque for answer in answers] == [0, 2, 3]
        assert {answer.code for answer in answers} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert server.peer.owed == 0

    loading.load()
    asyncio.run(run())


def test_a_disk_that_is_full_in_the_middle_takes_whole_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    async def run() -> None:
        with a_store(tmp_path / "store") as store:
            store.save_topic(TopicConfig("orders", read_queues=4, write_queues=4))
            server = InProcess(store)
            await server.start()
            with monkeypatch.context() as patch:
                patch.setattr(CommitLog, "close_file", no_space)
                server.send(some_batches(30, 1000))
            answers = server.peer.take_sent()
            stored = [answer for answer in answers if answer.code == ResponseCode.SUCCESS]
            refused = [answer for answer in answers if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE]
            assert len(stored) > 5 and len(refused) > 5 and len(stored) + len(refused) == len(answers) == 30
            assert [answer.opaque for answer in answers] == list(range(30))
            assert server.peer.owed == 0
            ids = [each for answer in stored for each in answer.fields["msgId"].split(",")]
            assert len(set(ids)) == 4 * len(stored)
            assert store.offsets("orders", queue=0) == (0, 1 + 4 * len(stored))
            puts = {(topic, queue): count for topic, queue, count, _ in store.queue_table().take_counts()}
            assert puts == {(b"orders", 0): 4 * len(stored)}, "counted by message"
            await server.broker.stop()

    loading.load()
    asyncio.run(run())
