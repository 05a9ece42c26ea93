"""Two topics joined by the keys of their messages: orders that nobody paid.

python examples/join_topics.py DIRECTORY ORDERS PAYMENTS
"""

from __future__ import annotations

import sys

import embermq_spark


def main(path: str, orders: str, payments: str) -> None:
    spark = embermq_spark.session("join of topics")
    ordered, paid = (
        spark.read.format("rocketmq").option("subscribe", topic).option("columns", "keys,body").load(path)
        for topic in (orders, payments)
    )
    unpaid = ordered.join(paid.select("keys"), "keys", "left_anti")
    unpaid.selectExpr("keys", "cast(body as string) AS body").orderBy("keys").show(truncate=False)
    print(f"{unpaid.count()} of {ordered.count()} orders are not paid")


if __name__ == "__main__":
    main(*sys.argv[1:])
