"""What the client logs while a run lasts: counted, because under load one cause makes thousands of lines."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator


class ClientLog(logging.Handler):
    """Counts events, and keeps the first of each kind in words."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.counts: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        kind = str(record.msg)
        self.counts[kind] += 1
        if kind not in self.first:
            self.first[kind] = " ".join(record.getMessage().split())


@contextlib.contextmanager
def counting_events() -> Iterator[ClientLog]:
    """Within it, what our code logs is counted instead of written."""
    logger, log = logging.getLogger("embermq"), ClientLog()
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(log)
    try:
        yield log
    finally:
        logger.removeHandler(log)
        logger.propagate = propagated
