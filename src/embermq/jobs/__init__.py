"""Work on whole stores that takes a while: cut into tasks over byte ranges, run in processes here or on Spark."""
