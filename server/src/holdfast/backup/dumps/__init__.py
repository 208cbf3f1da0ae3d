"""Database dumps: which databases a repository's dumps hold, and the operation that makes them."""
