"""``borg init``: make a repository."""

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
    """Raise InvalidRequest for an unknown mode, or an encrypted repository without a passphrase."""
    if request.encryption not in ENCRYPTION_MODES:
        raise InvalidRequest(
            f"{request.encryption!r} is not an encryption mode; use one of {', '.join(sorted(ENCRYPTION_MODES))}."
        )
    if request.encryption != "none" and not location.passphrase:
        # The environment would fill in random text, and the repository could never be opened again.
        raise InvalidRequest(f"A repository with encryption {request.encryption} needs a passphrase.")
    return (
        *("--log-json", "--lock-wait", str(lock_wait)),
        "init",
        f"--encryption={request.encryption}",
        *(("--make-parent-dirs",) if request.make_parent_dirs else ()),
        *("--", arguments.repository(location)),
    )
