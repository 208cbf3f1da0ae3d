"""The table of repositories."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from holdfast.storage.base import NumberedRow
from holdfast.storage.types import Identifier, JsonValue, RowUuid


class Repository(NumberedRow):
    """A backup repository managed by the service. Everything recorded about it comes from stored evidence."""

    __tablename__ = "repositories"

    uuid: Mapped[RowUuid]
    name: Mapped[str] = mapped_column(String(200), unique=True)
    path: Mapped[str] = mapped_column(Text, index=True)
    identity: Mapped[str] = mapped_column(Text, unique=True)
    """The path with symbolic links resolved, so that one place is one repository under any name.

    The same path on an agent's machine is a different place.
    """
    engine_id: Mapped[str | None] = mapped_column(String(64))
    engine_version: Mapped[int]
    repository_type: Mapped[str] = mapped_column(String(10))
    execution_target: Mapped[str] = mapped_column(String(10))
    agent_machine_id: Mapped[int | None] = mapped_column(Identifier)
    ssh_connection_id: Mapped[int | None] = mapped_column(Identifier)
    rclone_remote_id: Mapped[int | None] = mapped_column(Identifier)
    """The remote on which the engine itself stores it; None: it is stored elsewhere, or only mirrored to a remote."""
    encryption: Mapped[str] = mapped_column(String(40))
    compression: Mapped[str] = mapped_column(String(40))
    source_paths: Mapped[list[str]]
    own_sources: Mapped[list[str]] = mapped_column(JsonValue, default=list, server_default=text("'[]'"))
    """Sources among the service's own places that an admin has confirmed; see own_places."""
    exclude_patterns: Mapped[list[str]]
    archive_name_template: Mapped[str] = mapped_column(String(200))
    custom_flags: Mapped[list[str]]
    upload_ratelimit_kib: Mapped[int | None]
    mode: Mapped[str] = mapped_column(String(10))
    remote_path: Mapped[str | None]
    passphrase_location: Mapped[str] = mapped_column(String(10))
    passphrase: Mapped[str | None]
    """Encrypted; see access.vault."""
    has_keyfile: Mapped[bool] = mapped_column(Boolean, default=False)
    keyfile: Mapped[str | None]
    """The key of a keyfile repository that the local engine opens. Encrypted; see repositories.key_files."""
    unencrypted_confirmed: Mapped[bool] = mapped_column(Boolean, default=False)
    setup_state: Mapped[str] = mapped_column(String(10), default="ready")
    setup_operation_id: Mapped[int | None] = mapped_column(Identifier)

    index_mode: Mapped[str] = mapped_column(String(10))
    history_index_excludes: Mapped[list[str]]
    retention: Mapped[dict[str, Any]]

    last_backup: Mapped[datetime | None]
    last_check: Mapped[datetime | None]
    last_prune: Mapped[datetime | None]
    last_compact: Mapped[datetime | None]
    last_index: Mapped[datetime | None]
    last_restore_check: Mapped[datetime | None]
    last_mirror: Mapped[datetime | None]
    """The last complete sync of its mirror, if it has one."""
    last_synced: Mapped[datetime | None]
    last_stats: Mapped[datetime | None]
    last_history: Mapped[datetime | None]
    history_generation: Mapped[str | None] = mapped_column(String(64))
    """The index file to which the archives' history states refer."""
    archive_count: Mapped[int | None]
    total_size: Mapped[int | None] = mapped_column(BigInteger)
    unique_size: Mapped[int | None] = mapped_column(BigInteger)
    typical_size: Mapped[int | None] = mapped_column(BigInteger)
    """Original size of the last complete backup, used to estimate progress."""
    storage_free_bytes: Mapped[int | None] = mapped_column(BigInteger)
    storage_total_bytes: Mapped[int | None] = mapped_column(BigInteger)
    storage_seen_at: Mapped[datetime | None]
    """When the free space was measured, on the file system where the engine runs."""
    key_exported_at: Mapped[datetime | None]
    labels: Mapped[dict[str, str]] = mapped_column(JsonValue, default=dict, server_default=text("'{}'"))
    """Used by schedules to select it, together with the labels of its agent."""

    removals_recorded_since: Mapped[datetime | None]
    """When the store began to record removed archives, if later than `created_at`; else None."""

    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
