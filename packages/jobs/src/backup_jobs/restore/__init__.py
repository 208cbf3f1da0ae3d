"""Shared by all restores: where each file would land, the private folder, and moving files into place."""
