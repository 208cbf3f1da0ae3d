"""On both stores the migrations create the schema of the models, and allow the same values as the code."""

import hashlib
import io
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

import holdfast.composition  # noqa: F401 - brings in the tables of every part
from backup_protocol import AgentStatus
from holdfast.access.roles import Role
from holdfast.operations.status import TERMINAL, TRANSITIONS, Status
from holdfast.storage.base import Base
from holdfast.storage.migrate import configuration, migrate, revisions
from holdfast.storage.session import Database
from tests.support.postgres import postgres_server

EFFECTS = Path(__file__).with_name("migration_effects.toml")


@pytest.fixture(params=["sqlite", "postgresql"])
def migrated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield from opened(f"sqlite:///{tmp_path / 'holdfast.db'}")
        return
    with postgres_server().database() as url:
        yield from opened(url)


def opened(url: str) -> Iterator[Database]:
    database = Database(url)
    migrate(database)
    yield database
    database.dispose()


def test_the_migrations_create_the_schema_of_the_models(migrated: Database) -> None:
    with migrated.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = compare_metadata(context, Base.metadata)

    assert differences == [], "make a migration: docs/develop.md"


def test_the_revisions_form_one_chain_in_the_order_of_their_files() -> None:
    chain = [revision.revision for revision in ScriptDirectory.from_config(configuration()).walk_revisions()]

    assert revisions() == chain[::-1]


def test_every_migration_still_has_the_effect_that_was_recorded(tmp_path: Path) -> None:
    found = {"postgresql": statements_by_revision(), "sqlite": definitions_by_table(tmp_path)}

    recorded = tomllib.loads(EFFECTS.read_text())
    new = {store: dict(found[store].items() - recorded[store].items()) for store in found}
    assert found == recorded, f"a migration has another effect; what a new one does is to be recorded: {new}"


def statements_by_revision() -> dict[str, str]:
    """A digest of the statements that each revision sends to PostgreSQL."""
    digests = {}
    for script in ScriptDirectory.from_config(configuration()).walk_revisions():
        statements = io.StringIO()
        options = {"as_sql": True, "output_buffer": statements, "target_metadata": Base.metadata}
        with Operations.context(MigrationContext.configure(dialect_name="postgresql", opts=options)):
            script.module.upgrade()
        digests[script.revision] = digest(re.sub(r"'[0-9: .-]+'", "'time'", statements.getvalue()))
    return digests


def definitions_by_table(folder: Path) -> dict[str, str]:
    """A digest of the final definition of each table and its indexes in SQLite, independent of their order."""
    parts: dict[str, list[str]] = {}
    for database in opened(f"sqlite:///{folder / 'holdfast.db'}"):
        with database.engine.connect() as connection:
            for table, sql in connection.execute(text("SELECT tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL")):
                parts.setdefault(table, []).extend(line.strip(" \t,") for line in sql.splitlines())
    return {table: digest("\n".join(sorted(lines))) for table, lines in parts.items()}


def digest(definition: str) -> str:
    return hashlib.sha256(definition.encode()).hexdigest()[:20]


def test_migrating_again_changes_nothing(migrated: Database) -> None:
    before = words_of_checks(migrated)
    migrate(migrated)

    assert words_of_checks(migrated) == before


def words_of_checks(database: Database) -> dict[str, set[str]]:
    """The values that each CHECK of the store allows, by the name of the constraint."""
    inspector = inspect(database.engine)
    return {
        str(check["name"]): set(re.findall(r"'([^']*)'", check["sqltext"]))
        for table in inspector.get_table_names()
        for check in inspector.get_check_constraints(table)
    }


def test_the_values_allowed_by_the_store_are_those_of_the_code(migrated: Database) -> None:
    checks = words_of_checks(migrated)

    assert checks["ck_operations_status"] == set(Status)
    assert checks["ck_agent_machines_status"] == set(AgentStatus)
    assert checks["ck_users_role"] == {role.value for role in Role}
    below_admin = {role.value for role in Role if role < Role.ADMIN}
    assert checks["ck_repository_rights_role"] == checks["ck_users_all_repositories_role"] == below_admin


def test_the_operation_statuses_are_those_of_the_contract() -> None:
    assert list(Status) == [
        *("pending", "running", "completed", "completed_with_warnings", "failed", "cancelled", "skipped"),
    ]
    assert set(TRANSITIONS) == set(Status)
    assert all(not TRANSITIONS[status] for status in TERMINAL)
