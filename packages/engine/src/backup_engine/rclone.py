"""Interpret rclone's messages: each kind of trouble has its own key and a sentence that explains what to do.

The mirror runs rclone, and engine 2 uses it to open repositories on remotes.
"""

import re
from collections.abc import Iterable
from typing import Literal

from backup_engine.frozen import frozen

Step = Literal["configuration", "reach", "credentials", "storage"]


@frozen
class Trouble:
    step: Step
    """The part of a connection that is affected."""
    key: str
    sentence: str


CREDENTIALS = Trouble(
    "credentials",
    "rclone.credentials_refused",
    "The remote refused the credentials; correct the remote's user, password or keys.",
)
UNREACHABLE = Trouble(
    "reach",
    "rclone.unreachable",
    "The remote cannot be reached; check its address, the network, and whether its service is running.",
)
FULL = Trouble(
    "storage", "rclone.storage_full", "No space is left at the destination; free up space, or choose another location."
)
DENIED = Trouble(
    "storage",
    "rclone.permission_denied",
    "The remote denied read or write access; check the permissions on the path.",
)
CONFIGURATION = Trouble(
    "configuration",
    "rclone.configuration_refused",
    "The program rclone cannot use the remote's options; compare them with GET /api/rclone/providers.",
)
NOT_THERE = Trouble("storage", "rclone.not_found", "The path does not exist on the remote; check the path.")
OTHER = Trouble("storage", "rclone.failed", "The program rclone failed; its messages are in the log.")

TABLE: tuple[tuple[Trouble, tuple[str, ...]], ...] = (
    (
        CREDENTIALS,
        (
            *(r"401 unauthori[sz]ed", r"403 forbidden", r"error 40[13]\b", r"status code: 40[13]\b", "accessdenied"),
            *("unable to authenticate", "authentication failed", "login incorrect", "invalidaccesskeyid"),
            *("signaturedoesnotmatch", "invalid_grant", "couldn't fetch token", "empty token"),
        ),
    ),
    (
        UNREACHABLE,
        (
            *("connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host"),
            *("connection reset", "connection lost", "broken pipe", "tls handshake", "x509", "deadline exceeded"),
            *("server misbehaving", r"\beof\b", "502 bad gateway", "503 service", "504 gateway"),
        ),
    ),
    (FULL, ("no space left", "insufficient storage", "quota", "disk full")),
    (DENIED, ("permission denied", "read-only file system", "operation not permitted", "405 method not allowed")),
    (
        CONFIGURATION,
        (
            *("failed to create file system", "didn't find backend", "unsupported protocol", "is it obscured"),
            "failed to parse",
        ),
    ),
    (NOT_THERE, ("directory not found", "object not found", "404 not found")),
)
_PATTERNS = tuple((trouble, re.compile("|".join(signs), re.IGNORECASE)) for trouble, signs in TABLE)


def trouble_of(lines: Iterable[str]) -> Trouble:
    """Return the first kind of trouble, in the table's order, that any of rclone's error messages shows."""
    messages = list(lines)
    return next((trouble for trouble, pattern in _PATTERNS if any(map(pattern.search, messages))), OTHER)
