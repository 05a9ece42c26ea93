"""What a store held at one moment, as plain data: where its log begins and ends, and the offsets of its queues.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple, TypeAlias

from embermq.scan.splits import LogFile, StorePlace
from embermq.scan.store_files import StoreFiles
from embermq.scan.survey import QueueState, Survey
from embermq.scan.told_queues import tell_queues

Accepts: TypeAlias = Callable[[str], bool]  # of a topic


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


def everything(topic: str) -> bool:
    """Accepts all topics."""
    return True


def look(place: StorePlace, accepts: Accepts = everything) -> StoreState:
    """Look at a store, of whose queues those of accepted topics are told.

    Raises StoreMissing, or another StoreError for files that are not as they should be.
    """
    if place.is_broker:
        return _ask(place, accepts)
    with closing(Survey(place)) as survey:
        if not survey.topics and not survey.store.keeps_queues:
            told = tell_queues(place, survey.files, survey.end)
            queues = tuple(queue for queue in told if accepts(queue.topic))
            return StoreState(place, survey.files, survey.end, queues, is_settled=True, is_told=True)
        queues = tuple(survey.states(survey.select(accepts)))
        return StoreState(place, survey.files, survey.end, queues, survey.is_settled)


def _ask(place: StorePlace, accepts: Accepts) -> StoreState:
    """The same, for which a broker has the answers."""
    store = StoreFiles(place)
    owner = store.system.ask_owner()  # before files are listed, as in Survey
    assert owner is not None, "brokers own their files"
    files = store.find_log()
    told = (QueueState(*queue, *offsets) for queue, offsets in owner.queues.items() if accepts(queue[0]))
    queues = tuple(sorted(told))
    return StoreState(place, files, min(owner.log_end, files[-1].end if files else 0), queues, is_settled=True)
