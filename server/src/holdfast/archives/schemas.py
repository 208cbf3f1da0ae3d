"""Schemas of the archive index."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StrictBool

from holdfast.kit.fields import Timestamp
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.archive_records import Archive
from holdfast.repositories.schemas import IndexMode

HistoryState = Literal["pending", "indexed", "skipped", "failed"]


class ArchiveAnswer(Schema):
    model_config = ConfigDict(from_attributes=True)

    id: int
    repository_id: int
    engine_id: str
    name: str
    series: str
    start: Timestamp
    end: Timestamp | None
    duration_seconds: float | None
    nfiles: int | None
    original_size: int | None
    compressed_size: int | None
    deduplicated_size: int | None
    hostname: str | None
    username: str | None
    comment: str | None
    backup_operation_id: int | None
    history_state: HistoryState
    history_indexed_at: Timestamp | None
    history_rows: int | None
    history_truncated: bool
    first_seen_at: Timestamp
    last_seen_at: Timestamp
    lost_at: Timestamp | None = Field(
        description="Since when it is known to be lost, after an older copy of the repository was restored."
    )
    protected_at: Timestamp | None = Field(
        description="Since when it is protected from prunes, deletions and wipes by the service; null if it is not."
    )


class ArchiveUpdate(Closed):
    protected: StrictBool = Field(description="Whether to protect it from prunes, deletions and wipes.")


def archive_answer(archive: Archive, state: HistoryState) -> ArchiveAnswer:
    answer = ArchiveAnswer.model_validate(archive)
    if state != "indexed":
        answer.history_indexed_at, answer.history_rows = None, None
    answer.history_state = state
    return answer


class ArchiveStats(Schema):
    id: int
    nfiles: int | None
    original_size: int | None
    deduplicated_size: int | None
    duration_seconds: float | None


class ArchiveDetail(ArchiveAnswer):
    history_error: str | None
    history_error_key: str | None
    predecessor_id: int | None
    successor_id: int | None
    predecessor_stats: ArchiveStats | None
    actions: list[str] = Field(description="Actions currently available to you on this archive.")
    refusals: dict[str, str] = Field(description="Unavailable actions, each with the error key that explains why.")


class ListedArchive(ArchiveAnswer):
    proven_at: Timestamp | None = Field(description="When a restore check last read back files from it.")
    keep_rule: str | None = Field(
        description="With `rules=true`: the repository's retention rule that keeps it, or `protected` if only its "
        "protection does; null if a prune would remove it, or the repository has no rules."
    )


class ArchiveList(Schema):
    archives: list[ListedArchive]
    series: list[str]
    sync_state: Literal["fresh", "syncing", "stale", "never"]
    last_synced_at: Timestamp | None
    unavailable_reason: str | None = Field(
        None, description="Why no list is available: `agent_unsupported` if the agent only supports backups."
    )
    history_available: bool
    next_cursor: str | None
    total: int = Field(description="Total number of matching archives on all pages.")


class LiveArchive(Schema):
    name: str
    id: str
    start: Timestamp
    end: Timestamp | None
    comment: str | None
    hostname: str | None
    username: str | None
    series: str
    archive_id: int | None = Field(description="Id in the archive index, if indexed.")


class LiveList(Schema):
    archives: list[LiveArchive]
    source: Literal["engine"] = "engine"


class RebuildFrom(Closed):
    from_: Annotated[Literal["stats", "archives", "history"], Field(alias="from")]


class StagesQueued(Schema):
    run_id: str
    operations: list[int]
    index_mode: IndexMode
    repeats: bool


class Day(Schema):
    date: str
    count: int
    original_size: int | None
    deduplicated_size: int | None
    duration_seconds: float | None
    archive_ids: list[int]
    anomalies: list[str]


class DaySeries(Schema):
    days: list[Day]
    missed_days: list[str]


class NamedDaySeries(DaySeries):
    series: str


class Heatmap(Schema):
    since: str
    until: str
    repository: DaySeries
    series: list[NamedDaySeries]
    cadence_known: bool
    flags_available: dict[str, bool]


CellName = Literal["backup", "check", "prune", "compact", "restore_check", "index", "mirror"]


class StatusCell(Schema):
    cell: CellName
    status: str
    completed_at: Timestamp | None
    age_seconds: int | None
    threshold_days: int | None = Field(description="`threshold_seconds` in days, rounded up.")
    threshold_seconds: int | None = Field(
        description="Age of the last success after which it is overdue: from the schedules, otherwise a constant."
    )
    schedule_id: int | None = Field(description="The schedule that determines the threshold.")
    next_due_at: Timestamp | None = Field(description="When that schedule is due next.")
    overdue: bool | None
    running: bool
    source: str | None


class StatusAnswer(Schema):
    cells: list[StatusCell]
    overdue_available: bool


class PathAnswer(Schema):
    """`path` is readable; `path_b64` is exact, and set only if the readable form is not exact."""

    path: str
    path_b64: str | None


class ChangeRow(PathAnswer):
    change: Literal["added", "removed", "modified"]
    size_before: int | None
    size_after: int | None
    mtime_before: Timestamp | None
    mtime_after: Timestamp | None
    mode_changed: bool
    owner_changed: bool


class ChangedSize(Schema):
    """Bytes of files before compression. Null if the index has no sizes yet; it adds them with the next archive."""

    bytes_added: int | None = Field(description="Size of added files, and growth of modified ones.")
    bytes_removed: int | None = Field(description="Size of removed files, and shrinkage of modified ones.")
    bytes_net: int | None = Field(description="`bytes_added` minus `bytes_removed`.")


class ChangeGroup(PathAnswer, ChangedSize):
    """One entry of the folder, with the changes of the entry itself and of everything below it."""

    name: str
    name_b64: str | None
    type: str = Field(description="Type in the later archive; in the earlier one if it was removed.")
    added: int
    removed: int
    modified: int


class Changes(Schema):
    archive_id: int
    compare_to_id: int | None
    history_state: HistoryState
    changes: list[ChangeRow]
    totals: dict[str, int]
    next_cursor: str | None
    incomplete: bool
    unindexed_archive_ids: list[int]
    byte_totals: ChangedSize = Field(description="Bytes of all changes counted in `totals`.")
    groups: list[ChangeGroup] | None = Field(
        None, description="With `group_by=folder`, in place of `changes`: the entries of the folder, ordered by name."
    )


Presence = Literal["present", "gone", "never", "unknown"]


class HistoryEntry(Schema):
    archive_id: int
    archive_name: str
    series: str
    start: Timestamp
    change: Literal["added", "modified", "removed"]
    size: int | None
    mtime: Timestamp | None
    mode: str | None
    until_archive_id: int | None = Field(
        None, description="Last indexed archive of the series before the next change. null for `removed`."
    )
    archive_count: int = Field(
        0, description="Number of indexed archives from this one to `until_archive_id`. 0 for `removed`."
    )
    same_content_as: int | None = Field(
        None,
        description="`archive_id` of the earliest entry above with identical content, compared by chunks. null if "
        "there is none,"
        " or if the content is unknown: folders, empty files, archives indexed from a listing.",
    )


class PresentRange(Schema):
    series: str
    from_archive_id: int
    to_archive_id: int | None
    unindexed_archive_ids: list[int] = []


class Coverage(Schema):
    indexed: int
    total: int
    unindexed_archive_ids: list[int]


class PathHistoryAnswer(PathAnswer):
    entries: list[HistoryEntry]
    present: list[PresentRange]
    present_in_latest: bool
    presence: Presence = Field(
        description="`gone`: an older archive contains it; `never`: no archive contains it; `unknown`: not all "
        "archives are indexed."
    )
    coverage: Coverage


class SearchHit(PathAnswer):
    """State in the last archive that contains it."""

    size: int | None = Field(description="Null for a folder.")
    mtime: Timestamp | None
    first_seen: int
    last_seen: int
    archive_count: int
    series: list[str]
    present_in_latest: bool


class SearchAnswer(Schema):
    query: str
    results: list[SearchHit]
    truncated: bool
    next_cursor: str | None
    coverage: Coverage


class BrowseEntry(PathAnswer):
    name: str
    name_b64: str | None
    type: str
    size: int | None
    mtime: Timestamp | None
    mode: str | None
    user: str | None
    group: str | None
    link_target: str | None
    change: Literal["added", "modified", "unchanged"] | None = Field(
        None,
        description="Compared with the previous archive in the series. null if there is none, if it or this archive is "
        "not "
        "indexed,"
        " and for folders that the archive does not list itself.",
    )
    item_count: int | None = Field(
        None,
        description="Number of entries directly in the folder. Only with `sizes=true`; otherwise null under the same "
        "conditions as `subtree_size`.",
    )
    subtree_size: int | None = Field(
        None,
        description="Total size of all files below the folder, before compression. Only with `sizes=true` or when "
        "sorted by"
        " size; null for anything but folders, if the archive is not indexed or has more than 4 million entries, and "
        "until"
        " the first archive that is indexed after an upgrade.",
    )


class BrowseAnswer(Schema):
    archive_id: int
    path: str
    path_b64: str | None
    entries: list[BrowseEntry]
    next_cursor: str | None
    source: Literal["index", "engine"]
    excludes: list[str] = Field(description="Patterns excluded from the index, and therefore from the entries.")
    total: int | None = Field(
        None, description="Entries of the folder that match `q`, on all pages. null if `source` is `engine`."
    )
