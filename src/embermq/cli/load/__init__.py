"""Load on a cluster, and what it measured: the work behind `ember bench`."""
