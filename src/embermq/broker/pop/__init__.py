"""Consuming by pop: the broker remembers who has which message, instead of how far each consumer is."""
