"""Validate values for a command line and write them so that the engine takes them literally."""

import re
from collections.abc import Callable, Mapping

from backup_engine.requests import ExportTarRequest, ExtractRequest, InvalidRequest, RepositoryLocation

CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
LOCAL_REPOSITORY = re.compile(r"(?:file://)?/(?!/).*", re.DOTALL)
SSH_HOST = r"(?:[^@:/\s-][^@:/\s]*@)?(?:\[[0-9a-fA-F:.]+\]|[^@:/\[\]\s-][^@:/\[\]\s]*)"
REMOTE_REPOSITORY = re.compile(rf"ssh://{SSH_HOST}(?::\d{{1,5}})?/.+|{SSH_HOST}:(?!:|//).+", re.DOTALL)
REMOTE_PROGRAM = re.compile(r"[A-Za-z0-9_./~+][A-Za-z0-9_./~+-]*")
PLACEHOLDER = re.compile(
    r"\{(?:(?:now|utcnow)(?::[^{}]*)?|hostname|fqdn|reverse-fqdn|user|pid|uuid4|borgversion|borgmajor|borgminor|borgpatch)\}"
)
PATTERN_STYLE = re.compile(r"(?P<style>[A-Za-z0-9]{2}):(?P<rest>.*)", re.DOTALL)
PATTERN_STYLES = frozenset({"fm", "sh", "re", "pp", "pf"})
LONGEST_ARCHIVE_NAME = 255

LEVELS: Mapping[str, range] = {"zstd": range(1, 23), "zlib": range(10), "lzma": range(10)}
COMPRESSION = re.compile(
    r"(?:obfuscate,(?P<obfuscate>\d{1,3}),)?(?P<auto>auto,)?(?P<name>none|lz4|zstd|zlib|lzma)(?:,(?P<level>\d{1,2}))?"
)


def literal(text: str) -> str:
    """Escape text for an argument in which the engine would replace ``{placeholders}``."""
    return text.replace("{", "{{").replace("}", "}}")


def repository(location: RepositoryLocation) -> str:
    """Return the repository argument. Raise InvalidRequest for a location that the engine would misread."""
    path = location.path
    if not path or CONTROL_CHARACTER.search(path):
        raise InvalidRequest("The repository path is empty or contains a control character.")
    if "::" in path:
        raise InvalidRequest(f"The repository path {path!r} contains '::', which separates repository and archive.")
    if "{" in path or "}" in path:
        # Some commands replace placeholders in the path once, others twice, so no escaping is right for all.
        raise InvalidRequest(
            f"The repository path {path!r} contains a brace, which the engine would treat as a placeholder."
        )
    if not (LOCAL_REPOSITORY.fullmatch(path) or REMOTE_REPOSITORY.fullmatch(path)):
        raise InvalidRequest(f"The repository path {path!r} is neither an absolute path nor ssh://user@host/path.")
    if location.remote_path is not None and not REMOTE_PROGRAM.fullmatch(location.remote_path):
        raise InvalidRequest(f"The remote engine path {location.remote_path!r} contains unusual characters.")
    return path


def archive(location: RepositoryLocation, name: str) -> str:
    """Return the repository-and-archive argument for an existing archive."""
    return f"{repository(location)}::{literal(existing_archive_name(name))}"


def new_archive(location: RepositoryLocation, name: str) -> str:
    """Return the repository-and-archive argument for a new archive. Placeholders in the name are supported."""
    _check_new_name(name)
    if re.search(r"[{}]", PLACEHOLDER.sub("", name)):
        raise InvalidRequest(f"The archive name {name!r} contains a placeholder that the engine does not support.")
    return f"{repository(location)}::{name}"


def existing_archive_name(name: str) -> str:
    if not name or "/" in name or CONTROL_CHARACTER.search(name):
        raise InvalidRequest(f"{name!r} cannot be the name of an archive.")
    return name


def _check_new_name(name: str) -> None:
    existing_archive_name(name)
    if name.startswith("-") or "::" in name or name != name.strip() or len(name) > LONGEST_ARCHIVE_NAME:
        raise InvalidRequest(
            f"The archive name {name!r} must not start with '-', contain '::', start or end with a space,"
            f" or be longer than {LONGEST_ARCHIVE_NAME} characters."
        )
    if name.endswith(".checkpoint") or re.search(r"\.checkpoint\.\d+$", name):
        raise InvalidRequest(f"The archive name {name!r} would be mistaken for a checkpoint and hidden.")


