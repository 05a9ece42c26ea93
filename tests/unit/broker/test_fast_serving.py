"""Many connections served together by a kernel: everybody has the right answers, whatever the others do."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from random import Random
from typing import Any

import pytest

from embermq.broker.stages import ENGINE
from embermq.format.command import Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, Frame, split_frames
from embermq.model.message import Host
from embermq.store.reader import StoreReader
from embermq.store.verify import verify_store
from tests.builders import read_all
from tests.unit.broker.both_ways import SECONDS, serving
from tests.unit.broker.brokers import send_fields, until

LARGE = {"log_file_size": 1 << 22, "index_slots": 5000, "index_entries": 20_000}


class Sender:
    """One connection that sends to a queue of its own, and knows what it sent."""

    def __init__(self, number: int, random: Random, *, odd: float, count: int) -> None:
        self.topic, self.queue = f"orders-{number // 4}", number % 4
        self.bodies: dict[int, bytes] = {}  # by the opaque number of the request
        self._requests: list[Command] = []
        for opaque in range(count):
            fields = send_fields(
                self.topic, queue=self.queue, UNIQ_KEY=f"{number:08X}{opaque:024X}", KEYS=f"k{opaque} all"
            )
            body = random.randbytes(random.choice([1, 20, 300, 1024, 3000]))
            if random.random() < odd:
                fields["e"] = "99"  # a queue that is not there
            else:
                self.bodies[opaque] = body
            form = random.choice([JSON_FORM, BINARY_FORM])
            self._requests.append(Command(310, fields, body, opaque, form=form))
        self._random = random

    async def send(self, host: Host, *, answers_wait: bool = False) -> dict[int, Command]:
        """Send everything, in pieces of any size; the answers by the opaque number.

        With `answers_wait` they are read only when all is sent, so that not all of them fit into the sockets.
        """
        made = socket.socket()
        if answers_wait:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, host)
        reader, writer = await asyncio.open_connection(sock=made, limit=4096)
        data = b"".join(map(encode_command, self._requests))
        cuts = sorted(self._random.sample(range(1, len(data)), min(len(self._requests), 8)))
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            writer.write(data[begin:end])
            await asyncio.sleep(0)
        frames: list[Frame] = []
        part = b""
        async with asyncio.timeout(SECONDS):
            while len(frames) < len(self._requests):
                more = await reader.read(1 << 20)
                assert more, f"closed after {len(frames)} of {len(self._requests)} answers"
                found, end = split_frames(part + more)
                frames += found
                part = (part + more)[end:]
        writer.close()
        answers = [decode_command(frame) for frame in frames]
        assert len({answer.opaque for answer in answers}) == len(self._requests)
        return {answer.opaque: answer for answer in answers}

    def check(self, answers: dict[int, Command], stored: dict[tuple[str, int], list[bytes]]) -> None:
        """Every message is where its answer says, in the order of sending; what is odd was refused."""
        offsets = [int(answers[opaque].fields["queueOffset"]) for opaque in self.bodies]
        assert offsets == list(range(len(offsets)))
        assert stored.get((self.topic, self.queue), []) == [*self.bodies.values()]
        refused = [answer for opaque, answer in answers.items() if opaque not in self.bodies]
        assert all(answer.code != 0 and "queueOffset" not in answer.fields for answer in refused)


async def run(path: Path, senders: list[Sender], *, answers_wait: bool = False, **settings: Any) -> int:
    """Have all of them send at once, and check everything; how many messages kernels took."""
    async with serving(path, with_kernels=True, **settings) as (broker, host):
        answers = await asyncio.gather(*(sender.send(host, answers_wait=answers_wait) for sender in senders))
        store = broker.store
        await until(lambda: store.dispatched == store.log_files().end)  # what is pooled is seen a little later
        stored = read_all(store)
        taken = broker.stages[ENGINE].store.messages
    for sender, each in zip(senders, answers, strict=True):
        sender.check(each, stored)
    with StoreReader(path) as reader:
        assert verify_store(reader).damage == []
    return taken


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
@pytest.mark.parametrize("sizes", [{}, LARGE], ids=["small files", "large files"])
@pytest.mark.parametrize("odd", [0.0, 0.05])
def test_every_connection_has_its_own_answers(
    tmp_path: Path, durability: str, sizes: dict[str, int], odd: float
) -> None:
    random = Random(str((durability, len(sizes), odd)))
    senders = [Sender(number, random, odd=odd, count=random.choice([1, 30, 400])) for number in range(12)]
    taken = asyncio.run(run(tmp_path, senders, durability=durability, **sizes))
    assert taken > sum(len(sender.bodies) for sender in senders) / 2, "kernels were to take most of them"


def test_who_does_not_read_its_answers_gets_them_later(tmp_path: Path) -> None:
    senders = [Sender(number, Random(number), odd=0.0, count=3000) for number in range(4)]
    asyncio.run(run(tmp_path, senders, answers_wait=True, **LARGE))


@pytest.mark.parametrize("durability", ["async", "sync"])
@pytest.mark.parametrize("odd", [0.0, 0.02])
@pytest.mark.parametrize("read_size", [1500, 20_000])
@pytest.mark.parametrize("enough_rows", [1, 128])
def test_frames_that_come_in_parts_while_their_senders_are_served_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, odd: float, read_size: int, enough_rows: int
) -> None:
    """Sockets hold more than is read of them at once, so that senders have another turn, and most reads cut a frame.

    Log files are small: now and then a call ends between two senders, because there is no room for the next messages.
    """
    monkeypatch.setattr("embermq.net.receiving.READ_SIZE", read_size)
    monkeypatch.setattr("embermq.broker.fast_serving.ENOUGH_ROWS", enough_rows)
    random = Random(str((durability, odd, read_size, enough_rows)))
    senders = [Sender(number, random, odd=odd, count=300) for number in range(6)]
    taken = asyncio.run(run(tmp_path, senders, durability=durability, **LARGE | {"log_file_size": 1 << 18}))
    assert taken > 100
