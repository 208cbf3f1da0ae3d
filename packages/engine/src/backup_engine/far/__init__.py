"""Commands that another machine runs: programs started here, and files copied there."""
