"""Processes: a broker and a name server with their sockets, settings, logs and figures."""
