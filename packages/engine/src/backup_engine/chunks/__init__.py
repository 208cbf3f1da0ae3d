"""Read chunks of a repository under the engine's own Python: the programs that run there, and their commands."""
