"""How long puts take: counted in classes, a minute at a time.

Two sets of classes: a coarse one for people, and a fine one from which percentiles are worked out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final

LABELS: Final = (
    "[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]", "[500ms~1s]", "[1~2s]", "[2~3s]",
    "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]",
)  # fmt: skip
_COARSE: Final = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)  # each class ends before its bound
_STEPS: Final = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9))  # width, how many
_FINE: Final = tuple(accumulate(width for width, count in _STEPS for _ in range(count)))  # up to and with its bound
_ENDLESS: Final = 2**31 - 1


class PutTimes:
    """The times of this minute and of the last."""

    def __init__(self) -> None:
        self.longest_ms = 0
        self._coarse = [0] * len(LABELS)
        self._fine = [0] * (len(_FINE) + 1)
        self._last_coarse: list[int] | None = None
        self._last_fine = [0] * (len(_FINE) + 1)

    def add(self, ms: int, *, puts: int = 1) -> None:
        """So many puts took so long."""
        if ms == 0:  # nearly always
            self._coarse[0] += puts
            self._fine[0] += puts
            return
        self._coarse[bisect_right(_COARSE, ms)] += puts
        self._fine[bisect_left(_FINE, ms)] += puts
        self.longest_ms = max(self.longest_ms, ms)

    def next_minute(self) -> None:
        """A minute is over: what was counted is the last minute from now on."""
        self._last_coarse, self._coarse = self._coarse, [0] * len(LABELS)
        self._last_fine, self._fine = self._fine, [0] * (len(_FINE) + 1)

    def distribution(self) -> list[tuple[str, int]] | None:
        """How many puts of the last minute took how long; None in the first one."""
        return None if self._last_coarse is None else list(zip(LABELS, self._last_coarse, strict=True))

    def percentile(self, share: float) -> float:
        """The time that this share of the last minute's puts stayed within, in ms."""
        wanted = int(sum(self._last_fine) * share)
        passed = 0
        for place, count in enumerate(self._last_fine):
            if wanted <= passed + count:
                below = _FINE[place - 1] if place else 0
                above = _FINE[place] if place < len(_FINE) else _ENDLESS
                return below + (above - below) * (wanted - passed) / count if count else float(below)
            passed += count
        return 0.0
