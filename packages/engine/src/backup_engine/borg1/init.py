"""``borg init``: create a repository."""

from collections.abc import Collection

from backup_engine.borg1 import arguments
from backup_engine.requests import InitRequest, InvalidRequest, RepositoryLocation

ENCRYPTION_MODES = frozenset(
    {
        "none",
        "authenticated",
        "authenticated-blake2",
        "repokey",
        "repokey-blake2",
        "keyfile",
        "keyfile-blake2",
    }
)


def command(location: RepositoryLocation, request: InitRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for an unknown mode, or if an encrypted repository has no passphrase."""
    check_mode(location, request.encryption, ENCRYPTION_MODES, "an encryption mode")
    return (
        *("--log-json", "--lock-wait", str(lock_wait)),
        "init",
        f"--encryption={request.encryption}",
        *(("--make-parent-dirs",) if request.make_parent_dirs else ()),
        *("--", arguments.repository(location)),
    )


def check_mode(location: RepositoryLocation, mode: str, known: Collection[str], noun: str) -> None:
    if mode not in known:
        raise InvalidRequest(f"{mode!r} is not {noun}; use one of {', '.join(sorted(known))}.")
    if mode != "none" and not location.passphrase:
        # A random passphrase would be passed to the engine, and the repository could never be opened again.
        raise InvalidRequest(f"A repository with encryption {mode} needs a passphrase.")
