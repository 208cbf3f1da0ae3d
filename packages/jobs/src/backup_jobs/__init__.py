"""The work of each kind of job: its steps, its evidence, its ending. A host runs it."""
