"""One directory, used as a database."""
