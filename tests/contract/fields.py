"""The fields that the contract names, table by table, and the formats that all responses share."""

import re
from typing import Any

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")

JOB_START = {"job_id", "status", "message"}

BACKUP_STATUS = {
    *("id", "repository", "status", "started_at", "completed_at", "progress", "error_message", "logs"),
    *("progress_details", "archive_name", "trigger", "triggered_by", "run_id", "attempt", "retry_of"),
    *("queue_position", "warnings"),
}

# Fields of the status beyond the contract: adding one is a decision, not an accident.
MORE_BACKUP_STATUS = {"error_key", "error_params", "queued_reason", "queued_behind_id", "cancel_requested"}

PROGRESS_DETAILS = {
    *("progress_percent", "current_file", "nfiles", "original_size", "compressed_size", "deduplicated_size"),
    *("backup_speed", "total_expected_size", "estimated_time_remaining", "more_than_expected"),
}

LOG_STREAM = {"job_id", "status", "lines", "total_lines", "log_lines", "has_more"}

OPERATION = {
    *("id", "activity_key", "kind", "type", "category", "status", "trigger", "priority", "run_id", "parent_id"),
    *("depends_on_id", "repository_id", "repository", "repository_path", "machine_id", "created_at", "queued_reason"),
    *("queued_behind_id", "started_at", "completed_at", "duration_seconds", "error_message", "error_key"),
    *("skip_reason", "triggered_by", "schedule_id", "schedule_name", "archive_name", "package_name", "attempt"),
    *("progress_percent", "progress_current", "progress_total", "progress_message", "has_logs", "log_file_path"),
    *("params", "result", "followups"),
}

MORE_OPERATION = {"error_params", "retry_of", "cancel_requested", "warnings"}

CANCEL = {"id", "status", "cancel_requested", "message"}

LANE = {"repository_id", "repository_name", "lane_busy", "lane_holder", "lane_holders", "operations"}

LIMITS = {
    "max_running_backups": 4,
    "max_running_restores": 4,
    "max_running_maintenance": 2,
    "max_running_index": 2,
    "max_running_scripts": 4,
    "max_running_total": 8,
}

DERIVED_DATA = {
    *("repository_id", "repository_name", "index_mode", "sync_state", "last_synced_at", "last_stats_at"),
    *("last_history_at", "archives", "history"),
}

HISTORY_COUNTS = {"indexed", "pending", "failed", "skipped", "truncated", "rows", "bytes"}

REPOSITORY = {
    *("id", "name", "path", "engine_id", "engine_version", "repository_type", "execution_target", "agent_machine_id"),
    *("ssh_connection_id", "encryption", "compression", "source_paths", "exclude_patterns", "archive_name_template"),
    *("custom_flags", "upload_ratelimit_kib", "mode", "remote_path", "passphrase_location", "has_passphrase"),
    *("has_keyfile", "index_mode", "history_index_excludes", "retention", "last_backup", "last_check", "last_prune"),
    *("last_compact", "last_index", "last_restore_check", "archive_count", "total_size", "unique_size"),
    *("running_operation", "latest_sync_job", "created_at", "updated_at"),
}

RETENTION = {
    *("keep_within", "keep_last", "keep_minutely", "keep_hourly", "keep_daily", "keep_weekly", "keep_monthly"),
    *("keep_quarterly", "keep_yearly"),
}


def error_of(answer: Any) -> tuple[int, str]:
    """Check the shape of an error response; return its status and the key of its error."""
    detail = answer.json()["detail"]
    assert {"key", "message", "params"} <= set(detail), answer.text
    assert re.fullmatch(r"[a-z_]+\.[a-z_]+", detail["key"])
    assert re.fullmatch(r"[A-Z'].*[.]", detail["message"], re.DOTALL), "a sentence"
    return answer.status_code, detail["key"]


def is_timestamp(value: Any) -> bool:
    return isinstance(value, str) and TIMESTAMP.fullmatch(value) is not None
