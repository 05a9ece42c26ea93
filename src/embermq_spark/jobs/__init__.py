"""The jobs of `embermq.jobs` as functions of a Spark session."""
