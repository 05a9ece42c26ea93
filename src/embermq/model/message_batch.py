"""Many messages of one topic, their bodies side by side in memory: the quick way to put them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Self

from embermq.errors import IllegalMessage
from embermq.model.message import NO_PROPERTIES, Message


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages that have everything but their bodies in common.

    Body n is `bodies[ends[n - 1]:ends[n]]`, the first begins at 0. Without a `queue` the topic's queues take turns.
    `ends` may be any buffer of 64-bit numbers, and `bodies` any buffer of bytes, such as those of an Arrow array.
    """

    topic: str
    bodies: bytes | bytearray | memoryview
    ends: array[int] | memoryview
    queue: int | None = None
    tags: str | None = None
    properties: Mapping[str, str] = field(default_factory=lambda: NO_PROPERTIES)

    @classmethod
    def of(
        cls, topic: str, bodies: Iterable[bytes], *, queue: int | None = None, tags: str | None = None,
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> Self:  # fmt: skip
        """A batch of these bodies, copied together."""
        parts = list(bodies)
        ends = array("q", accumulate(map(len, parts)))
        return cls(topic, b"".join(parts), ends, queue, tags, properties)

    def __post_init__(self) -> None:
        with memoryview(self.ends) as ends, memoryview(self.bodies) as bodies:
            if ends.itemsize != 8 or ends.format not in ("q", "l", "n"):
                raise IllegalMessage(f"the ends of a batch for {self.topic!r} are no 64-bit numbers")
            if not bodies.c_contiguous or not ends.c_contiguous:
                raise IllegalMessage(f"a batch for {self.topic!r} does not lie in one piece")

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[Message]:
        bodies, begin = memoryview(self.bodies), 0
        for end in self.ends:
            if not begin <= end <= bodies.nbytes:
                raise IllegalMessage(f"a batch for {self.topic!r} has a body from {begin} to {end}")
            body = bytes(bodies[begin:end])
            yield Message(self.topic, body, self.tags, properties=self.properties, queue=self.queue)
            begin = end
