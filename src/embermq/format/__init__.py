"""Bytes to model and back: pure functions, one shape per file."""
