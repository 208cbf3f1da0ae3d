"""Requests to an engine as values, independent of its command line."""

from collections.abc import Mapping
from dataclasses import field, fields

from backup_engine.command import CalledAgent, Machine, Older
from backup_engine.frozen import frozen


class InvalidRequest(ValueError):
    """The request contains a value that must not reach the engine. The message names it and the reason."""

    key = "engine.invalid_request"


@frozen
class ReadChunksRequest:
    """Read the ids of an archive's metadata chunks, or the content of such chunks. See ``chunks``."""

    archive: str = ""
    """The archive's id."""
    ids: tuple[str, ...] = ()


@frozen
class TryChunksRequest:
    """Test whether chunks are read correctly on that machine, with a small repository that is read both ways."""


@frozen
class RcloneAccess:
    """Environment variables that give the engine's rclone access to the remote of a repository."""

    variables: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)


@frozen
class RepositoryLocation:
    """Location of a repository, and what is needed to open it."""

    path: str
    passphrase: str | None = field(default=None, repr=False)
    encryption: str | None = None
    remote_path: str | None = None
    rsh: str | None = None
    relocated_ok: bool = False
    unencrypted_ok: bool = False
    machine: Machine | CalledAgent | None = None
    """The machine on which the engine runs; None means this machine."""
    engine_id: str | None = None
    """The id that the repository must have; None if not known yet."""
    older: Older = "refuse"
    rclone: RcloneAccess | None = None
    """For addresses of the form ``rclone:REMOTE:PATH``."""


@frozen
class InitRequest:
    encryption: str
    make_parent_dirs: bool = True


@frozen
class CreateRequest:
    """Create an archive. The name may contain the engine's placeholders, such as ``{now}``."""

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
    """The sources are names of pipes in the folder in which the engine is started; their content is archived."""


@frozen
class ListArchivesRequest:
    """List all archives or the newest ``last``; left-over checkpoints only on request.

    ``deleted`` selects deleted archives that can be brought back. ``names_only`` reads only what the repository itself
    stores about archives (name, id, start): no archive is read, so a damaged one does no harm.
    """

    last: int | None = None
    consider_checkpoints: bool = False
    deleted: bool = False
    names_only: bool = False


@frozen
class InfoRequest:
    """Facts about the repository as a whole, one archive, or every archive in one run."""

    archive: str | None = None
    every_archive: bool = False


@frozen
class DeleteArchiveRequest:
    """Delete an archive, and with it ``others`` in one transaction: either all are deleted or none."""

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
    """Number of archives that each rule keeps. A rule that is None or 0 keeps none."""

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
    """Remove what the policy does not keep, among archives whose names match the glob (None: all archives)."""

    policy: RetentionPolicy
    glob: str | None = None
    dry_run: bool = False


@frozen
class CompactRequest:
    """``threshold``: percentage of unused space above which a segment is rewritten (None: the engine's default)."""

    threshold: int | None = None


@frozen
class CheckRequest:
    """``max_duration`` (seconds) makes this a partial check that covers only the repository's segments."""

    max_duration: int | None = None
    verify_data: bool = False
    repair: bool = False
    repository_only: bool = False
    archives_only: bool = False


@frozen
class ExtractRequest:
    """Restore into ``destination``. ``paths`` are exact (``surrogateescape``), ``patterns`` are engine patterns."""

    archive: str
    paths: tuple[str, ...] = ()
    dry_run: bool = False
    strip_components: int = 0
    list_files: bool = False
    stdout: bool = False
    destination: str | None = None
    patterns: tuple[str, ...] = ()
    excluded_paths: tuple[str, ...] = ()
    """Exact paths of single items to leave out, but not what is below them."""
    excluded_trees: tuple[str, ...] = ()
    """Exact paths to leave out with everything below them."""
    sparse: bool = False
    """Turn blocks of zeros into holes."""
    without_flags: bool = False
    """Omit file flags such as ``immutable``, which would prevent a restored file from being moved."""


@frozen
class ExportTarRequest:
    """Write the archive, or these paths of it, as a tar stream to standard output."""

    archive: str
    paths: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    strip_components: int = 0
    excluded_paths: tuple[str, ...] = ()
    """Exact paths to leave out, but not the items below them."""
    excluded_trees: tuple[str, ...] = ()
    """Exact paths to leave out with everything below them."""
    progress: bool = False


@frozen
class ListFilesRequest:
    """List every file of an archive, or those under ``paths``, one record each on standard output.

    ``exact`` selects the short records read by ``listing``, which preserve every byte of a name; ``complete`` those
    with everything that an archive contains about a file.
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
