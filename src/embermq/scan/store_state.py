"""What a store held at one moment, as plain data: where its log begins and ends, and the offsets of its queues.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from embermq.scan.splits import LogFile, StorePlace
from embermq.scan.store_files import StoreFiles
from embermq.scan.survey import QueueState, Survey
from embermq.scan.told_queues import tell_queues


class StoreState(NamedTuple):
    """A store as it was looked at."""

    place: StorePlace
    files: tuple[LogFile, ...]
    end: int  # of the log: no record from here on may be read
    queues: tuple[QueueState, ...]  # by topic and number
    is_settled: bool  # whether the queues know every record before `end`: not so after a crash
    is_told: bool = False  # the queues are no files; what they hold is told by the log

    @property
    def begin(self) -> int:
        """The first position of the log."""
        return self.files[0].start if self.files else 0


def look(place: StorePlace) -> StoreState:
    """Look at a store. Raises StoreMissing, or another StoreError for files that are not as they should be."""
    if place.is_broker:
        return _ask(place)
    with closing(Survey(place)) as survey:
        if not survey.queues and not survey.store.keeps_queues:
            queues = tell_queues(place, survey.files, survey.end)
            return StoreState(place, survey.files, survey.end, queues, is_settled=True, is_told=True)
        queues = tuple(survey.states(survey.queues))
        return StoreState(place, survey.files, survey.end, queues, survey.is_settled)


def _ask(place: StorePlace) -> StoreState:
    """The same, for which a broker has the answers."""
    store = StoreFiles(place)
    owner = store.system.ask_owner()  # before files are listed, as in Survey
    assert owner is not None, "brokers own their files"
    files = store.find_log()
    queues = tuple(sorted(QueueState(*queue, *offsets) for queue, offsets in owner.queues.items()))
    return StoreState(place, files, min(owner.log_end, files[-1].end if files else 0), queues, is_settled=True)
