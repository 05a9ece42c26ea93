"""Requests to a name server, one subject a file."""
