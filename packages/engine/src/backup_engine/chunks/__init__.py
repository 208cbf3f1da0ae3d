"""Reading the chunks of a repository under the engine's own Python: what runs there, and the commands that start it."""
