"""Large stores for the bench of jobs, and what comes of its results."""
