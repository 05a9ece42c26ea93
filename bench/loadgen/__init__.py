"""The load generator, in C: builds it, runs it beside a server, and reads what it found."""
