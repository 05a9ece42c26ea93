"""JSON bodies as columns: the largest orders of a topic, and what is no JSON.

python examples/json_bodies.py DIRECTORY TOPIC
"""

from __future__ import annotations

import sys

from pyspark.sql.functions import col, from_json

import embermq_spark


def main(path: str, topic: str) -> None:
    spark = embermq_spark.session("json bodies")
    messages = spark.read.format("rocketmq").option("subscribe", topic).load(path)
    order = from_json(col("body").cast("string"), "id int, amount double").alias("order")
    orders = messages.select("keys", "tags", order)
    readable = orders.where("order.id IS NOT NULL")
    readable.select("keys", "tags", "order.amount").orderBy(col("amount").desc(), "keys").show(3)
    print(f"{orders.count() - readable.count()} bodies are no orders")


if __name__ == "__main__":
    main(*sys.argv[1:])
