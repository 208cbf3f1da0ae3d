"""Daily and weekly reports."""
