"""The work of each kind of job: its steps, its evidence, its end. A host gives it a place to run."""
