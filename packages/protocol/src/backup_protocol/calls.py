"""Calls: the engine on an agent's machine, asked while somebody waits for its words.

A job is the agent's from its claim to its end, whatever happens to the link. A call is the opposite: it is run for whoever
waits, at once, and it ends with the link. The agent sends frames to `POST /calls/{id}/output`: what the engine writes, what it
says, and at last how it ended (see `frames`). Without that last frame nobody knows, whatever the connection says.
"""

OUTPUT, PACKED_OUTPUT, ERRORS = b"o", b"z", b"e"
"""Frames of a call, beside `frames.HERE` and `frames.END`."""
HERE_SECONDS = 10.0
"""So often an agent says that it is there while its engine says nothing."""

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
    }
)
"""What an agent runs for a call. Of what changes a repository only that which the engine does whole or not at all."""
