"""Instant reading: archived files, read by chunks through a warm process for each repository."""
