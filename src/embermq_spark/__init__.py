"""Spark over EmberMQ and RocketMQ: the format `rocketmq`, and sessions for it. Needs the extra `spark`."""

from __future__ import annotations

from embermq_spark.offset_table import offsets
from embermq_spark.sessions import register, session

__all__ = ["offsets", "register", "session"]
