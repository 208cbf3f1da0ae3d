"""Calls: the engine on an agent's machine, asked while somebody waits for its words.

A job is the agent's from its claim to its end, whatever happens to the link. A call is the opposite: it is run for whoever
waits, at once, and it ends with the link. The agent sends frames to `POST /calls/{id}/output`: what the engine writes, what it
says, and at last how it ended. Without that last frame nobody knows, whatever the connection says.
"""

import struct

CALL_HEAD = struct.Struct(">cQ")
CALL_OUTPUT, CALL_PACKED_OUTPUT, CALL_ERRORS, CALL_END, CALL_HERE = b"o", b"z", b"e", b"x", b"h"
CALL_HERE_SECONDS = 10.0
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


def call_frame(letter: bytes, content: bytes) -> bytes:
    return CALL_HEAD.pack(letter, len(content)) + content
