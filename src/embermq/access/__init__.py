"""Who may do what: one check for every request of broker and name server, closed by default."""
