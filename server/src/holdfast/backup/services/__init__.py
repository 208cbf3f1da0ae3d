"""Services that backups of a repository stop, and how they are reliably started again."""
