"""Compacted topics: of all messages with the same keys, the newest stays."""
