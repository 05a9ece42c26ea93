"""The questions that operators ask of a store or a cluster, each answered by a DataFrame.

Every report takes the session and the options of a read, as `spark.read.format("rocketmq")` does:

    reports.skew(spark, path="data", subscribe="orders")
    reports.lag(spark, namesrv="127.0.0.1:9876")
"""

from __future__ import annotations

from embermq_spark.reports.dead_letters import dlq
from embermq_spark.reports.delays import delay
from embermq_spark.reports.duplicates import duplicates
from embermq_spark.reports.group_lag import keep_lag, lag, lag_history
from embermq_spark.reports.order import order
from embermq_spark.reports.skew import hot_keys, skew
from embermq_spark.reports.traces import trace, trace_latency
from embermq_spark.reports.transactions import transactions

__all__ = [
    "delay", "dlq", "duplicates", "hot_keys", "keep_lag", "lag", "lag_history", "order", "skew", "trace",
    "trace_latency", "transactions",
]  # fmt: skip
