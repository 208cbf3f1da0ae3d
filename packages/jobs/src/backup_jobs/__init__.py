"""What each kind of job does: its steps, its evidence, its end. A host gives it a place to run."""
