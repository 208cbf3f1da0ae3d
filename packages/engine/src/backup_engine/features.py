"""What a version of the engine can do: one row for each difference that decides behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from backup_engine.detect import EngineProgram


@dataclass(frozen=True, slots=True)
class Features:
    """Named abilities of one engine program."""

    modern_exit_codes: bool
    """A specific exit code for each error and warning, when BORG_EXIT_CODES=modern."""
    warning_message_ids: bool
    """Warnings about a path carry a message id; without it their text has to be read."""
    archive_authentication_key: bool
    """``list`` tells how an archive is authenticated (``tam``)."""
    keep_quarterly: bool
    """``prune`` knows --keep-3monthly and --keep-13weekly."""
    files_changed_option: bool
    """``create`` knows --files-changed."""
    exclude_dataless_option: bool
    """``create`` knows --exclude-dataless."""


SINCE: Mapping[str, tuple[int, ...]] = {
    "modern_exit_codes": (1, 4, 0),
    "warning_message_ids": (1, 4, 0),
    "archive_authentication_key": (1, 4, 0),
    "keep_quarterly": (1, 4, 1),
    "files_changed_option": (1, 4, 0),
    "exclude_dataless_option": (1, 4, 4),
}


def features(program: EngineProgram) -> Features:
    """Given an engine program, return what it can do."""
    return Features(**{field.name: program.version_tuple >= SINCE[field.name] for field in fields(Features)})
