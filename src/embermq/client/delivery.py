"""A message that was handed out and waits for its verdict: done, to be tried again, or given up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from types import TracebackType
from typing import Self

from embermq.client.incoming import unique_key_of
from embermq.client.outgoing import delay_level
from embermq.client.progress import QueueProgress
from embermq.model.message import StoredMessage


class Verdict(Enum):
    """What became of a message."""

    DONE = auto()
    AGAIN = auto()  # the broker brings it again later
    DEAD = auto()  # the broker puts it to the dead letters


class Delivery:
    """A message of a group. As a context, it is acked at a clean end and given back at an exception, which passes on.

    The verdict is given once; later ones do not count. Any thread may give it.
    """

    __slots__ = ("_generation", "_progress", "_settle", "broker", "level", "message", "verdict")

    def __init__(
        self,
        message: StoredMessage,
        settle: Callable[[Delivery], None],
        *,
        broker: str,
        progress: QueueProgress | None = None,
    ) -> None:
        self.message = message
        self.broker = broker
        self.verdict: Verdict | None = None
        self.level = 0  # the delay level that it is given back with; 0 leaves it to the broker
        self._settle = settle
        self._progress = progress  # None if it came out of turn
        self._generation = progress.generation if progress else 0

    @property
    def is_ours(self) -> bool:
        """Whether it still counts: its queue is ours, and was not reset since."""
        progress = self._progress
        return progress is None or (not progress.is_dropped and progress.generation == self._generation)

    def finish(self) -> None:
        """Let the group go on behind it. The client does that, as soon as the verdict is carried out."""
        if self._progress is not None:
            self._progress.finish(self.offset, self._generation)

    def ack(self) -> None:
        """It is done."""
        self._give(Verdict.DONE)

    def give_back(self, delay: timedelta | None = None) -> None:
        """Bring it again later: after `delay`, or after a time that grows with every attempt."""
        self.level = 0 if delay is None else delay_level(delay)
        self._give(Verdict.AGAIN)

    def give_up(self) -> None:
        """Put it to the dead letters of the group now."""
        self.level = -1
        self._give(Verdict.DEAD)

    def _give(self, verdict: Verdict) -> None:
        if self.verdict is None:
            self.verdict = verdict
            self._settle(self)

    def _end(self, error: BaseException | None) -> None:
        if error is None:
            self.ack()
        elif isinstance(error, Exception):
            self.give_back()
        # After an interrupt or a cancellation nothing is said: the message was not to blame, and comes again soon.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(error)

    # What the message says.

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def queue(self) -> int:
        return self.message.queue

    @property
    def offset(self) -> int:
        return self.message.offset

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def tags(self) -> str | None:
        return self.message.tags

    @property
    def keys(self) -> tuple[str, ...]:
        return self.message.keys

    @property
    def properties(self) -> Mapping[str, str]:
        return self.message.properties

    @property
    def born_time(self) -> datetime:
        return self.message.born_time

    @property
    def store_time(self) -> datetime:
        return self.message.store_time

    @property
    def message_id(self) -> str:
        """The broker's id: its address and the position in its log."""
        return self.message.message_id

    @property
    def unique_key(self) -> str:
        """The producer's id, the same in every attempt."""
        return unique_key_of(self.message)

    @property
    def attempt(self) -> int:
        """1 for the first delivery, 2 for the first retry, and so on."""
        return self.message.reconsume_times + 1

    def __repr__(self) -> str:
        place = f"{self.topic}/{self.broker}/{self.queue}/{self.offset}"
        return f"<Delivery {place} attempt={self.attempt} body={len(self.body)} bytes>"


class DeliveryBatch(Sequence[Delivery]):
    """Deliveries that get their verdict together."""

    def __init__(self, deliveries: Sequence[Delivery], commit: Callable[[], Awaitable[None]]) -> None:
        self._deliveries = deliveries
        self._commit = commit

    def __len__(self) -> int:
        return len(self._deliveries)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]  # the overloads of Sequence say it
        return self._deliveries[index]

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._deliveries)

    async def ack(self) -> None:
        """All are done, and the broker knows it when this returns."""
        for delivery in self._deliveries:
            delivery.ack()
        await self._commit()

    def give_back(self, delay: timedelta | None = None) -> None:
        """Bring all of them again later."""
        for delivery in self._deliveries:
            delivery.give_back(delay)
