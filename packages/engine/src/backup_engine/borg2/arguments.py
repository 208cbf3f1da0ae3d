"""Validate values for a command line of major 2 and write them so that the engine takes them literally.

Functions of major 1 check the values that have the same form in both majors.
"""

import re
from collections.abc import Callable, Mapping

from backup_engine.borg1 import arguments as borg1
from backup_engine.borg1.arguments import (
    archived_path,
    compression,
    exclusions,
    literal,
    natural,
    number,
    pattern,
    single_item,
    source_path,
    wanted,
)
from backup_engine.detect import EngineUnsupported
from backup_engine.features import REFUSED_IN_NAMES
from backup_engine.requests import InvalidRequest, RepositoryLocation

__all__ = (
    "archived_path",
    "compression",
    "exclusions",
    "literal",
    "natural",
    "number",
    "pattern",
    "single_item",
    "source_path",
    "wanted",
)

ADDRESS = re.compile(r"aid:[0-9a-f]{64}")
"""The unambiguous form of an archive's address; several archives may share a name."""
LONGEST_ARCHIVE_NAME = 200
RCLONE = "rclone:"
RCLONE_REPOSITORY = re.compile(r"rclone:[A-Za-z0-9][A-Za-z0-9_.-]*:/?[\w.,@+=~-](?:[\w.,@+=~/ -]*[\w.,@+=~-])?")


def common(location: RepositoryLocation, lock_wait: int, *flags: str) -> tuple[str, ...]:
    """Arguments before every command: the log format, the time to wait for a lock, and the repository."""
    return ("--log-json", *flags, "--lock-wait", str(lock_wait), "-r", repository(location))


def repository(location: RepositoryLocation) -> str:
    """Return the repository argument. Raise InvalidRequest or EngineUnsupported."""
    if location.path.startswith(RCLONE):
        return _on_remote(location.path)
    path = borg1.repository(location)
    if not borg1.LOCAL_REPOSITORY.fullmatch(path):
        raise EngineUnsupported(
            "BorgBackup 2 is supported only for local repositories and rclone remotes; use an absolute path, or "
            "rclone:REMOTE:PATH."
        )
    return path


def _on_remote(address: str) -> str:
    if not RCLONE_REPOSITORY.fullmatch(address):
        raise InvalidRequest(
            f"The address {address!r} must be rclone:REMOTE:PATH, with a path of letters, digits, spaces and any of"
            " _ . , @ + = ~ - / alone: the engine makes it part of a URL."
        )
    return address


def archive(text: str) -> str:
    """Return the argument for an archive, given its address or a name that only one archive has."""
    if ADDRESS.fullmatch(text):
        return text
    return f"name:id:{literal(borg1.existing_archive_name(text))}"


def new_archive(name: str) -> str:
    """Validate the name of a new archive; placeholders are supported. Raise InvalidRequest."""
    _check_new_name(borg1.PLACEHOLDER.sub("now", name))
    return name


def _check_new_name(name: str) -> None:
    borg1.existing_archive_name(name)
    if name.startswith("-") or name != name.strip() or len(name) > LONGEST_ARCHIVE_NAME:
        raise InvalidRequest(
            f"The archive name {name!r} must not start with '-', start or end with a space,"
            f" or be longer than {LONGEST_ARCHIVE_NAME} characters."
        )
    if any(character in REFUSED_IN_NAMES or character in "{}" for character in name):
        refused = " ".join((*REFUSED_IN_NAMES, "{", "}"))
        raise InvalidRequest(f"The archive name {name!r} contains one of {refused}, which is not allowed.")


def _chunker_parameters(value: str) -> bool:
    number = r"\d{1,9}"
    return bool(re.fullmatch(rf"default|fixed,{number}(?:,{number})?|fastcdc(?:,{number}){{4}}", value))


FILES_CACHE_MODES = frozenset(
    frozenset(words.split(","))
    for words in (
        "ctime,size,inode",
        "mtime,size,inode",
        "ctime,size",
        "mtime,size",
        "rechunk,ctime",
        "rechunk,mtime",
        "disabled",
        "size",
    )
)


def _files_cache_mode(value: str) -> bool:
    return frozenset(value.split(",")) in FILES_CACHE_MODES


GONE = frozenset({"--exclude-nodump", "--noatime"})
"""Flags of major 1 that major 2 does not have."""
CUSTOM_FLAGS: Mapping[str, Callable[[str], bool] | None] = {
    **{flag: check for flag, check in borg1.CUSTOM_FLAGS.items() if flag not in GONE},
    "--files-cache": _files_cache_mode,
    "--chunker-params": _chunker_parameters,
}


def custom_flags(flags: tuple[str, ...]) -> tuple[str, ...]:
    return borg1.custom_flags(flags, CUSTOM_FLAGS)
