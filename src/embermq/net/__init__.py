"""Frames over sockets: connections, the servers that accept them, the dialer that makes them."""
