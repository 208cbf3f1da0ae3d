"""Installation of the agent on a machine: the install script, the wheels that it fetches, and the service units."""
