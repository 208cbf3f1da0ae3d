"""Sizes and intervals of the contract."""

LARGEST_BODY = 1024 * 1024
"""Largest JSON body that an agent sends, in bytes."""
LARGEST_LOG_BATCH = 1024 * 1024
MOST_LOG_ENTRIES = 1000
"""Maximum number of log lines in one batch."""

FIRST_SEQUENCE = 1
"""Number of a job's first log line. Lines are numbered consecutively across all attempts."""

DEFAULT_POLL_LIMIT = 1
MOST_POLL_LIMIT = 10
LONGEST_POLL_WAIT = 30
"""Maximum time in seconds that a poll waits for a job; longer requests are shortened to this."""

DEFAULT_HEARTBEAT_SECONDS = 30
DEFAULT_POLL_SECONDS = 15
