"""Facts that this machine reports about itself."""

import os
import socket
import sys
from datetime import UTC, datetime

ARCHITECTURES = {"AMD64": "x86_64", "ARM64": "arm64"}


def hostname() -> str:
    return socket.gethostname() or "unknown"


def system() -> str:
    """`linux`, `darwin`, `windows`, or Python's name for it."""
    return "windows" if sys.platform == "win32" else sys.platform


def architecture() -> str:
    if not hasattr(os, "uname"):
        found = os.environ.get("PROCESSOR_ARCHITECTURE", "unknown")
        return ARCHITECTURES.get(found, found.lower())
    return os.uname().machine


def moment() -> datetime:
    """This machine's time. It may be off, so nothing is ever ordered by it."""
    return datetime.now(UTC)


def at(seconds: float) -> str:
    """A time of this machine's clock, in seconds since 1970, as the service reads it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def now() -> str:
    """This machine's time as the service reads it."""
    return moment().isoformat()
