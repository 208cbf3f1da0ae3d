"""The two parts of the history bench: synthetic archives at scale, and a real repository."""
