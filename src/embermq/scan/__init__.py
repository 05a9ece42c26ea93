"""A store's log as Arrow columns: what to read, how to cut the work, how to read a piece of it. No Spark in here."""
