"""File history: every file of every indexed archive of a repository, derived from the engine's archives."""
