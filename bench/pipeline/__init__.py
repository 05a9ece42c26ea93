"""What bench/spark.py measures, part by part; each is a program of its own, with a Spark of its own."""
