"""Commands that another machine runs: what is started here, and what is copied there."""
