"""What a read left out, counted.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from embermq.errors import DamagedRecord, DataLoss

log = logging.getLogger(__name__)


@dataclass
class Tally:
    """Counts of one read. Each thing that is counted is logged, too."""

    damaged: int = 0  # records, or stretches of bytes that hold none
    lost: int = 0  # messages that were promised

    def add_damage(self, damage: DamagedRecord, *, skip: bool) -> None:
        """Count a damaged record, or raise it."""
        if not skip:
            raise damage
        self.damaged += 1
        log.warning("skipped path=%s position=%d reason=%s", damage.path, damage.position, damage.reason)

    def add_loss(self, loss: DataLoss, count: int, *, fail: bool) -> None:
        """Count messages that are gone, or raise it."""
        if fail:
            raise loss
        self.lost += count
        log.warning("lost place=%s what=%s count=%d reason=%s", loss.place, loss.what, count, loss.reason)
