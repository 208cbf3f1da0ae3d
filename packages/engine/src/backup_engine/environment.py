"""The environment of engine runs: complete, never inherited."""

import secrets
from collections.abc import Mapping

from backup_engine.command import Secret
from backup_engine.frozen import frozen
from backup_engine.requests import InvalidRequest, RepositoryLocation

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
UNATTENDED_SSH = "ssh -oBatchMode=yes -oServerAliveInterval=10 -oServerAliveCountMax=30"


@frozen
class EngineEnvironment:
    """Folder of the engine's cache, keys and security records, and the name under which the engine takes locks.

    Neither may change during the life of an installation. A lost cache is rebuilt slowly, without what the engine knew
    about relocated repositories; with a different host id, the locks of killed engines stay in place.
    """

    base_directory: str
    host_id: str

    def variables(self, location: RepositoryLocation, *, quick: bool = False) -> dict[str, str]:
        """All variables of a run on a repository except secrets. ``quick`` skips the engine's self-test."""
        return {
            "PATH": SEARCH_PATH,
            "HOME": self.base_directory,
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "BORG_BASE_DIR": self.base_directory,
            "BORG_HOST_ID": self.host_id,
            "BORG_EXIT_CODES": "modern",
            "BORG_DISPLAY_PASSPHRASE": "no",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": _yes_or_no(location.relocated_ok),
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": _yes_or_no(location.unencrypted_ok),
            "BORG_CHECK_I_KNOW_WHAT_I_AM_DOING": "NO",
            "BORG_DELETE_I_KNOW_WHAT_I_AM_DOING": "NO",
            "BORG_RSH": location.rsh or UNATTENDED_SSH,
            **({"BORG_REMOTE_PATH": location.remote_path} if location.remote_path else {}),
            **({"BORG_SELFTEST": "disabled"} if quick else {}),
            **(location.rclone.variables if location.rclone else {}),
        }


def location_secrets(location: RepositoryLocation) -> Mapping[str, Secret]:
    """All secrets needed to open a repository."""
    given = location.rclone.secrets if location.rclone else {}
    return {
        **passphrase_secrets(location),
        **{name: Secret(value, "environment") for name, value in given.items()},
    }


def passphrase_secrets(location: RepositoryLocation) -> Mapping[str, Secret]:
    """A repository's passphrase in the form that the engine expects.

    There always is one, because the engine would otherwise prompt on a terminal. A repository without a passphrase gets
    random text: if it is encrypted, the engine reports a wrong passphrase; if it is not, the engine ignores the text.
    """
    passphrase = secrets.token_urlsafe(24) if location.passphrase is None else location.passphrase
    if "\0" in passphrase or not _is_text(passphrase):
        raise InvalidRequest("The passphrase contains a character that the engine does not support.")
    if "\r" in passphrase or passphrase.endswith("\n"):
        # When the engine reads from a descriptor, it changes carriage returns and drops trailing line ends.
        return {"BORG_PASSPHRASE": Secret(passphrase, "environment")}
    return {"BORG_PASSPHRASE_FD": Secret(passphrase, "descriptor")}


def _is_text(passphrase: str) -> bool:
    try:
        passphrase.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _yes_or_no(confirmed: bool) -> str:
    return "yes" if confirmed else "no"
