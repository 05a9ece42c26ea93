"""Cuts a read into splits, and chooses how they are read.

| what is wanted                                   | is read                                                       |
|--------------------------------------------------|---------------------------------------------------------------|
| messages with given keys, and the index is there | through the index; what that does not cover, from the log     |
| given offsets, or a light queue                  | through the queues                                            |
| topics that are a small share of the log         | through the queues: below LOCAL_SHARE, or below REMOTE_SHARE  |
|                                                  | where bytes are dear                                          |
| anything else                                    | from the log, in stretches; a topic is tested while scanning  |

Files are left out by time, where times are given.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import difflib
from contextlib import closing
from typing import Final

from embermq.errors import TopicNotFound
from embermq.model.topic import is_light_queue
from embermq.scan.index_plan import plan_index
from embermq.scan.log_plan import choose_size, find_timely, plan_stretch
from embermq.scan.queue_plan import Chosen, choose_ranges, choose_topics, estimate, plan_queues
from embermq.scan.splits import Split, StorePlace
from embermq.scan.survey import QueueState, Survey
from embermq.scan.tally import Tally
from embermq.scan.wanted import Wanted

LOCAL_SHARE: Final = 0.15  # of the log's bytes, below which going through queues is faster
REMOTE_SHARE: Final = 0.3


def plan(
    path: str | StorePlace,
    wanted: Wanted,
    *,
    split_size: int | None = None,
    min_partitions: int = 1,
    tally: Tally | None = None,
) -> list[Split]:
    """The splits that together hold all wanted messages of a store, each once; none if it has none.

    A split is about `split_size` bytes of the log; there are at least `min_partitions` if there is enough to read.
    Raises StoreError for files that are not as they should be, TopicNotFound for a topic that was named and is not
    there, and DataLoss for offsets that were named and are not.
    """
    place = path if isinstance(path, StorePlace) else StorePlace(str(path))
    tally = tally or Tally()
    with closing(Survey(place)) as survey:
        if survey.loss is not None:
            tally.add_loss(survey.loss, 1, fail=wanted.fail_on_loss)
        _check_topics(survey, wanted)
        found = plan_index(survey, wanted, split_size)
        if found is not None:
            return found
        begin, end = find_timely(survey, wanted)
        chosen = _choose_queues(survey, wanted, end - begin, tally)
        if chosen is None:
            return plan_stretch(survey, begin, end, choose_size(end - begin, split_size, min_partitions))
        total = estimate(chosen).cost(end - begin)
        return plan_queues(survey, chosen, -(-total // choose_size(total, split_size, min_partitions)))


def list_queues(path: str | StorePlace) -> list[QueueState]:
    """Every queue of a store that is a file, with the offsets that can be read, by topic and number."""
    with closing(Survey(path if isinstance(path, StorePlace) else StorePlace(str(path)))) as survey:
        return survey.states(survey.queues)


def find_log_end(path: str | StorePlace) -> int:
    """The position behind the last record of a store that may be read."""
    with closing(Survey(path if isinstance(path, StorePlace) else StorePlace(str(path)))) as survey:
        return survey.end


def _check_topics(survey: Survey, wanted: Wanted) -> None:
    if survey.topics:  # else queues are kept elsewhere, or not at all
        for topic in sorted((wanted.topics or frozenset()) - survey.topics):
            nearest = difflib.get_close_matches(topic, survey.topics, n=1)
            raise TopicNotFound(topic, nearest[0] if nearest else None)


def _choose_queues(survey: Survey, wanted: Wanted, total: int, tally: Tally) -> list[Chosen] | None:
    """The parts of queues to read; None if the log is to be read instead, of which `total` bytes are wanted."""
    if not survey.topics:
        return None
    if wanted.ranges is not None:
        return choose_ranges(survey, wanted, wanted.ranges, tally)
    if any(map(is_light_queue, wanted.topics or ())):
        return choose_topics(survey, wanted)
    if not survey.is_settled or (wanted.topics is None and wanted.pattern is None):
        return None
    share = LOCAL_SHARE if survey.store.system.is_local else REMOTE_SHARE
    chosen = choose_topics(survey, wanted)
    return chosen if estimate(chosen).size < share * total else None
