"""Parts shared by all restores: target paths, the private folder, and moving files into place."""
