"""Files: sizes and positions, never messages."""
