"""A real agent and a real service with a bad network between them: the record must match what the engine did."""
