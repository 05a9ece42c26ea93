"""Requests to answers over a store: sending, pulling, groups, offsets, delays. No sockets."""
