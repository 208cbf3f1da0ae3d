"""Database dumps: which databases are dumped for a repository, and the operation that dumps them."""
