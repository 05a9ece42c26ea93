"""Topics kept for longer than their log: as Parquet, Delta or Iceberg, by topic and day, and back into a topic."""
