"""The handlers of a broker, one file per subject."""
