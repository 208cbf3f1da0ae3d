"""What restores share, wherever they put files: what would land where, the private folder, and moving into place."""
