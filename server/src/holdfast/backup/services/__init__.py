"""Services that backups of a repository stop: which ones, and how they are started again whatever happens."""
