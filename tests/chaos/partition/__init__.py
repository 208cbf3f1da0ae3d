"""A real agent and a real service with a bad network between them: what is stored must equal what the engine did."""
