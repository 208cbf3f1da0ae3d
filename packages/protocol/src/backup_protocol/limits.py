"""Sizes and intervals of the contract."""

LARGEST_BODY = 1024 * 1024
"""Bytes of any JSON body that an agent sends."""
LARGEST_LOG_BATCH = 1024 * 1024
MOST_LOG_ENTRIES = 1000
"""Entries of one batch of log lines."""

FIRST_SEQUENCE = 1
"""The number of a job's first log line. Each further line has the next number, over all attempts."""

DEFAULT_POLL_LIMIT = 1
MOST_POLL_LIMIT = 10
LONGEST_POLL_WAIT = 30
"""Maximum seconds that a poll may wait for a job; longer waits are shortened to this."""

DEFAULT_HEARTBEAT_SECONDS = 30
DEFAULT_POLL_SECONDS = 15
