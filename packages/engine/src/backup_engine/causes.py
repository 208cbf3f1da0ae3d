"""Causes of engine failures: the key of each, how it is recognised, and the sentence for users."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from backup_engine import repository_guard, shim
from backup_engine.rclone import OTHER, TABLE

SSH_FAILED = 255

FAILED = "engine.failed"
DAMAGED = "engine.damaged"
DAMAGE_FOUND = "engine.damage_found"
DAMAGE_LEFT = "engine.damage_left"
UNREACHABLE = "engine.unreachable"
KEY_REFUSED = "ssh.key_refused"
BODY_REFUSED = "agents.body_refused"
HOST_KEY_CHANGED = "ssh.host_key_changed"
ARCHIVE_MISSING = "engine.archive_missing"
UNENCRYPTED_UNKNOWN = "engine.unencrypted_unknown"
LOCKED = "engine.locked"
OLDER = "engine.repository_older"
REPLACED = "repository.replaced"
TOO_MUCH_OUTPUT = "engine.result_too_large"
PYTHON_MISSING = "ssh.python_missing"

KEY_BY_MESSAGE_ID: Mapping[str, str] = {
    "Repository.DoesNotExist": "engine.repository_missing",
    "Repository.InvalidRepository": "engine.not_a_repository",
    "Repository.InvalidRepositoryConfig": DAMAGED,
    "Repository.AtticRepository": "engine.unsupported",
    "Repository.AlreadyExists": "engine.repository_exists",
    "Repository.PathAlreadyExists": "engine.repository_exists",
    "Repository.ParentPathDoesNotExist": "engine.repository_missing",
    "Repository.PathPermissionDenied": "engine.permission_denied",
    "Repository.CheckNeeded": DAMAGED,
    "Repository.ObjectNotFound": DAMAGED,
    "Repository.StorageQuotaExceeded": "engine.disk_full",
    "Repository.InsufficientFreeSpaceError": "engine.disk_full",
    "IntegrityError": DAMAGED,
    "FileIntegrityError": DAMAGED,
    "DecompressionError": DAMAGED,
    "TAMRequiredError": DAMAGED,
    "ArchiveTAMRequiredError": DAMAGED,
    "TAMInvalid": DAMAGED,
    "ArchiveTAMInvalid": DAMAGED,
    "NoManifestError": DAMAGED,
    "MandatoryFeatureUnsupported": "engine.unsupported",
    "UnsupportedManifestError": "engine.unsupported",
    "UnsupportedPayloadError": "engine.unsupported",
    "TAMUnsupportedSuiteError": "engine.unsupported",
    "RPCServerOutdated": "engine.unsupported",
    "Archive.AlreadyExists": "engine.archive_exists",
    "Archive.DoesNotExist": ARCHIVE_MISSING,
    "PassphraseWrong": "engine.passphrase_wrong",
    "PasswordRetriesExceeded": "engine.passphrase_wrong",
    "NoPassphraseFailure": "engine.passphrase_missing",
    "PasscommandFailure": "engine.passphrase_missing",
    "KeyfileNotFoundError": "engine.passphrase_missing",
    "RepoKeyNotFoundError": "engine.passphrase_missing",
    "KeyfileMismatchError": "engine.passphrase_wrong",
    "KeyfileInvalidError": "engine.passphrase_wrong",
    "LockTimeout": "engine.locked",
    "Cache.RepositoryAccessAborted": "engine.repository_relocated",
    "Cache.RepositoryReplay": OLDER,
    "Cache.RepositoryIDNotUnique": OLDER,
    "Cache.CacheInitAbortedError": UNENCRYPTED_UNKNOWN,
    "Cache.EncryptionMethodMismatch": UNENCRYPTED_UNKNOWN,
    "RepositoryAccessAborted": "engine.repository_relocated",
    "RepositoryReplay": OLDER,
    "RepositoryIDNotUnique": OLDER,
    "CacheInitAbortedError": UNENCRYPTED_UNKNOWN,
    "EncryptionMethodMismatch": UNENCRYPTED_UNKNOWN,
    "PathNotAllowed": "engine.permission_denied",
    repository_guard.REPLACED: REPLACED,
    shim.TOO_MUCH_OUTPUT: TOO_MUCH_OUTPUT,
    "Guard.PythonMissing": PYTHON_MISSING,
}
"""Stable message ids of the engine. They are checked first, as version 1.2 has no exit codes for most of them."""

Source = Literal["error", "warning", "remote"]

RCLONE_FAILED = r"rclone rc command failed: error \d+: "
"""Prefix with which major 2 logs the output of its rclone, which is JSON."""
RCLONE_GONE = r"HTTPConnectionPool\(host='127\.0\.0\.1'|ChunkedEncodingError: "
"""What major 2 logs when its rclone does not respond or breaks off."""

KEY_BY_TEXT: Sequence[tuple[re.Pattern[str], frozenset[Source], str]] = (
    (re.compile(r"refuses large request bodies \(HTTP 413"), frozenset({"remote"}), BODY_REFUSED),
    (re.compile(r"\[Errno (?:28|122)\]|No space left on device"), frozenset({"error", "warning"}), "engine.disk_full"),
    (re.compile(r"No space left on device|Disk quota exceeded"), frozenset({"remote"}), "engine.disk_full"),
    (
        re.compile(r"borg\S*: (?:command )?not found|borg\S*: No such file"),
        frozenset({"remote"}),
        "engine.not_installed",
    ),
    (
        re.compile(r"IDENTIFICATION HAS CHANGED|No \S+ host key is known for holdfast-\d+ "),
        frozenset({"remote"}),
        HOST_KEY_CHANGED,
    ),
    (
        re.compile(r"Permission denied \([a-z,-]+\)|Too many authentication failures"),
        frozenset({"remote"}),
        KEY_REFUSED,
    ),
    (re.compile(r"Host key verification failed"), frozenset({"remote"}), UNREACHABLE),
    # A segment listed in the repository's index is missing.
    (re.compile(r"FileNotFoundError: \[Errno 2\][^\n]*/data/\d+/\d+'"), frozenset({"error"}), DAMAGED),
    (re.compile(r"\[Errno (?:1|13|30)\]"), frozenset({"error"}), "engine.permission_denied"),
    (
        re.compile(r"repository check, errors found\.|check complete, problems found\."),
        frozenset({"error"}),
        DAMAGE_FOUND,
    ),
    # From a repair by major 2, which continues with the archives and exits with 0.
    (re.compile(r"repository check, corrupt pack\(s\) found\."), frozenset({"warning"}), DAMAGE_LEFT),
    (re.compile(r"Archive .+ not found \(\d+/\d+\)\."), frozenset({"warning"}), ARCHIVE_MISSING),
    # From major 2, for an id that no archive has, or a name that none or several have.
    (re.compile(r"match precisely one archive"), frozenset({"error"}), ARCHIVE_MISSING),
    *(
        (
            re.compile(rf'{RCLONE_FAILED}\{{\s*"error": "(?:[^"\\]|\\.)*?(?:{"|".join(signs)})', re.IGNORECASE),
            frozenset[Source]({"error"}),
            trouble.key,
        )
        for trouble, signs in TABLE
    ),
    (re.compile(rf"{RCLONE_FAILED}|{RCLONE_GONE}"), frozenset({"error"}), OTHER.key),
)
"""Failures without a message id, recognised by their text: in errors, in warnings, or from ssh and the far side."""

KEY_BY_GENERAL_MESSAGE_ID: Mapping[str, str] = {
    "LockError": "engine.locked",
    "LockErrorT": "engine.locked",
    "LockFailed": "engine.locked",
    "NotLocked": "engine.locked",
    "NotMyLock": "engine.locked",
    "ConnectionClosed": UNREACHABLE,
    "ConnectionClosedWithHint": UNREACHABLE,
    "ConnectionBrokenWithHint": UNREACHABLE,
}
"""Message ids with several possible causes; the text is checked first."""

KEY_BY_EXIT_CODE: Mapping[int, str] = {
    10: "engine.repository_exists",
    11: "engine.unsupported",
    12: DAMAGED,
    13: "engine.repository_missing",
    14: "engine.disk_full",
    15: "engine.not_a_repository",
    16: DAMAGED,
    17: DAMAGED,
    18: "engine.repository_missing",
    19: "engine.repository_exists",
    20: "engine.disk_full",
    21: "engine.permission_denied",
    25: "engine.unsupported",
    26: DAMAGED,
    27: "engine.unsupported",
    30: "engine.archive_exists",
    31: ARCHIVE_MISSING,
    40: "engine.passphrase_wrong",
    41: "engine.passphrase_wrong",
    42: "engine.passphrase_missing",
    44: "engine.passphrase_missing",
    48: "engine.unsupported",
    50: "engine.passphrase_missing",
    51: "engine.passphrase_missing",
    52: "engine.passphrase_wrong",
    53: "engine.passphrase_wrong",
    60: UNENCRYPTED_UNKNOWN,
    61: UNENCRYPTED_UNKNOWN,
    62: "engine.repository_relocated",
    63: OLDER,
    64: OLDER,
    70: "engine.locked",
    71: "engine.locked",
    72: "engine.locked",
    73: "engine.locked",
    74: "engine.locked",
    75: "engine.locked",
    80: UNREACHABLE,
    81: UNREACHABLE,
    83: "engine.permission_denied",
    84: "engine.unsupported",
    87: UNREACHABLE,
    90: DAMAGED,
    91: DAMAGED,
    92: DAMAGED,
    95: DAMAGED,
    96: DAMAGED,
    97: DAMAGED,
    98: DAMAGED,
    99: "engine.unsupported",
    SSH_FAILED: UNREACHABLE,
}

ARCHIVES_UNREADABLE = frozenset({FAILED, DAMAGED})
"""Results of an engine that reads all archives and cannot read one of them. Names and ids may still be readable."""

SENTENCES: Mapping[str, str] = {
    "engine.source_missing": "None of the source paths exist; correct them, or mount what is missing.",
    "engine.disk_full": "No space is left for the repository or the engine's cache; free up space, or prune and "
    "compact.",
    "engine.not_installed": "The engine is not installed on the machine that should run it; install BorgBackup 1.2 or "
    "newer there.",
    "engine.unsupported": "This version of the engine cannot open the repository; install a newer BorgBackup.",
    "engine.archive_exists": "An archive with this name exists already; choose another archive name.",
    "engine.passphrase_wrong": "The passphrase does not open this repository; enter the correct one in its settings.",
    "engine.passphrase_missing": "The repository's passphrase or key is missing; enter it in the repository's "
    "settings.",
    "engine.locked": "Another program is using the repository; try again once it has finished, or break the lock if "
    "nothing is using it.",
    "engine.permission_denied": "The engine is not allowed to read or write the repository; correct the permissions of "
    "its folder.",
    "engine.repository_missing": "There is no repository at this path; correct the path, mount it, or create it.",
    "engine.not_a_repository": "The files at this path are not a repository for this engine; correct the path.",
    "engine.repository_exists": "Something already exists at this path; import the repository, or choose another path.",
    "engine.repository_relocated": "The repository was previously at another location; confirm that it was moved on "
    "purpose.",
    OLDER: "The repository is older than when it was last used, as if an older copy had been restored; if that is "
    "intended, confirm it with confirm-older, which also lists the missing archives.",
    REPLACED: "A different repository is at this location; nothing was read or written. Put the right one back, "
    "correct the path, or accept this one with accept-replacement.",
    TOO_MUCH_OUTPUT: "The engine wrote more output than allowed and was stopped; its output was discarded."
    " Inspect the repository with the engine itself: it has far too many archives, or is malicious.",
    UNREACHABLE: "The repository's host cannot be reached, or has no engine; check the address, ssh, the key and borg "
    "there.",
    PYTHON_MISSING: "A dry run of an older state needs Python 3.9 or newer on the machine; nothing was changed."
    " Install Python there, or confirm the older state without a dry run.",
    KEY_REFUSED: "The repository's host does not accept the key for this user; deploy the key there, or correct the "
    "user.",
    BODY_REFUSED: (
        "A proxy in front of the service refuses large request bodies (HTTP 413); raise its limit (nginx: "
        "client_max_body_size 0 and proxy_request_buffering off)."
    ),
    HOST_KEY_CHANGED: "The repository's host key does not match the pinned one; find out why before accepting it.",
    DAMAGED: "The repository is damaged; run a check, and copy the repository before repairing it.",
    DAMAGE_FOUND: "The check found damage; copy the repository, then run a check with repair.",
    DAMAGE_LEFT: "The repository still contains damaged data; run a check with repair and verify_data to remove it.",
    ARCHIVE_MISSING: "The archive is no longer in the repository; refresh the archive list.",
    UNENCRYPTED_UNKNOWN: "The repository is not encrypted and has not been used before; confirm that this is intended.",
    FAILED: "The engine failed without a message; try again, and check the machine's system log.",
    **{trouble.key: trouble.sentence for trouble, _ in TABLE},
    OTHER.key: OTHER.sentence,
}

PUBLISHED_AS: Mapping[str, str] = {
    DAMAGE_FOUND: DAMAGED,
    DAMAGE_LEFT: DAMAGED,
    ARCHIVE_MISSING: FAILED,
    UNENCRYPTED_UNKNOWN: FAILED,
}
"""Causes that are published under a more general key. Each still has its own sentence."""
