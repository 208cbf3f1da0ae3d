"""Calls: the engine on an agent's machine, run while a caller waits for its output.

A job belongs to the agent from its claim to its end, even if the link is cut. A call is the opposite: it runs at once
for a waiting caller, and it ends with the link. The agent sends frames to `POST /calls/{id}/output`: the engine's
output, its errors, and a last frame with how it ended (see `frames`). Without that last frame the end is unknown,
however the connection closed.
"""

OUTPUT, PACKED_OUTPUT, ERRORS = b"o", b"z", b"e"
"""Frames of a call, beside `frames.HERE` and `frames.END`."""
HERE_SECONDS = 10.0
"""How often an agent sends a sign of life while its engine is silent."""

LOOK = "look"
"""In the payload of a call, in place of a job: a question about folders of the machine. Only for agents that report
`folders.look`; the answer is one line of JSON, as `backup_jobs.folders` writes it."""

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
"""Methods that an agent runs for a call. Of those that change a repository, only atomic ones."""
