"""The features of each engine version: one field for each difference that affects behaviour."""

from collections.abc import Mapping
from typing import Any

from backup_engine.detect import EngineProgram, EngineUnsupported
from backup_engine.frozen import frozen


@frozen
class Features:
    """Features of one engine program. The defaults are those of the oldest supported version."""

    modern_exit_codes: bool = False
    """Specific exit codes for each error and warning with BORG_EXIT_CODES=modern."""
    warning_message_ids: bool = False
    """Warnings about a path carry a message id; otherwise their text must be parsed."""
    archive_authentication_key: bool = False
    """``list`` reports how an archive is authenticated (``tam``)."""
    keep_quarterly: bool = False
    """``prune`` supports --keep-3monthly and --keep-13weekly."""
    files_changed_option: bool = False
    """``create`` supports --files-changed."""
    exclude_dataless_option: bool = False
    """``create`` supports --exclude-dataless."""
    unique_names: bool = True
    """Archive names are unique within a repository; otherwise an archive is addressed by its id."""
    soft_delete: bool = False
    """A deleted archive can be restored until the next compact."""
    deletes_many: bool = True
    """One run can delete several archives."""
    marks_extracted: bool = False
    """``extract --list`` lists every entry of the archive, with a sign that shows whether it is extracted."""
    refused_in_names: str = ""
    """Characters not allowed in archive names, in addition to those that no engine allows."""


SINCE: Mapping[str, tuple[int, ...]] = {
    "modern_exit_codes": (1, 4, 0),
    "warning_message_ids": (1, 4, 0),
    "archive_authentication_key": (1, 4, 0),
    "keep_quarterly": (1, 4, 1),
    "files_changed_option": (1, 4, 0),
    "exclude_dataless_option": (1, 4, 4),
}
"""The version of major 1 that introduced each feature; all other features are the same in every version of it."""

REFUSED_IN_NAMES = '\\"<|>?*'
BETAS: Mapping[str, Features] = {
    "2.0.0b23": Features(
        modern_exit_codes=True,
        warning_message_ids=True,
        archive_authentication_key=False,
        keep_quarterly=True,
        files_changed_option=True,
        exclude_dataless_option=True,
        unique_names=False,
        soft_delete=True,
        deletes_many=False,
        marks_extracted=True,
        refused_in_names=REFUSED_IN_NAMES,
    ),
}
"""The betas of major 2, each separately: commands and repositories differ between betas."""


def features(program: EngineProgram) -> Features:
    """Return the features of an engine program. Raise EngineUnsupported for an unknown beta."""
    if program.major == 1:
        known: dict[str, Any] = {name: program.version_tuple >= since for name, since in SINCE.items()}
        return Features(**known)
    if program.version not in BETAS:
        raise EngineUnsupported(
            f"BorgBackup {program.version} is not supported: its betas do not read each other's repositories."
            f" Install {' or '.join(BETAS)} beside it, and set HOLDFAST_BORG2 to its program."
        )
    return BETAS[program.version]
