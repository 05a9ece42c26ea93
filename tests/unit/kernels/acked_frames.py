"""ACKs in frames, of a few shapes, and what ordinary code reads in them."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np

from embermq.broker.fast_acks import AckShape, shape_of
from embermq.errors import EmberError
from embermq.format.command import Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, Frame, split_frames
from embermq.format.pop_fields import parse_handle
from embermq.kernels.compiling import Table
from embermq.model.pop import Handle
from tests.unit.kernels.spoiled_frames import spoiled

ACK = 200051
NOW = 1_700_000_000_000
SMALL = (0, 1, 9, 10, 77, 2**31 - 1)
ODD_NUMBERS = ("", "-1", "007", "x", "1.5", "+1", "9" * 30, str(2**63), str(2**63 - 1), str(10**18), "1 ", "-0")


class Consumer(NamedTuple):
    """Whose acks are alike."""

    form: int
    topic: str
    group: str
    broker: str
    kind: int

    def request(self, opaque: int, queue: object, offset: object, handle: tuple[object, ...]) -> Command:
        start, pop_time, invisible_ms, revive_queue, *rest = handle
        words = [start, pop_time, invisible_ms, revive_queue, self.kind, self.broker, *(rest or (queue, offset))]
        fields = {
            "queueId": str(queue), "offset": str(offset), "bname": self.broker, "topic": self.topic,
            "consumerGroup": self.group, "extraInfo": " ".join(map(str, words)),
        }  # fmt: skip
        return Command(ACK, fields, b"", opaque, form=self.form)


class Read(NamedTuple):
    """An ack, as it was read."""

    topic: str
    group: str
    queue: int
    handle: Handle
    offset: int


CONSUMERS = [
    Consumer(form, topic, group, "broker-a", kind)
    for form in (JSON_FORM, BINARY_FORM)
    for topic, group, kind in (("orders", "billing", 0), ("%RETRY%billing_orders", "billing", 1), ("o", "queueId", 0))
]


def shapes() -> list[AckShape]:
    found = [shape_of(split_frames(encode_command(each.request(1, 0, 0, (0, 0, 0, 0))))[0][0]) for each in CONSUMERS]
    return [shape for shape in found if shape is not None]


def shape_table(found: list[AckShape]) -> Table:
    return np.array([shape.row() for shape in found], np.int64)


def read_plainly(frame: Frame) -> Read | None:
    """What ordinary code reads in an ack; None if it refuses to."""
    try:
        request = decode_command(frame)
        handle = parse_handle(request.fields["extraInfo"])
        topic, group = request.fields["topic"], request.fields["consumerGroup"]
        queue, offset = int(request.fields["queueId"]), int(request.fields["offset"])
    except (EmberError, KeyError, ValueError):
        return None
    return Read(topic, group, queue, handle, offset) if request.code == ACK and not request.flag else None


def a_frame(random: Random) -> bytes:
    """An ack of one of the consumers, often of the same pop as others, now and then with something wrong."""
    consumer = random.choice(CONSUMERS if random.random() < 0.4 else CONSUMERS[:1])
    queue: object = random.choice((0, 0, 0, 3, 2**31 - 1))
    offset: object = random.choice((*range(5), 10**17, 10**18 - 1))
    handle: list[object] = [random.choice((0, 0, 7)), NOW + random.randrange(2), 60_000, random.randrange(2)]
    if random.random() < 0.04:
        handle += random.choice(([5, 6], [5], [5, 6, 7], [5, "x"], [-1, 10**20]))
    if random.random() < 0.02:
        handle[random.randrange(4)] = random.choice(ODD_NUMBERS)
    if random.random() < 0.01:
        queue = random.choice((*ODD_NUMBERS, 2**31))
    if random.random() < 0.01:
        offset = random.choice(ODD_NUMBERS)
    request = consumer.request(random.choice((*SMALL, -5, -(2**31))), queue, offset, tuple(handle))
    request.flag = 2 if random.random() < 0.01 else 0
    data = encode_command(request)
    return data if random.random() < 0.93 else spoiled(random, data)
