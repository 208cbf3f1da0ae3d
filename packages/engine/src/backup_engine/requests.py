"""Requests to an engine, as values that know nothing of its command line."""

from collections.abc import Mapping
from dataclasses import field, fields

from backup_engine.command import CalledAgent, Machine, Older
from backup_engine.frozen import frozen


class InvalidRequest(ValueError):
    """The request holds a value that must not reach the engine. The message names it and the reason."""

    key = "engine.invalid_request"


@frozen
class ReadChunksRequest:
    """The ids of the metadata chunks of an archive, or the content of such chunks. See ``chunks``."""

    archive: str = ""
    """Its id."""
    ids: tuple[str, ...] = ()


@frozen
class TryChunksRequest:
    """Whether chunks are read correctly on that machine: a small repository, read both ways."""


@frozen
class RcloneAccess:
    """Variables of the environment that let the engine's rclone reach the remote of a repository."""

    variables: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)


@frozen
class RepositoryLocation:
    """Where a repository is and what opens it."""

    path: str
    passphrase: str | None = field(default=None, repr=False)
    encryption: str | None = None
    remote_path: str | None = None
    rsh: str | None = None
    relocated_ok: bool = False
    unencrypted_ok: bool = False
    machine: Machine | CalledAgent | None = None
    """Where the engine runs that opens it; None: here."""
    engine_id: str | None = None
    """The id that the repository must have; None: not known yet."""
    older: Older = "refuse"
    rclone: RcloneAccess | None = None
    """For an address of the form ``rclone:REMOTE:PATH``."""


@frozen
class InitRequest:
    encryption: str
    make_parent_dirs: bool = True


@frozen
class CreateRequest:
    """Make an archive. The name may hold the engine's placeholders, such as ``{now}``."""

    archive_name: str
    source_paths: tuple[str, ...]
    exclude_patterns: tuple[str, ...] = ()
    compression: str | None = None
    comment: str | None = None
    custom_flags: tuple[str, ...] = ()
    upload_ratelimit_kib: int | None = None
    checkpoint_interval: int = 300
    list_files: bool = False
    from_pipes: bool = False
    """The sources are the names of pipes in the folder in which the engine is started; their content is archived."""


@frozen
class ListArchivesRequest:
    """All archives, or the newest ``last``; left-over checkpoints only on request.

    ``deleted`` selects only the archives that are deleted and can be brought back. ``names_only`` reads just what the
    repository itself holds of them (name, id, start): no archive is read, and a malformed one does no harm.
    """

    last: int | None = None
    consider_checkpoints: bool = False
    deleted: bool = False
    names_only: bool = False


@frozen
class InfoRequest:
    """Of the repository as a whole, of one archive, or of every archive in one run."""

    archive: str | None = None
    every_archive: bool = False


@frozen
class DeleteArchiveRequest:
    """Delete an archive, and ``others`` with it in one transaction: of several, all go or none."""

    archive: str
    others: tuple[str, ...] = ()


@frozen
class UndeleteArchiveRequest:
    archive: str


@frozen
class BreakLockRequest:
    pass


@frozen
class KeyExportRequest:
    pass


@frozen
class RetentionPolicy:
    """How many archives each rule keeps. A rule that is None or 0 keeps none."""

    keep_within: str | None = None
    keep_last: int | None = None
    keep_minutely: int | None = None
    keep_hourly: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None
    keep_monthly: int | None = None
    keep_quarterly: int | None = None
    keep_yearly: int | None = None

    @property
    def keeps_nothing(self) -> bool:
        return not any(getattr(self, each.name) for each in fields(self))


@frozen
class PruneRequest:
    """Remove what the policy does not keep, among the archives whose name matches the glob (None: all)."""

    policy: RetentionPolicy
    glob: str | None = None
    dry_run: bool = False


@frozen
class CompactRequest:
    """``threshold``: percent of a segment that must be unused before it is rewritten (None: the engine's own)."""

    threshold: int | None = None


@frozen
class CheckRequest:
    """``max_duration`` (seconds) makes it a partial check of the repository's segments alone."""

    max_duration: int | None = None
    verify_data: bool = False
    repair: bool = False
    repository_only: bool = False
    archives_only: bool = False


@frozen
class ExtractRequest:
    """Restore into ``destination``. ``paths`` are exact (``surrogateescape``), ``patterns`` the engine's patterns."""

    archive: str
    paths: tuple[str, ...] = ()
    dry_run: bool = False
    strip_components: int = 0
    list_files: bool = False
    stdout: bool = False
    destination: str | None = None
    patterns: tuple[str, ...] = ()
    excluded_paths: tuple[str, ...] = ()
    """Exact paths of single items that are left out, but not what is below them."""
    excluded_trees: tuple[str, ...] = ()
    """Exact paths that are left out with all that is below them."""
    sparse: bool = False
    """Blocks of zeros become holes."""
    without_flags: bool = False
    """Leave out file flags such as ``immutable``, which would keep a restored file from being moved."""


@frozen
class ExportTarRequest:
    """A tar stream of the archive, or of these paths, on standard output."""

    archive: str
    paths: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    strip_components: int = 0
    excluded_paths: tuple[str, ...] = ()
    """Exact paths that are left out, but not the items below them."""
    excluded_trees: tuple[str, ...] = ()
    """Exact paths that are left out with all that is below them."""
    progress: bool = False


@frozen
class ListFilesRequest:
    """Every file of an archive, or those under ``paths``, one record each on standard output.

    ``exact`` selects the short records that ``listing`` reads, in which every byte of a name survives; ``complete``
    those with
    everything that an archive holds about a file.
    """

    archive: str
    excludes: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    excluded_trees: tuple[str, ...] = ()
    exact: bool = False
    complete: bool = False


@frozen
class DiffRequest:
    archive: str
    other_archive: str
    paths: tuple[str, ...] = ()
    content_only: bool = False
