"""Where the time of sends and pulls goes: how long each stage took, for how many messages in how many calls.

path     engine: kernels took them; plain: ordinary code did
stage    read: from bytes to messages, or to what a pull asks for, unless kernels do that together with the next
         store: log, queues and index, without the disk
         answer: of sends that are stored, and of pulls that found something
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ENGINE: Final = "engine"
PLAIN: Final = "plain"


@dataclass(slots=True)
class Stage:
    """One step on the way of a message."""

    calls: int = 0
    messages: int = 0
    seconds: float = 0.0

    def count(self, messages: int, seconds: float, calls: int = 1) -> None:
        """A call, or several, dealt with so many messages."""
        self.calls += calls
        self.messages += messages
        self.seconds += seconds


class Stages:
    """The stages of one path, since the start."""

    def __init__(self) -> None:
        self.read = Stage()
        self.store = Stage()
        self.answer = Stage()

    def items(self) -> tuple[tuple[str, Stage], ...]:
        return (("read", self.read), ("store", self.store), ("answer", self.answer))
