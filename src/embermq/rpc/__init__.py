"""Requests and who answers them: what name server and broker have in common. No sockets."""
