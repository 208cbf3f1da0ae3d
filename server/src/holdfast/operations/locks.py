"""How an operation holds its lane: a kind's access to a repository, against the sharing that the repository allows."""

from collections.abc import Mapping
from enum import StrEnum

from holdfast.operations.status import LockMode


class Access(StrEnum):
    """What an operation does to its repository."""

    READ = "read"
    """It reads through the engine."""
    READ_FILES = "read_files"
    """It reads the repository's files itself, so that no writer may be at work."""
    ADD = "add"
    """It adds to the repository and takes nothing away."""
    CHANGE = "change"


class Sharing(StrEnum):
    """Which operations a repository allows at the same time."""

    NOTHING = "nothing"
    """It allows one run of the engine at a time, not even two readers."""
    READERS = "readers"
    """Readers share it; a writer has it alone."""
    WRITERS = "writers"
    """Readers and operations that only add share it."""


LOCKS: Mapping[Access, Mapping[Sharing, LockMode]] = {
    Access.READ: {
        Sharing.NOTHING: LockMode.EXCLUSIVE,
        Sharing.READERS: LockMode.SHARED,
        Sharing.WRITERS: LockMode.SHARED,
    },
    Access.READ_FILES: {
        Sharing.NOTHING: LockMode.EXCLUSIVE,
        Sharing.READERS: LockMode.SHARED,
        Sharing.WRITERS: LockMode.EXCLUSIVE,
    },
    Access.ADD: {
        Sharing.NOTHING: LockMode.EXCLUSIVE,
        Sharing.READERS: LockMode.EXCLUSIVE,
        Sharing.WRITERS: LockMode.SHARED,
    },
    Access.CHANGE: {
        Sharing.NOTHING: LockMode.EXCLUSIVE,
        Sharing.READERS: LockMode.EXCLUSIVE,
        Sharing.WRITERS: LockMode.EXCLUSIVE,
    },
}


def lock_mode(access: Access | None, sharing: Sharing = Sharing.READERS) -> LockMode | None:
    """Given an operation's access and its repository's sharing, return how it holds the lane; None if it holds none."""
    return LOCKS[access][sharing] if access is not None else None
