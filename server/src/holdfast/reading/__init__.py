"""Instant reading: files of archives, read by chunks through a warm process for each repository."""
