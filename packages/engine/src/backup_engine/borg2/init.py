"""``borg repo-create``: create a repository. The engine creates missing parent folders."""

from collections.abc import Mapping

from backup_engine.borg1.init import check_mode
from backup_engine.borg2 import arguments
from backup_engine.requests import InitRequest, RepositoryLocation

CIPHERS = ("aes256-ocb", "chacha20-poly1305")
ENCRYPTION_MODES: Mapping[str, tuple[str, ...]] = {
    **{cipher: (cipher, "--id-hash=sha256", "--key-location=repokey") for cipher in CIPHERS},
    **{f"{cipher}-blake3": (cipher, "--id-hash=blake3", "--key-location=repokey") for cipher in CIPHERS},
    **{f"keyfile-{cipher}": (cipher, "--id-hash=sha256", "--key-location=keyfile") for cipher in CIPHERS},
    **{f"keyfile-{cipher}-blake3": (cipher, "--id-hash=blake3", "--key-location=keyfile") for cipher in CIPHERS},
    "authenticated-sha256": ("authenticated-sha256", "--key-location=repokey"),
    "authenticated-blake3": ("authenticated-blake3", "--key-location=repokey"),
    "none": ("none-sha256",),
}
"""The engine's options for each encryption mode of the product: cipher, hash of chunk ids, and location of the key."""


def command(location: RepositoryLocation, request: InitRequest, lock_wait: int) -> tuple[str, ...]:
    """Raise InvalidRequest for an unknown mode, or if an encrypted repository has no passphrase."""
    check_mode(location, request.encryption, ENCRYPTION_MODES, "an encryption mode of BorgBackup 2")
    mode, *options = ENCRYPTION_MODES[request.encryption]
    return (*arguments.common(location, lock_wait), "repo-create", f"--encryption={mode}", *options)
