"""RuntimeInfo: the figures of a running broker, as RocketMQ's tools print them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from embermq.broker.statistics import BrokerStatistics, Sample
from embermq.broker.timer_figures import TimerFigures
from embermq.clock import Clock
from embermq.files.space import DiskSpace
from embermq.format.command import VERSION
from embermq.format.java_numbers import format_bytes, format_double
from embermq.format.tables import DelayTable
from embermq.model.topic import SCHEDULE_TOPIC
from embermq.store.store import Store

VERSION_NAME: Final = "V5_3_3"
_WINDOWS_S: Final = (10, 60, 600)
_NO_POOL: Final = 2_147_483_647
# There are no thread pools here, so their queues are always empty; tools look for the figures all the same.
_CAPACITIES: Final = {"send": 10_000, "pull": 100_000, "litePull": 100_000, "query": 20_000, "ack": 100_000}


class RuntimeInfo:
    """Collects the figures when somebody asks."""

    def __init__(
        self,
        store: Store,
        statistics: BrokerStatistics,
        *,
        delays: Callable[[], DelayTable],
        timer: Callable[[], TimerFigures] = TimerFigures,
        clock: Clock,
    ) -> None:
        self._store = store
        self._statistics = statistics
        self._delays = delays
        self._timer_figures = timer
        self._clock = clock
        self._started_ms = clock.now_ms()

    def table(self) -> dict[str, str]:
        """Every figure by its name, sorted."""
        figures = {
            **self._process(),
            **self._puts_and_gets(),
            **self._day(),
            **self._log(),
            **self._disk(),
            **self._delayed(),
            **self._timer(),
            **_thread_pools(),
        }
        return dict(sorted(figures.items()))

    def _process(self) -> dict[str, str]:
        minutes, seconds = divmod(max(self._clock.now_ms() - self._started_ms, 0) // 1000, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return {
            "bootTimestamp": str(self._started_ms),
            "runtime": f"[ {days:,} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
            "brokerActive": "true",
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": VERSION_NAME,
            "startAcceptSendRequestTimeStamp": "0",
        }

    def _puts_and_gets(self) -> dict[str, str]:
        puts, times, samples = self._store.state().puts, self._statistics.put_times, self._statistics.samples
        distribution = times.distribution()
        count = max(puts.messages, 1)
        return {
            "putMessageTimesTotal": str(count),
            "putMessageFailedTimes": str(puts.refused),
            "putMessageSizeTotal": str(puts.bytes),
            "putMessageAverageSize": format_double(puts.bytes / count),
            "putMessageEntireTimeMax": str(times.longest_ms),
            "putMessageDistributeTime": (
                "".join(f"{label}:{amount} " for label, amount in distribution) if distribution else "null"
            ),
            "putLatency99": f"{times.percentile(0.99):.2f}",
            "putLatency999": f"{times.percentile(0.999):.2f}",
            "getMessageEntireTimeMax": str(self._statistics.longest_get_ms),
            "putTps": _rates(samples, lambda sample: sample.puts),
            "getFoundTps": _rates(samples, lambda sample: sample.found),
            "getMissTps": _rates(samples, lambda sample: sample.missed),
            "getTransferredTps": _rates(samples, lambda sample: sample.transferred),
            "getTotalTps": _total_rates(samples),
        }

    def _day(self) -> dict[str, str]:
        marks, totals = self._statistics.day_marks, self._statistics.totals
        return {
            "msgPutTotalYesterdayMorning": str(marks.puts_yesterday),
            "msgPutTotalTodayMorning": str(marks.puts_today),
            "msgPutTotalTodayNow": str(totals.puts_of_users),
            "msgGetTotalYesterdayMorning": str(marks.gets_yesterday),
            "msgGetTotalTodayMorning": str(marks.gets_today),
            "msgGetTotalTodayNow": str(totals.gets_of_users),
        }

    def _log(self) -> dict[str, str]:
        state = self._store.state()
        earliest = self._store.first_store_time()
        figures = {
            "commitLogMinOffset": str(state.log_begin),
            "commitLogMaxOffset": str(state.log_written),
            "dispatchBehindBytes": str(state.dispatch_behind),
            "dispatchMaxBuffer": "0",
            "pageCacheLockTimeMills": "0",
            "earliestMessageTimeStamp": str(-1 if earliest is None else earliest),
            "remainHowManyDataToFlush": format_bytes(state.flush_behind),
            "remainTransientStoreBufferNumbs": str(_NO_POOL),
        }
        free_buffers = self._store.free_buffers()
        if free_buffers is not None:
            figures["remainTransientStoreBufferNumbs"] = str(free_buffers)
            figures["remainHowManyDataToCommit"] = format_bytes(self._store.uncommitted_bytes())
        return figures

    def _disk(self) -> dict[str, str]:
        paths = [Path(path) for path in self._store.settings.log_paths] or [self._store.path / "commitlog"]
        usages = {path: DiskSpace.usage(path) for path in paths}
        total = sum(usage.total for usage in usages.values())
        free = sum(usage.total - usage.used for usage in usages.values())
        return {
            "commitLogDiskRatio": format_double(min(usage.ratio for usage in usages.values())),
            **{f"commitLogDiskRatio_{path}": format_double(usage.ratio) for path, usage in usages.items()},
            "consumeQueueDiskRatio": format_double(DiskSpace.usage(self._store.path / "consumequeue").ratio),
            "commitLogDirCapacity": f"Total : {format_bytes(total)}, Free : {format_bytes(free)}.",
        }

    def _timer(self) -> dict[str, str]:
        figures = self._timer_figures()
        return {
            "timerReadBehind": str(figures.late_ms // 1000),
            "timerOffsetBehind": str(figures.behind),
            "timerCongestNum": str(figures.waiting),
            "timerEnqueueTps": format_double(figures.enqueue_rate),
            "timerDequeueTps": format_double(figures.dequeue_rate),
        }

    def _delayed(self) -> dict[str, str]:
        def end(level: int) -> int:
            return self._store.offsets(SCHEDULE_TOPIC, queue=level - 1)[1]

        offsets = self._delays().offsets
        return {f"scheduleMessageOffset_{level}": f"{done},{end(level)}" for level, done in offsets.items()}


def _thread_pools() -> dict[str, str]:
    figures = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "100000"}
    for name, capacity in _CAPACITIES.items():
        figures[f"{name}ThreadPoolQueueSize"] = "0"
        figures[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
        figures[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return figures


def _rates(samples: Sequence[Sample], count: Callable[[Sample], int]) -> str:
    """The rates of the last 10, 60 and 600 seconds; nothing stands for one that is not known yet."""
    rates = (_rate(samples, count, seconds) for seconds in _WINDOWS_S)
    return " ".join("" if rate is None else format_double(rate) for rate in rates)


def _total_rates(samples: Sequence[Sample]) -> str:
    rates = (_rate(samples, lambda sample: sample.found + sample.missed, seconds) for seconds in _WINDOWS_S)
    return " ".join(format_double(rate or 0.0) for rate in rates)


def _rate(samples: Sequence[Sample], count: Callable[[Sample], int], seconds: int) -> float | None:
    if len(samples) <= seconds:
        return None
    first, last = samples[-1 - seconds], samples[-1]
    elapsed = last.time_ms - first.time_ms
    return (count(last) - count(first)) * 1000.0 / elapsed if elapsed > 0 else 0.0
