"""`Result.details` and the items of `ResultPart`, by the kind of job. Each key may be left out; unknown ones are ignored.

The engine's own documents are sent as it printed them (`TZ=UTC`), so that the server reads them with the parser it has.
Any kind may carry `repository` (`{id}`, as the engine prints it): the id of another repository than the one that was meant
ends the job as failed.
"""

from typing import Any, TypedDict


class BackupDetails(TypedDict, total=False):
    """`backup.create`. Without `created`, the archive is known by `archive` (found by its comment) and `stats`."""

    created: dict[str, Any]
    """All that `create --json` printed."""
    archive: dict[str, Any]
    """`id`, `name`, `start`, `end` of the archive whose comment carries the job's key."""
    storage: dict[str, int]
    """`free_bytes` and `total_bytes` where the repository is stored, if that is a folder of the machine; on failure, too."""


class RepositoryDetails(TypedDict, total=False):
    """`repository.init` and `archives.list`. The archives of a list are the items of the parts.

    An item is an object of the `archives` of `list --json`, unchanged. An empty list is one part without items: without
    any part the server takes the list for one that was cut short, and changes nothing.
    """

    info: dict[str, Any]
    """All that `info --json` of the repository printed."""


class CheckDetails(TypedDict, total=False):
    problems: list[str]
    """At most 1,000; `problem_count` counts them all."""
    problem_count: int
    verdicts: list[str]


class PruneDetails(TypedDict, total=False):
    """Each archive is `{archive, id, time, rule?}`, time in ISO 8601. On failure or cancel: what is gone by evidence."""

    keep: list[dict[str, Any]]
    prune: list[dict[str, Any]]


class CompactDetails(TypedDict, total=False):
    freed_bytes: int | None


class DeleteDetails(TypedDict, total=False):
    """`deleted`: the engine ids of the archives that are gone, by evidence also on failure or cancel."""

    deleted: list[str]


class RestoreDetails(TypedDict, total=False):
    """Counts; lists hold `{path, path_b64?, reason}`, at most 1,000 each."""

    files_restored: int
    bytes_restored: int
    files_skipped: int
    bytes_skipped: int
    files_failed: int
    """Also what the engine did not extract, though the archive's listing names it."""
    bytes_failed: int
    special_files: int
    """FIFOs and devices, which are never restored."""
    skipped: list[dict[str, Any]]
    failed: list[dict[str, Any]]
    conflicts: list[dict[str, Any]]
    conflict_count: int
    dry_run: bool
    files: int
    bytes: int


class ScriptDetails(TypedDict, total=False):
    """`script.run`, on failure, too: the script's own exit code, or the number of the signal that ended it."""

    exit_code: int | None
    signal: int | None
