"""Commands that another machine runs: the programs started here, and the files copied there."""
