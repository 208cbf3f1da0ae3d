"""Getting the agent onto a machine: the install script, the wheels it fetches, and the units of the system."""
