"""Where Spark finds the format `rocketmq` by itself: it looks into every installed package named `pyspark_…`."""

from __future__ import annotations

from embermq_spark.source import RocketMQSource as DefaultSource

__all__ = ["DefaultSource"]
