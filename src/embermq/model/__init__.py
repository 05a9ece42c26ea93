"""What things are: no bytes, no I/O."""
