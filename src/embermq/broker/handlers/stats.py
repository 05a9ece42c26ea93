"""Statistics of one name and key, in the three windows."""

from __future__ import annotations

from embermq.broker.counting import Figures
from embermq.broker.statistics import BrokerStatistics
from embermq.format.command import Command, make_answer
from embermq.format.stats_body import StatsBody, WindowBody, encode_stats
from embermq.model.codes import RequestCode, ResponseCode
from embermq.rpc.fields import read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler


class StatsHandlers:
    """Answers what was counted."""

    def __init__(self, statistics: BrokerStatistics) -> None:
        self._statistics = statistics

    def routes(self) -> dict[int, Handler]:
        return {RequestCode.VIEW_BROKER_STATS: self.view}

    def view(self, peer: Peer, request: Command) -> Command:
        name, key = read_text(request.fields, "statsName"), read_text(request.fields, "statsKey")
        windows = (self._statistics.minute, self._statistics.hour, self._statistics.day)
        found = [window(name, key) for window in windows]
        if found[0] is None:  # tools take this for "nothing was sent yet", by its code
            return make_answer(
                request, ResponseCode.SYSTEM_ERROR, remark=f"The stats <{name[:255]}> <{key[:255]}> not exist"
            )
        minute, hour, day = (WindowBody(*(figures or Figures())) for figures in found)
        return make_answer(request, body=encode_stats(StatsBody(minute, hour, day)))
