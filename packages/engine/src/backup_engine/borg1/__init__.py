"""BorgBackup 1.2 and 1.4: one module per command, each a function from a request to arguments."""
