"""Calls: engine runs on an agent's machine whose output a caller is waiting for.

A job belongs to the agent from its claim to its end, even if the connection is cut. A call is the opposite: it runs at
once and ends with the connection. The agent sends frames to `POST /calls/{id}/output`: the engine's output, its errors,
and a last frame that states how it ended (see `frames`). Without that last frame the outcome is unknown, however the
connection closed.
"""

OUTPUT, PACKED_OUTPUT, ERRORS = b"o", b"z", b"e"
"""Frames of a call, in addition to `frames.HERE` and `frames.END`."""
HERE_SECONDS = 10.0
"""Interval of the agent's signs of life while its engine is silent."""

CALL_OVER = "agents.call_over"
"""The key of the service's refusal if the caller is no longer waiting."""

LOOK = "look"
"""Key in a call's payload that marks a question about the machine's folders instead of an engine run. Sent only to
agents that report `folders.look`. The answer is one line of JSON, as written by `backup_jobs.folders`.
"""

CALL_METHODS = frozenset(
    {
        "list_archives",
        "info",
        "list_files",
        "diff",
        "export_tar",
        "extract",
        "key_export",
        "prune",
        "delete_archive",
        "undelete_archive",
        "compact",
        "read_chunks",
        "try_chunks",
    }
)
"""Engine methods that an agent runs for a call. Methods that change a repository are included only if they are
atomic.
"""
