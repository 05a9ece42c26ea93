"""First steps in a notebook: what is in a store, without a broker.

python examples/first_steps.py DIRECTORY
"""

from __future__ import annotations

import sys

import embermq_spark


def main(path: str) -> None:
    spark = embermq_spark.session("first steps")
    print("queues, without reading a message:")
    embermq_spark.offsets(spark, path=path).orderBy("topic", "queueId").show()

    messages = spark.read.format("rocketmq").load(path)
    messages.printSchema()
    messages.selectExpr("topic", "tags", "keys", "cast(body as string) as body").orderBy("topic", "keys").show(5, False)

    messages.createOrReplaceTempView("messages")
    spark.sql("SELECT topic, tags, count(*) AS count FROM messages GROUP BY ALL ORDER BY topic, tags").show()


if __name__ == "__main__":
    main(*sys.argv[1:])
