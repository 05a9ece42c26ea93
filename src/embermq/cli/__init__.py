"""The `ember` command: one file per noun."""
