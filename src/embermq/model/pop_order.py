"""The messages of one queue that are with a consumer, where they are popped in order."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Order:
    """The messages of one queue that are with a consumer, in order."""

    offsets: list[int]
    pop_time: int
    invisible_ms: int
    attempt: str | None = None
    acked: int = 0  # a bit each
    due_ms: dict[int, int] = field(default_factory=dict)  # of those whose time was changed, by offset
    counts: dict[int, int] = field(default_factory=dict)  # how often each was delivered before
    changed_ms: int = 0

    def open_offsets(self) -> list[int]:
        """The messages that are not done."""
        return [offset for at, offset in enumerate(self.offsets) if not self.acked >> at & 1]

    def due_of(self, offset: int) -> int:
        return self.due_ms.get(offset, self.pop_time + self.invisible_ms)

    def blocked_until(self, now: int) -> int | None:
        """When the first message is due again; None if nothing keeps the queue from others now."""
        later = [due for due in map(self.due_of, self.open_offsets()) if due > now]
        return min(later) if later else None

    def next_offset(self) -> int:
        """Where the queue goes on: at the first message that is not done."""
        return next(iter(self.open_offsets()), self.offsets[-1] + 1)
