"""Messages for any time: the wheel, the log of its units, and how far both are."""
