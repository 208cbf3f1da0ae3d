"""Engines, shims and the service are killed during each kind of operation: the record shows its real outcome."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.real.maintenance.world import NAMES, World, a_world

VERBS = {
    "check": "check",
    "prune": "prune",
    "compact": "compact",
    "delete_archive": "delete",
    "restore_check": "extract",
    "wipe": "delete",
}
AT_LENGTH = {
    "killed": ("check", "compact", "delete_archive", "restore_check", "wipe"),
    "left": ("check", "compact", "prune", "restore_check", "wipe"),
    "cancelled": ("check", "compact", "delete_archive"),
}
"""Rows that the others represent in `make test`: they take the same path through the service."""
LEFT = {"prune": {"third"}, "delete_archive": {"first", "third"}, "wipe": set()}
BY_EVIDENCE = ("prune", "delete_archive", "wipe")


def every_kind(scene: str) -> list[Any]:
    return [
        pytest.param(kind, verb, marks=[pytest.mark.campaign] if kind in AT_LENGTH[scene] else [])
        for kind, verb in VERBS.items()
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world")) as world:
        yield world


def assert_done(world: World, kind: str, repository: dict[str, Any], ended: dict[str, Any]) -> None:
    """The work is done, and the record shows neither more nor less than that."""
    assert ended["status"] == "completed", ended
    assert world.names(repository) == LEFT.get(kind, set(NAMES))
    result = ended["result"]
    if kind == "prune":
        assert {gone["archive"] for gone in result["prune"]} == {"first", "second"}
        assert result["pruned_count"] == 2
    if kind == "wipe":
        assert (set(result["deleted"]), result["deleted_count"], result["remaining_count"]) == (set(NAMES), 3, 0)
    if kind == "delete_archive":
        assert result["archive"]["name"] == "second"
    if kind == "restore_check":
        assert result["files_proven"] == 1


@pytest.mark.parametrize(("kind", "verb"), every_kind("killed"))
def test_an_engine_killed_before_its_work_is_started_again(kind: str, verb: str, world: World) -> None:
    repository = world.new_repository()
    before = len(world.engine.came(verb))
    with world.engine.held("before", verb):
        operation = world.start(kind, repository)
        world.kill_engine(world.engine.wait_until_held("before", verb, before + 1))

    ended = world.admin.wait_for_end(operation)

    assert ended["attempt"] == 2
    assert_done(world, kind, repository, ended)


@pytest.mark.parametrize(("kind", "verb"), every_kind("left"))
def test_an_engine_run_without_an_exit_record_is_judged_by_its_effect(kind: str, verb: str, world: World) -> None:
    repository = world.new_repository()
    before = len(world.engine.done(verb))
    with world.engine.held("after", verb):
        operation = world.start(kind, repository)
        pid = world.engine.wait_until_held("after", verb, before + 1)
        world.kill_with_shim(operation, pid)

    ended = world.admin.wait_for_end(operation)

    assert ended["attempt"] == (1 if kind in BY_EVIDENCE else 2)
    assert_done(world, kind, repository, ended)


@pytest.mark.campaign
def test_a_wipe_whose_compaction_is_killed_completes_and_counts_each_archive_once(world: World) -> None:
    repository = world.new_repository()
    before = len(world.engine.came("compact"))
    with world.engine.held("before", "compact"):
        operation = world.start("wipe", repository)
        pid = world.engine.wait_until_held("before", "compact", before + 1)
        world.kill_with_shim(operation, pid)

    ended = world.admin.wait_for_end(operation)

    assert ended["attempt"] == 2
    assert_done(world, "wipe", repository, ended)


@pytest.mark.campaign
def test_work_continues_while_the_service_is_down_and_is_found_again(world: World) -> None:
    world.allow_everything()
    started = []
    verbs = sorted(set(VERBS.values()))
    for verb in verbs:
        (world.engine.notes / f"before-{verb}").touch()
    before = {verb: len(world.engine.came(verb)) for verb in verbs}
    for kind in VERBS:
        repository = world.new_repository()
        started.append((kind, repository, world.start(kind, repository)))
    for verb in verbs:
        world.engine.wait_until_held("before", verb, before[verb] + list(VERBS.values()).count(verb))

    world.service.kill()
    world.service.restart()
    for verb in verbs:
        world.engine.let_go("before", verb)

    for kind, repository, operation in started:
        ended = world.admin.wait_for_end(operation)
        assert ended["attempt"] == 1, kind
        assert_done(world, kind, repository, ended)
        log = world.admin.log_lines(operation)
        assert len(log) == len(set(log)), "no line is doubled"


@pytest.mark.campaign
def test_a_wipe_is_judged_by_evidence_after_service_shim_and_engine_were_killed(world: World) -> None:
    repository = world.new_repository()
    before = len(world.engine.done("delete"))
    with world.engine.held("after", "delete"):
        operation = world.start("wipe", repository)
        pid = world.engine.wait_until_held("after", "delete", before + 1)
        world.service.kill()
        world.kill_with_shim(operation, pid)
    world.service.restart()

    ended = world.admin.wait_for_end(operation)

    assert ended["attempt"] == 1
    assert_done(world, "wipe", repository, ended)


@pytest.mark.campaign
@pytest.mark.parametrize(("kind", "verb"), every_kind("cancelled"))
def test_a_running_operation_is_cancelled_once_its_engine_has_stopped(kind: str, verb: str, world: World) -> None:
    repository = world.new_repository()
    before = len(world.engine.came(verb))
    with world.engine.held("before", verb):
        operation = world.start(kind, repository)
        world.engine.wait_until_held("before", verb, before + 1)
        answer = world.admin.post(f"/api/operations/{operation}/cancel")
        assert answer.status_code == 200, answer.text

        ended = world.admin.wait_for_end(operation)

    assert ended["status"] == "cancelled"
    assert world.names(repository) == set(NAMES), "nothing was removed"
    if kind == "wipe":
        job = world.wipe_job(repository, operation)
        assert (job["status"], job["phase"], job["deleted_count"]) == ("cancelled", "cancelled", 0)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", BY_EVIDENCE)
def test_a_cancel_after_the_work_was_done_does_not_hide_the_result(kind: str, world: World) -> None:
    repository = world.new_repository()
    verb = VERBS[kind]
    before = len(world.engine.done(verb))
    with world.engine.held("after", verb):
        operation = world.start(kind, repository)
        world.engine.wait_until_held("after", verb, before + 1)
        world.admin.post(f"/api/operations/{operation}/cancel")

        ended = world.admin.wait_for_end(operation)

    assert world.names(repository) == LEFT[kind]
    if kind == "wipe":
        job = world.wipe_job(repository, operation)
        assert (job["status"], job["phase"]) == ("completed_compaction_failed", "compact_failed")
        assert (job["deleted_count"], job["remaining_count"]) == (3, 0)
    else:
        assert_done(world, kind, repository, ended)
