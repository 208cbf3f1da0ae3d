"""Facts that this machine reports about itself."""

import os
import socket
import sys
from datetime import UTC, datetime

ARCHITECTURES = {"AMD64": "x86_64", "ARM64": "arm64"}


def hostname() -> str:
    return socket.gethostname() or "unknown"


def system() -> str:
    """`linux`, `darwin`, `windows`, or else Python's name of the platform."""
    return "windows" if sys.platform == "win32" else sys.platform


def architecture() -> str:
    if not hasattr(os, "uname"):
        found = os.environ.get("PROCESSOR_ARCHITECTURE", "unknown")
        return ARCHITECTURES.get(found, found.lower())
    return os.uname().machine


def moment() -> datetime:
    """Current time of this machine. Its clock may be wrong, so nothing is ordered by it."""
    return datetime.now(UTC)


def at(seconds: float) -> str:
    """Convert seconds since 1970 on this machine's clock to the format of the contract."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def now() -> str:
    """Current time of this machine, in the format of the contract."""
    return moment().isoformat()