def source_path(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise InvalidRequest(f"The source path {path!r} is not absolute.")
    return path


def archived_path(path: str) -> str:
    """The pattern that selects an exact path inside an archive and everything below it."""
    return "pp:" + _inside_an_archive(path)


def single_item(path: str) -> str:
    """The pattern that selects only an exact path inside an archive."""
    return "pf:" + _inside_an_archive(path)


def _inside_an_archive(path: str) -> str:
    parts = path.strip("/").split("/")
    if "\0" in path or not path.strip("/") or any(part in {"", ".", ".."} for part in parts):
        raise InvalidRequest(f"{path!r} is not a path inside an archive.")
    return "/".join(parts)


def exclusions(request: ExtractRequest | ExportTarRequest) -> tuple[str, ...]:
    """Options that exclude parts of an archive and strip leading folders from its paths."""
    return (
        *(f"--exclude={archived_path(path)}" for path in request.excluded_trees),
        *(f"--exclude={single_item(path)}" for path in request.excluded_paths),
        *number("--strip-components", "strip_components", request.strip_components or None),
    )


def wanted(request: ExtractRequest | ExportTarRequest) -> tuple[str, ...]:
    """Arguments that select parts of an archive; none select all of it."""
    return (
        *(archived_path(path) for path in request.paths),
        *(pattern(text) for text in request.patterns),
    )


def pattern(text: str) -> str:
    """Validate an include or exclude pattern. Raise InvalidRequest if the engine would reject it."""
    if not text or CONTROL_CHARACTER.search(text):
        raise InvalidRequest("A pattern is empty or contains a control character.")
    styled = PATTERN_STYLE.fullmatch(text)
    if styled is None:
        return text
    if styled["style"] not in PATTERN_STYLES:
        raise InvalidRequest(f"The pattern {text!r} has an unknown style; use one of fm:, sh:, re:, pp:, pf:.")
    if styled["style"] == "re":
        _compile(text, styled["rest"])
    return text


def _compile(text: str, expression: str) -> None:
    try:
        re.compile(expression)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidRequest(f"The pattern {text!r} is not a valid regular expression: {error}.") from error


def compression(specification: str) -> str:
    match = COMPRESSION.fullmatch(specification)
    if match is None:
        raise InvalidRequest(
            f"{specification!r} is not a valid compression; examples: none, lz4, zstd,3, auto,zstd,10."
        )
    level, name = match["level"], match["name"]
    if level is not None and int(level) not in LEVELS.get(name, range(0)):
        raise InvalidRequest(f"{specification!r} has a level that {name} does not support.")
    return specification


def natural(name: str, number: int, *, least: int = 0, most: int = 2**31 - 1) -> str:
    if isinstance(number, bool) or not least <= number <= most:
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}, not {number!r}.")
    return str(number)


def number(option: str, name: str, value: int | None, *, least: int = 0, most: int = 2**31 - 1) -> tuple[str, ...]:
    """An option with a number, or nothing if the value is None."""
    return () if value is None else (f"{option}={natural(name, value, least=least, most=most)}",)


def _chunker_parameters(value: str) -> bool:
    return bool(re.fullmatch(r"(?:buzhash,)?\d{1,2},\d{1,2},\d{1,2},\d{1,5}|fixed,\d{1,9}(?:,\d{1,9})?|default", value))


def _files_cache_mode(value: str) -> bool:
    words = value.split(",")
    known = {"ctime", "mtime", "size", "inode", "rechunk", "disabled"}
    return len(words) == len(set(words)) and set(words) <= known


def _tag_name(value: str) -> bool:
    return bool(value) and "/" not in value and not CONTROL_CHARACTER.search(value) and not value.startswith("-")


def _files_changed_mode(value: str) -> bool:
    return value in {"ctime", "mtime", "disabled"}


CUSTOM_FLAGS: Mapping[str, Callable[[str], bool] | None] = {
    "--one-file-system": None,
    "-x": None,
    "--exclude-caches": None,
    "--exclude-if-present": _tag_name,
    "--keep-exclude-tags": None,
    "--exclude-nodump": None,
    "--numeric-ids": None,
    "--noatime": None,
    "--atime": None,
    "--noctime": None,
    "--nobirthtime": None,
    "--noflags": None,
    "--noacls": None,
    "--noxattrs": None,
    "--sparse": None,
    "--read-special": None,
    "--files-cache": _files_cache_mode,
    "--files-changed": _files_changed_mode,
    "--chunker-params": _chunker_parameters,
}
"""Flags of ``create`` that a user may add, each with the check of its value, or None if it takes no value."""


def custom_flags(
    flags: tuple[str, ...], allowed: Mapping[str, Callable[[str], bool] | None] = CUSTOM_FLAGS
) -> tuple[str, ...]:
    """Normalise flags as written by a user (``--flag``, ``--flag value``, ``--flag=value``) to one word each.

    Raise InvalidRequest for a flag outside the table or an invalid value.
    """
    accepted: list[str] = []
    remaining = list(flags)
    while remaining:
        name, given, value = remaining.pop(0).partition("=")
        if name not in allowed:
            raise InvalidRequest(f"The flag {name!r} is not allowed; allowed flags: {', '.join(sorted(allowed))}.")
        valid = allowed[name]
        if valid is None:
            if given:
                raise InvalidRequest(f"The flag {name} takes no value.")
            accepted.append(name)
            continue
        if not given:
            value = remaining.pop(0) if remaining else ""
        if not valid(value):
            raise InvalidRequest(f"The flag {name} does not accept the value {value!r}.")
        accepted.append(f"{name}={value}")
    return tuple(accepted)
