"""A schedule with dumps: what is queued, in which order, and what happens to each step when another fails."""

from typing import Any
from uuid import uuid4

from holdfast.backup.dumps.models import DumpedDatabase
from holdfast.operations.status import Status
from holdfast.schedules import store
from holdfast.schedules.edit import Editor
from tests.unit.schedules.running.world import REGISTRY, World, at

STEPS = [{"kind": "backup"}, {"kind": "prune", "keep_daily": 7}, {"kind": "dump"}]


def with_database(world: World, **values: Any) -> int:
    repository = world.repository(**values)
    with world.database.writing() as session:
        session.add(
            DumpedDatabase(
                uuid=uuid4().hex,
                repository_id=repository,
                name="app",
                kind="sqlite",
                options={"database": "/srv/app.db"},
                created_at=world.now,
                updated_at=world.now,
            )
        )
    return repository


def test_dumps_run_before_the_backup_and_each_series_is_pruned_separately(world: World) -> None:
    world.schedule(with_database(world), steps=STEPS)
    world.tick(at(2, 2))

    dump, backup, files, dumps = world.operations()
    assert [one.kind for one in (dump, backup, files, dumps)] == ["dump", "backup", "prune", "prune"]
    assert (backup.depends_on_id, backup.depends_needs) == (dump.id, "ran")
    assert (dumps.depends_on_id, dumps.depends_needs) == (dump.id, "succeeded")
    assert files.depends_on_id == backup.id
    assert dump.params["archive_name"] == dumps.params["series"] == "{repository}-databases-{now}"
    assert files.params["series"] == "{repository}-{now}"


def test_a_failed_dump_does_not_prevent_the_backup_of_files_but_fails_the_run(world: World) -> None:
    schedule = world.schedule(with_database(world), steps=STEPS)
    world.tick(at(2, 2))
    dump = world.operations()[0]
    world.end(dump.id, Status.FAILED, "backup.dump_failed")
    world.end_all()

    assert [one.status for one in world.operations()] == ["failed", "completed", "completed", "skipped"]
    [row] = world.rows(schedule)
    assert (row.result, row.error_key, row.tries) == ("failed", "backup.dump_failed", 1)


def test_a_repository_without_databases_skips_the_step(world: World) -> None:
    schedule = world.schedule(world.repository(), steps=STEPS)
    world.tick(at(2, 2))

    assert [one.kind for one in world.operations()] == ["backup", "prune"]
    [row] = world.rows(schedule)
    assert row.steps[0] | {"kind": "dump", "skipped": "no_databases", "operation_id": None} == row.steps[0]


def test_repositories_of_agents_and_ssh_machines_get_dumps_too(world: World) -> None:
    far = with_database(world, execution_target="agent", agent_machine_id=world.agent())
    by_ssh = with_database(world, execution_target="ssh")
    schedule = world.schedule(far, by_ssh, steps=[{"kind": "backup"}, {"kind": "dump"}])
    with world.database.reading() as session:
        Editor(REGISTRY).check(session, store.by_ids(session, [schedule])[schedule])  # routes accept it, too
    world.tick(at(2, 2))

    kinds = {
        number: [one.kind for one in world.operations() if one.repository_id == number] for number in (far, by_ssh)
    }
    assert kinds == {far: ["dump", "backup"], by_ssh: ["dump", "backup"]}
