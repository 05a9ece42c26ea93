"""A day of a topic again: its messages, from a store directory, into another topic of a cluster.

    python examples/replay_day.py DIRECTORY TOPIC DAY NAME_SERVER TARGET

    python examples/replay_day.py ./backup orders 2025-06-01 127.0.0.1:9876 orders-again

With EmberMQ's brokers, consumers see all of the day or nothing of it.
"""

from __future__ import annotations

import sys
from datetime import date, timedelta

import embermq_spark


def main(path: str, topic: str, day: str, namesrv: str, target: str) -> None:
    spark = embermq_spark.session("replay of a day")
    first = date.fromisoformat(day)
    messages = (
        spark.read.format("rocketmq")
        .option("subscribe", topic)
        .option("startingTimestamp", f"{first}T00:00:00Z")
        .option("endingTimestamp", f"{first + timedelta(days=1)}T00:00:00Z")
        .load(path)
    )
    again = messages.select("body", "tags", "keys")
    again.write.format("rocketmq").option("namesrv", namesrv).option("topic", target).mode("append").save()
    print(f"{messages.count()} messages of {topic}, stored on {day} (UTC), are in {target}")


if __name__ == "__main__":
    main(*sys.argv[1:])
