"""first schema"""

from holdfast.storage.migration_steps import create_indexes, create_table

revision = "0001"
down_revision = None


def upgrade() -> None:
    create_table(
        "agent_enrollment_tokens",
        """
        id serial, name string(200), token_hash string(64), token_prefix string(16),
        created_by_user_id identifier?, expires_at time, used_at time?, used_by_agent_id identifier?,
        revoked_at time?, created_at time
        """,
        unique="token_hash",
    )
    create_table("agent_fleet", "id identifier, generation integer")
    create_table(
        "agent_machines",
        """
        id serial, machine_id identifier?, name string(200), agent_id string(32), token_hash string(64),
        token_prefix string(16), hostname string(255), os string(60), arch string(60), agent_version string(60),
        engine_versions json, capabilities json, labels json, status string(10), last_seen_at time?,
        last_error text?, clock_skew_seconds float?, created_at time, updated_at time
        """,
        checks={"status": "status IN ('pending', 'online', 'offline', 'disabled', 'revoked')"},
        unique="agent_id, token_hash",
    )
    create_indexes("agent_machines", "ix_agent_machines_status: status last_seen_at")
    create_table(
        "audit_entries",
        """
        id serial, at time, actor_user_id identifier?, actor string(64)?, action string(64),
        object_type string(64)?, object_id string(200)?, outcome string(64), address string(64)?, details json?
        """,
    )
    create_indexes(
        "audit_entries",
        """
        ix_audit_entries_action_id: action id
        ix_audit_entries_actor_id: actor id
        ix_audit_entries_at: at
        """,
    )
    create_table("kernel_settings", "name string(60), value json", key="name")
    create_table(
        "login_failures",
        """
        id counted, username_key string(64), address string(64), failed_at json, blocked_until time?,
        updated_at time
        """,
        unique="username_key address",
    )
    create_indexes("login_failures", "ix_login_failures_updated_at: updated_at")
    create_table(
        "operations",
        """
        id serial, uuid string(32), kind string(40), category string(20), status string(30), trigger string(20),
        priority integer, queue_rank float, run_id string(32), parent_id identifier?, depends_on_id identifier?,
        retry_of identifier?, repository_id identifier?, repository_name string(200)?, repository_path text?,
        machine_id identifier?, executor string(10), job_kind string(40)?, lock_key string(120)?,
        lock_mode string(10)?, limit_group string(20)?, created_at time, available_at time?, started_at time?,
        completed_at time?, cancel_requested_at time?, attempt integer, runner_id string(32)?, spool text?,
        log_file text?, log_base_line integer, error_key string(80)?, error_message text?,
        skip_reason string(80)?, triggered_by_id identifier?, triggered_by string(200)?, schedule_id identifier?,
        schedule_name string(200)?, archive_name text?, package_name string(200)?, params json, result json?,
        warnings json?, progress json?
        """,
        checks={
            "status": "status IN ('pending', 'running', 'completed', 'completed_with_warnings', 'failed', 'cancelled', "
            "'skipped')"
        },
        unique="uuid",
    )
    create_indexes(
        "operations",
        """
        ix_operations_active: status queue_rank id where status IN ('pending', 'running')
        ix_operations_active_lane: lock_key status queue_rank id where status IN ('pending', 'running')
        ix_operations_agent: machine_id id where executor = 'agent'
        ix_operations_created_at: created_at id
        ix_operations_dependent: depends_on_id where depends_on_id IS NOT NULL
        ix_operations_kind: kind id
        ix_operations_kind_status_trigger: kind status trigger id
        ix_operations_parent: parent_id
        ix_operations_repository: repository_id id
        ix_operations_repository_kind: repository_id kind id
        ix_operations_repository_kind_status_trigger: repository_id kind status trigger id
        ix_operations_repository_status_trigger: repository_id status trigger id
        ix_operations_run_id: run_id
        ix_operations_status_trigger: status trigger id
        unique uq_operations_one_exclusive_per_lane: lock_key where status = 'running' AND lock_mode = 'exclusive'
        """,
    )
    create_table(
        "outbox",
        """
        id serial, created_at time, topic string(60), operation_id identifier?, repository_id identifier?,
        payload json
        """,
    )
    create_indexes("outbox", "ix_outbox_created_at: created_at")
    create_table(
        "packages",
        """
        id serial, name string(200), install_command json, description text?, status string(20),
        installed_at time?, created_at time, updated_at time
        """,
        checks={"status": "status IN ('not_installed', 'installed', 'failed')"},
        unique="name",
    )
    create_table(
        "repositories",
        """
        id serial, uuid string(32), name string(200), path text, identity text, engine_id string(64)?,
        engine_version integer, repository_type string(10), execution_target string(10),
        agent_machine_id identifier?, ssh_connection_id identifier?, encryption string(40),
        compression string(40), source_paths json, exclude_patterns json, archive_name_template string(200),
        custom_flags json, upload_ratelimit_kib integer?, mode string(10), remote_path text?,
        passphrase_location string(10), passphrase text?, has_keyfile boolean, unencrypted_confirmed boolean,
        setup_state string(10), setup_operation_id identifier?, index_mode string(10),
        history_index_excludes json, retention json, last_backup time?, last_check time?, last_prune time?,
        last_compact time?, last_index time?, last_restore_check time?, last_synced time?, last_stats time?,
        last_history time?, history_generation string(64)?, archive_count integer?, total_size bigint?,
        unique_size bigint?, typical_size bigint?, created_at time, updated_at time
        """,
        unique="identity, name, uuid",
    )
    create_indexes("repositories", "ix_repositories_path: path")
    create_table(
        "runners",
        """
        id string(32), host string(255), host_id string(64), pid integer, role string(10), lock_file text,
        started_at time, heartbeat_at time
        """,
    )
    create_table(
        "users",
        """
        id serial, username string(64), username_key string(64), email string(320)?, password_hash text,
        role string(16), all_repositories_role string(16)?, must_change_password flag,
        has_initial_password flag, disabled flag, totp_enabled flag, totp_secret text?,
        totp_last_step identifier?, created_at time, updated_at time, last_login_at time?
        """,
        checks={
            "all_repositories_role": "all_repositories_role IN ('viewer', 'operator')",
            "role": "role IN ('viewer', 'operator', 'admin')",
        },
        unique="username_key",
    )
    create_indexes("users", "ix_users_role: role")
    create_table(
        "account_tokens",
        """
        id serial, user_id identifier, name string(100), token_hash string(64), prefix string(16),
        created_at time, last_used_at time?
        """,
        refers="user_id users.id cascade",
        unique="token_hash",
    )
    create_indexes("account_tokens", "ix_account_tokens_user_id: user_id")
    create_table(
        "agent_jobs",
        """
        operation_id identifier, agent_machine_id identifier, job_kind string(40), payload json,
        claimed_at time?, started_at time?, completed_at time?, report json?, log_ranges json, log_lines integer,
        created_at time, updated_at time
        """,
        key="operation_id",
        refers="operation_id operations.id cascade",
    )
    create_table(
        "archives",
        """
        id serial, repository_id identifier, engine_id string(64), name text, series text, start time, end time?,
        duration_seconds float?, nfiles bigint?, original_size bigint?, compressed_size bigint?,
        deduplicated_size bigint?, hostname text?, username text?, comment text?,
        backup_operation_id identifier?, history_state string(10), history_indexed_at time?,
        history_rows bigint?, history_truncated boolean, history_error text?, history_attempts integer,
        first_seen_at time, last_seen_at time
        """,
        refers="repository_id repositories.id cascade",
        unique="repository_id engine_id",
    )
    create_indexes(
        "archives",
        """
        ix_archives_repository_name: repository_id name
        ix_archives_repository_series: repository_id series start
        ix_archives_repository_start: repository_id start id
        """,
    )
    create_table(
        "idempotency_records",
        """
        id counted, user_id identifier, route string(200), key string(200), request_hash string(64),
        answer json?, created_at time
        """,
        refers="user_id users.id cascade",
        unique="user_id route key",
    )
    create_indexes("idempotency_records", "ix_idempotency_records_created_at: created_at")
    create_table(
        "login_challenges",
        "id counted, token_hash string(64), user_id identifier, expires_at time",
        refers="user_id users.id cascade",
        unique="token_hash",
    )
    create_indexes(
        "login_challenges",
        """
        ix_login_challenges_expires_at: expires_at
        ix_login_challenges_user_id: user_id
        """,
    )
    create_table(
        "login_sessions",
        """
        id serial, public_id string(64), user_id identifier, address string(64)?, created_at time,
        last_used_at time, ended_at time?
        """,
        refers="user_id users.id cascade",
        unique="public_id",
    )
    create_indexes("login_sessions", "ix_login_sessions_user_id: user_id")
    create_table(
        "repository_rights",
        "user_id identifier, repository_id identifier, role string(16)",
        key="user_id repository_id",
        checks={"role": "role IN ('viewer', 'operator')"},
        refers="repository_id repositories.id cascade, user_id users.id cascade",
    )
    create_indexes("repository_rights", "ix_repository_rights_repository_id: repository_id")
    create_table(
        "repository_wipe_jobs",
        """
        id serial, repository_id identifier, status string(10), archive_count integer,
        archive_fingerprint string(80), archives json, run_compact boolean, operation_id identifier?,
        created_by string(200), created_at time
        """,
        checks={"status": "status IN ('previewed', 'started', 'cancelled')"},
        refers="repository_id repositories.id cascade",
    )
    create_indexes("repository_wipe_jobs", "ix_repository_wipe_jobs_repository_id: repository_id")
    create_table(
        "agent_job_parts",
        "operation_id identifier, part integer, items json",
        key="operation_id part",
        refers="operation_id agent_jobs.operation_id cascade",
    )
