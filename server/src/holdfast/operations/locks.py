"""How an operation holds its lane: its kind's access to a repository, combined with the repository's sharing."""

from collections.abc import Mapping
from enum import StrEnum

from holdfast.operations.status import LockMode


class Access(StrEnum):
    """How an operation uses its repository."""

    READ = "read"
    """Reads through the engine."""
    READ_FILES = "read_files"
    """Reads the repository's files directly, so no writer may be active."""
    ADD = "add"
    """Adds to the repository and removes nothing."""
    CHANGE = "change"


class Sharing(StrEnum):
    """Which operations a repository allows at the same time."""

    NOTHING = "nothing"
    """One run of the engine at a time; not even two readers."""
    READERS = "readers"
    """Readers share the repository; a writer has it to itself."""
    WRITERS = "writers"
    """Readers share the repository with operations that only add to it."""


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
