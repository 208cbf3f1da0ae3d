"""Stores with a long past: bulk SQL, and the users and repositories that the past belongs to."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import insert, text

from holdfast.access import users
from holdfast.access.first_admin import ensure_first_admin
from holdfast.access.models import RepositoryRight
from holdfast.access.passwords import hash_password
from holdfast.access.roles import Role
from holdfast.access.users import NewUser
from holdfast.composition import register_secrets
from holdfast.kit import cursor
from holdfast.operations.models import Operation
from holdfast.repositories.models import Repository
from holdfast.settings import Settings
from holdfast.storage.migrate import migrate
from holdfast.storage.session import Database
from tests.support.service import ADMIN_PASSWORD

REPOSITORIES = 50
RUNNING = 10
WAITING = 90
SECONDS_BETWEEN = 30
QUIET_REPOSITORY = REPOSITORIES
"""Has only old operations: a viewer limited to it finds none of the newest rows."""
QUIET_ROWS = 500
RARE_KIND_ROWS = 20
VIEWERS = {
    "one": (1,),
    "few": (1, 2, 3, 4, 5),
    "quiet": (QUIET_REPOSITORY,),
    "most": tuple(range(1, REPOSITORIES)),
}
"""Viewers who may see some repositories, with the numbers of these."""


@dataclass(frozen=True, slots=True)
class Past:
    """The content of a filled store."""

    rows: int
    newest_backup: int
    newest_at: datetime

    @property
    def a_run(self) -> str:
        return _scattered(self.rows // 3)

    @property
    def cursor_far_back(self) -> str:
        return cursor.encode(self.rows // 2)

    def days_ago(self, days: int) -> str:
        return (self.newest_at - timedelta(days=days)).isoformat()


def create(settings: Settings) -> Database:
    """Create a store with its schema and an admin."""
    register_secrets()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    database = Database(settings.store_url)
    migrate(database)
    ensure_first_admin(database, settings)
    return database


def prepare(settings: Settings) -> Database:
    """Create a store with its schema, an admin, the viewers and their repositories."""
    database = create(settings)
    with database.writing() as session:
        session.execute(insert(Repository), [repository_row(number) for number in range(1, REPOSITORIES + 1)])
    password = hash_password(ADMIN_PASSWORD)
    for name, visible in VIEWERS.items():
        with database.writing() as session:
            viewer = users.create(session, None, NewUser(name, password, Role.VIEWER, must_change_password=False))
            rights = [{"user_id": viewer.id, "repository_id": number, "role": Role.VIEWER} for number in visible]
            session.execute(insert(RepositoryRight), rights)
    return database


def fill(database: Database, rows: int) -> Past:
    """Write `rows` finished operations, followed by the same few running and waiting ones, whatever the size."""
    now = datetime.now(UTC).replace(microsecond=0)
    first = now - timedelta(seconds=SECONDS_BETWEEN * rows)
    table = Operation.metadata.tables[Operation.__tablename__]
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    with database.engine.begin() as connection:
        for index in indexes:
            index.drop(connection)
        connection.execute(text(_statement(database)), {"rows": rows, "first": first.timestamp()})
        for index in indexes:
            index.create(connection)
    with database.engine.begin() as connection:
        if not database.is_sqlite:  # as the database's own housekeeping would have done long ago
            connection.execute(text("SELECT setval('operations_id_seq', (SELECT max(id) FROM operations))"))
            connection.execute(text("ANALYZE"))
    with database.reading() as session:
        newest = session.execute(text("SELECT max(id) FROM operations WHERE kind = 'backup' AND status = 'completed'"))
        return Past(rows, newest.scalar_one(), now)


def _scattered(number: int) -> str:
    """The identifier of a row, scattered like random ones; `_statement` computes the same in SQL."""
    return str(1000000000 + number * 2654435761 % 1000000007)


def repository_row(number: int) -> dict[str, object]:
    now = datetime.now(UTC)
    return {
        "id": number,
        "uuid": f"{number:032x}",
        "name": f"repository {number}",
        "path": f"/srv/backup/{number}",
        "identity": f"/srv/backup/{number}",
        "engine_version": 1,
        "repository_type": "local",
        "execution_target": "local",
        "encryption": "none",
        "compression": "lz4",
        "source_paths": ["/srv/data"],
        "exclude_patterns": [],
        "archive_name_template": "{repository}-{now}",
        "custom_flags": [],
        "mode": "full",
        "passphrase_location": "server",
        "index_mode": "archives",
        "history_index_excludes": [],
        "retention": {},
        "created_at": now,
        "updated_at": now,
    }


def _statement(database: Database) -> str:
    """One INSERT statement for both databases. Rows with small numbers are old; the remainders of the number decide the
    rest.

    The last rows are active: some are running (each on its own lane), the others wait for those lanes. They have no
    runner and belong to agents, so that a service over this store leaves them as they are.
    """
    if database.is_sqlite:
        created, to_json = "strftime('%Y-%m-%d %H:%M:%f000', at, 'unixepoch')", ""
        done = "strftime('%Y-%m-%d %H:%M:%f000', at + 20, 'unixepoch')"
    else:
        created, to_json = "to_timestamp(at) AT TIME ZONE 'UTC'", "::jsonb"
        done = "to_timestamp(at + 20) AT TIME ZONE 'UTC'"
    result = '{"archive": {"name": "archive", "duration": 19.5}, "stats": {"nfiles": 1000, "original_size": 123456789}}'
    return f"""
    INSERT INTO operations (
        id, uuid, kind, category, status, "trigger", priority, queue_rank, run_id, repository_id, repository_name,
        repository_path, executor, lock_key, lock_mode, limit_group, created_at, started_at, completed_at, attempt,
        log_file, log_base_line, error_key, error_message, triggered_by, archive_name, params, result)
    WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < :rows + {RUNNING + WAITING}),
    shaped AS (
        SELECT i, :first + CAST(i AS bigint) * {SECONDS_BETWEEN} AS at,
            CASE WHEN i > :rows THEN 1 + (i - :rows) % {RUNNING}
                WHEN i <= {QUIET_ROWS} THEN {QUIET_REPOSITORY}
                ELSE 1 + (i * 31) % {REPOSITORIES - 1} END AS repository,
            CASE WHEN i > :rows THEN 'backup'
                WHEN i <= {RARE_KIND_ROWS} THEN 'wipe'
                WHEN i % 20 < 12 THEN 'backup' WHEN i % 20 < 15 THEN 'prune' WHEN i % 20 < 17 THEN 'compact'
                WHEN i % 20 < 18 THEN 'check' WHEN i % 20 < 19 THEN 'history' ELSE 'restore' END AS kind,
            CASE WHEN i > :rows + {RUNNING} THEN 'pending' WHEN i > :rows THEN 'running'
                WHEN i % 97 = 0 THEN 'failed' WHEN i % 89 = 0 THEN 'completed_with_warnings'
                WHEN i % 499 = 0 THEN 'cancelled' WHEN i <= 40 THEN 'skipped' ELSE 'completed' END AS status,
            CASE WHEN i % 10 < 7 THEN 'schedule' WHEN i % 10 < 8 THEN 'manual' WHEN i % 10 < 9 THEN 'followup'
                WHEN i <= 60 THEN 'import' ELSE 'api' END AS started_by
        FROM numbers)
    SELECT i, CAST(1000000000 + (CAST(i AS bigint) * 2654435761) % 1000000007 AS varchar(32)), kind,
        CASE WHEN kind IN ('backup', 'restore') THEN kind WHEN kind = 'history' THEN 'index' ELSE 'maintenance' END,
        status, started_by, 0, at, CAST(1000000000 + (CAST(i / 2 AS bigint) * 2654435761) % 1000000007 AS varchar(32)),
        repository, 'repository ' || repository, '/srv/backup/' || repository, 'agent',
        'repository:' || repository, CASE WHEN kind = 'restore' THEN 'shared' ELSE 'exclusive' END, NULL,
        {created}, CASE WHEN status NOT IN ('pending', 'skipped') THEN {created} END,
        CASE WHEN status NOT IN ('pending', 'running') THEN {done} END, 1,
        CASE WHEN status NOT IN ('pending', 'skipped') THEN 'past/' || i || '.log' END, 0,
        CASE WHEN status = 'failed' THEN 'engine.failed' END,
        CASE WHEN status = 'failed' THEN 'The engine failed.' END, 'admin', 'archive-' || i,
        '{{"source_paths": null, "comment": null}}'{to_json}, '{result}'{to_json}
    FROM shaped
    """
