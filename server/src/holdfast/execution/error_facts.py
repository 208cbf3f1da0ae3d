"""The errors of engines, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "engine.archive_exists",
        ("operation",),
        "The repository has an archive with this name.",
        "Choose another archive name.",
        "The existing archive is untouched.",
    ),
    Fact(
        "engine.archive_missing",
        (
            404,
            "operation",
        ),
        "The archive is no longer in the repository.",
        "Refresh the list of archives.",
    ),
    Fact(
        "engine.damage_found",
        ("operation",),
        "The check found damage.",
        "Copy the repository, then check it with repair.",
        "The check changed nothing.",
    ),
    Fact(
        "engine.damage_left",
        ("operation",),
        "Damaged data is left in the repository.",
        "Check it with repair and `verify_data`, which removes that data.",
        "Undamaged data is kept.",
    ),
    Fact(
        "engine.damaged",
        (
            422,
            "operation",
        ),
        "The repository is damaged.",
        "Copy the repository, then run a check.",
        "The service changed nothing further.",
    ),
    Fact(
        "engine.disk_full",
        (
            422,
            "operation",
        ),
        "No space is left for the repository or the engine's cache.",
        "Free space, or prune and compact.",
        "Existing archives are kept.",
    ),
    Fact(
        "engine.failed",
        (
            422,
            "operation",
        ),
        "The engine failed.",
        "Read the operation's log; try again.",
        "Existing archives are kept; a check shows the state of the repository.",
    ),
    Fact("engine.interrupted", (503,), "The engine call was interrupted.", "Try again."),
    Fact(
        "engine.invalid_request",
        (
            422,
            "operation",
        ),
        "The engine does not support the request.",
        "Correct the request; the message names the value.",
    ),
    Fact(
        "engine.locked",
        (
            422,
            423,
            "operation",
        ),
        "Another program is using the repository.",
        "Try again when it has ended; break the lock if none is running.",
    ),
    Fact(
        "engine.not_a_repository",
        (
            422,
            "operation",
        ),
        "The files at this path are not a repository of this engine.",
        "Correct the path or the engine.",
    ),
    Fact(
        "engine.not_installed",
        (
            422,
            "operation",
        ),
        "The engine is not installed where it should run.",
        "Install BorgBackup 1.2 or newer there, or set its path.",
    ),
    Fact(
        "engine.passphrase_missing",
        (
            422,
            "operation",
        ),
        "The repository's passphrase or key is missing.",
        "Enter it in the repository's settings; for an agent, on its machine.",
    ),
    Fact(
        "engine.passphrase_wrong",
        (
            422,
            "operation",
        ),
        "The passphrase does not open the repository.",
        "Enter the right passphrase in the repository's settings.",
    ),
    Fact(
        "engine.permission_denied",
        (
            422,
            "operation",
        ),
        "The engine may not read or write the repository.",
        "Correct the permissions of its folder.",
    ),
    Fact(
        "engine.repository_exists",
        (
            422,
            "operation",
        ),
        "Something exists at this path already.",
        "Import the repository, or choose another path.",
        "The existing files are untouched.",
    ),
    Fact(
        "engine.repository_missing",
        (
            422,
            "operation",
        ),
        "There is no repository at this path.",
        "Correct the path, or mount or create the repository.",
    ),
    Fact(
        "engine.repository_older",
        (
            422,
            "operation",
        ),
        "The repository is older than when it was last used, as if an older copy had been put back.",
        "If that is intended, confirm it with confirm-older; it lists the missing archives.",
        "Nothing was written.",
    ),
    Fact(
        "engine.repository_relocated",
        (
            422,
            "operation",
        ),
        "The repository was at another place before.",
        "Confirm that it was moved on purpose.",
        "Nothing was written.",
    ),
    Fact(
        "engine.result_too_large",
        (409, "operation"),
        "The engine wrote more output than allowed and was stopped.",
        "Inspect the repository with the engine itself: it has far too many archives, or is malicious.",
        "Its output was discarded.",
    ),
    Fact("engine.silent", (503,), "The engine produced no output for too long.", "Try again."),
    Fact(
        "engine.source_missing",
        ("operation",),
        "None of the source paths exists.",
        "Correct the source paths, or mount what is missing.",
        "No archive was made.",
    ),
    Fact(
        "engine.unencrypted_unknown",
        (
            422,
            "operation",
        ),
        "The repository is not encrypted and was not known before.",
        "Confirm that this is intended.",
        "Nothing was sent to it.",
    ),
    Fact(
        "engine.unreachable",
        (
            422,
            503,
            "operation",
        ),
        "The repository's host cannot be reached, or has no engine.",
        "Check its address, ssh, the key, and borg there.",
    ),
    Fact(
        "engine.unsupported",
        (
            422,
            "operation",
        ),
        "This version of the engine cannot be used here.",
        "Install the version that the message names.",
    ),
)
