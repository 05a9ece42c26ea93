"""Figures in the text that Prometheus reads; the library that writes it is imported at the first scrape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

from embermq.server.meters import Histogram

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Kind = Literal["gauge", "counter", "histogram"]


class Row(NamedTuple):
    """One series: the values of its labels, and its own."""

    labels: Sequence[str]
    value: float | Histogram


class Family(NamedTuple):
    """All series of one name."""

    name: str  # a counter's without _total
    kind: Kind
    help: str
    labels: Sequence[str]
    rows: Sequence[Row]


def render(families: Iterable[Family], accept: str = "") -> tuple[bytes, str]:
    """The text and its content type; `accept` is what the reader of it said it takes."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector

    metrics = [_metric(family) for family in families]

    class Snapshot(Collector):
        def collect(self) -> Iterable[Metric]:
            return metrics

    registry = CollectorRegistry()
    registry.register(Snapshot())
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _metric(family: Family) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    name, documentation, labels = family.name, family.help, list(family.labels)
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, documentation, labels=labels)
        for row in family.rows:
            assert isinstance(row.value, Histogram)
            histogram.add_metric(list(row.labels), buckets=_buckets(row.value), sum_value=row.value.total)
        return histogram
    make = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric: CounterMetricFamily | GaugeMetricFamily = make(name, documentation, labels=labels)
    for row in family.rows:
        assert not isinstance(row.value, Histogram)
        metric.add_metric(list(row.labels), row.value)
    return metric


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Prometheus adds up: each bucket has all that is below its bound."""
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
