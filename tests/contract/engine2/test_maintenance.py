"""Deleting and undeleting: engine 2 only marks archives as deleted until the next compaction."""

from typing import Any

import pytest

from tests.contract.archives.world import get
from tests.contract.engine2.world import World, backup, deleted, live, new_repository, run
from tests.contract.fields import error_of
from tests.support.running import PASSPHRASE, Running
from tests.support.service import Client


def series(running: Running, archives: int) -> tuple[dict[str, Any], list[str]]:
    """Create a repository with archives of one name; return it and their ids, oldest first."""
    repository = new_repository(running)
    return repository, [backup(running, repository)["result"]["archive"]["id"] for _ in range(archives)]


def test_a_prune_removes_what_its_dry_run_listed_and_undelete_works_until_the_next_compaction(
    running: Running, admin: Client
) -> None:
    repository, (first, second, third) = series(running, 3)
    url = f"/api/repositories/{repository['id']}"
    plan = admin.post(f"{url}/prune", json={"keep_last": 1, "dry_run": True}).json()["prune_result"]
    assert (plan["kept_count"], plan["pruned_count"], plan["keep"][0]["rule"]) == (1, 2, "keep")
    assert set(live(running, repository)) == {first, second, third}

    pruned = run(running, repository, "prune", keep_last=1)
    assert pruned["status"] == "completed", pruned
    assert [one["archive"] for one in pruned["result"]["prune"]] == [one["archive"] for one in plan["prune"]]
    assert {one["id"] for one in pruned["result"]["prune"]} == {first, second}
    assert pruned["result"]["soft_deleted"] is True
    assert "compaction" in pruned["result"]["note"]
    assert list(live(running, repository)) == [third]
    assert sorted(deleted(running, repository)) == sorted([first, second])

    back = run(running, repository, f"deleted-archives/{first}/undelete")
    assert (back["status"], back["result"]["archive"]["id"]) == ("completed", first), back
    assert set(live(running, repository)) == {first, third}
    known = get(admin, f"{url}/archives")["archives"]
    assert {one["engine_id"] for one in known} == {first, third}

    assert run(running, repository, "compact")["status"] == "completed"
    assert deleted(running, repository) == []
    late = run(running, repository, f"deleted-archives/{second}/undelete")
    assert (late["status"], late["error_key"]) == ("failed", "archives.gone")


@pytest.mark.campaign
def test_a_protected_archive_of_a_series_survives_a_prune_of_the_others(running: Running, admin: Client) -> None:
    repository, (first, second, third) = series(running, 3)
    url = f"/api/repositories/{repository['id']}"
    number = next(one["id"] for one in get(admin, f"{url}/archives")["archives"] if one["engine_id"] == first)
    assert admin.put(f"{url}/archives/{number}", json={"protected": True}).status_code == 200

    pruned = run(running, repository, "prune", keep_last=1)

    assert pruned["status"] == "completed", pruned
    assert [one["id"] for one in pruned["result"]["prune"]] == [second]
    assert set(live(running, repository)) == {first, third}
    assert error_of(admin.delete(f"/api/archives/{number}")) == (409, "archives.protected")


@pytest.mark.campaign
def test_one_archive_of_a_series_is_deleted_by_its_id_and_the_others_stay(running: Running, admin: Client) -> None:
    repository, (first, second) = series(running, 2)
    known = get(admin, f"/api/repositories/{repository['id']}/archives")["archives"]
    number = next(one["id"] for one in known if one["engine_id"] == second)
    by_name = admin.delete(f"/api/archives/{repository['name']}", params={"repository": repository["path"]})
    assert error_of(by_name) == (409, "archives.name_ambiguous")

    gone = admin.wait_for_end(admin.delete(f"/api/archives/{number}").json()["job_id"])

    assert gone["status"] == "completed", gone
    assert (gone["result"]["archive"]["id"], gone["result"]["soft_deleted"]) == (second, True)
    assert set(live(running, repository)) == {first}
    assert deleted(running, repository) == [second]


@pytest.mark.campaign
def test_a_wipe_removes_every_archive_permanently(running: Running, admin: Client) -> None:
    repository, made = series(running, 2)
    url = f"/api/repositories/{repository['id']}"
    preview = admin.post(f"{url}/wipe-preview", json={}).json()
    assert preview["archive_count"] == len(made)
    body = {
        "preview_id": preview["id"],
        "preview_fingerprint": preview["archive_fingerprint"],
        "confirmation_phrase": preview["confirmation_phrase"],
        "understood": True,
    }
    answer = admin.post(f"{url}/wipe", json=body)
    assert answer.status_code == 200, answer.text
    ended = admin.wait_for_end(answer.json()["id"])

    assert ended["status"] == "completed", (ended, admin.log_lines(ended["id"]))
    assert ended["result"]["deleted_count"] == len(made)
    assert live(running, repository) == {}
    assert deleted(running, repository) == []


def test_a_check_reports_its_verdicts(world: World) -> None:
    ended = run(world.running, world.repository, "check", verify_data=True)

    assert ended["status"] == "completed", ended
    assert ended["result"]["problems"] == []
    assert ended["result"]["verdicts"] == ["no problems found", "no problems found"]


def test_keep_within_is_refused_and_removes_nothing(world: World) -> None:
    for body in ({"keep_within": "7d"}, {"keep_within": "7d", "dry_run": True}):
        answer = world.admin.post(f"{world.url}/prune", json=body)
        assert error_of(answer) == (422, "engine.unsupported")


def test_engine_1_does_not_support_undeleting_archives(running: Running, admin: Client) -> None:
    url = f"/api/repositories/{running.scratch['id']}/deleted-archives"

    assert error_of(admin.get(url)) == (422, "engine.unsupported")
    assert error_of(admin.post(f"{url}/{'0' * 64}/undelete")) == (422, "engine.unsupported")


@pytest.mark.campaign
def test_the_key_of_an_encrypted_repository_is_exported_and_its_lock_can_be_broken(
    running: Running, admin: Client
) -> None:
    repository = new_repository(running, encryption="chacha20-poly1305-blake3")
    url = f"/api/repositories/{repository['id']}"

    assert admin.get(f"{url}/key").json()["key"].startswith("BORG_KEY ")
    assert admin.post(f"{url}/break-lock").status_code == 200
    backup(running, repository)
    assert admin.get(url).json()["encryption"] == "chacha20-poly1305-blake3"
    assert PASSPHRASE not in "\n".join(running.engine_calls())


def test_deleting_by_a_name_that_several_archives_share_is_refused(world: World) -> None:
    by_name = world.admin.delete(
        f"/api/archives/{world.repository['name']}", params={"repository": world.repository["path"]}
    )

    assert error_of(by_name) == (409, "archives.name_ambiguous")
