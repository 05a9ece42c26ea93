"""How far jobs say they are, for tests to look at."""

from __future__ import annotations

from embermq.jobs.progress import State


class Shown:
    """Remembers all that is to be shown."""

    every_s = 0.0

    def __init__(self) -> None:
        self.states: list[State] = []

    def show(self, state: State) -> None:
        self.states.append(state)

    def clear(self) -> None:
        """They stay."""
