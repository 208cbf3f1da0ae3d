"""PUT /api/repositories/{id}"""

from functools import cache
from typing import Any

import pytest

from tests.contract.fields import RETENTION, error_of
from tests.support.running import PASSPHRASE, Running, Services
from tests.support.service import Client


@cache
def changed_often(running: Running) -> dict[str, Any]:
    """A repository of these tests alone: others could not back up to it while it is in observe mode."""
    return running.new_repository()


@pytest.fixture
def repository(running: Running) -> dict[str, Any]:
    """The current record of a repository that these tests may change."""
    now: dict[str, Any] = running.admin.get(f"/api/repositories/{changed_often(running)['id']}").json()
    return now


def change(client: Client, repository: dict[str, Any], **values: Any) -> Any:
    return client.put(f"/api/repositories/{repository['id']}", json=values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression", "auto,zstd,5"),
        ("source_paths", ["/etc", "/var/lib"]),
        ("exclude_patterns", ["*.o"]),
        ("archive_name_template", "{repository}-{now:%H%M%S}"),
        ("custom_flags", ["--one-file-system"]),
        ("upload_ratelimit_kib", 77),
        ("mode", "observe"),
        ("history_index_excludes", ["*.cache"]),
    ],
)
def test_a_change_sets_the_given_field_and_leaves_the_rest_alone(
    admin: Client, repository: dict[str, Any], name: str, value: Any
) -> None:
    answer = change(admin, repository, **{name: value})

    assert answer.status_code == 200, answer.text
    changed = answer.json()
    assert changed[name] == value
    assert changed == admin.get(f"/api/repositories/{repository['id']}").json()
    assert changed["updated_at"] > repository["updated_at"]
    moved = {"updated_at", name} | (
        {"actions", "refusals"} if name == "mode" else set()
    )  # the mode decides what is allowed
    assert {key: changed[key] for key in changed if key not in moved} == {
        key: repository[key] for key in repository if key not in moved
    }


@pytest.mark.parametrize("mode", ["archives", "full", "off"])
def test_each_index_mode_of_the_contract_is_accepted(running: Running, admin: Client, mode: str) -> None:
    repository = running.new_repository()

    assert change(admin, repository, index_mode=mode).json()["index_mode"] == mode
    assert admin.get(f"/api/repositories/{repository['id']}").json()["index_mode"] == mode


def test_retention_is_replaced_as_a_whole(admin: Client, repository: dict[str, Any]) -> None:
    change(admin, repository, retention={"keep_daily": 7, "keep_yearly": 2})
    answer = change(admin, repository, retention={"keep_hourly": 24})

    assert answer.json()["retention"] == {**dict.fromkeys(RETENTION), "keep_hourly": 24}


def test_an_upload_limit_can_be_removed(admin: Client, repository: dict[str, Any]) -> None:
    assert change(admin, repository, upload_ratelimit_kib=5).json()["upload_ratelimit_kib"] == 5
    assert change(admin, repository, upload_ratelimit_kib=None).json()["upload_ratelimit_kib"] is None


@pytest.mark.parametrize("mode", ["FULL", "history", "", None, 1, ["full"]])
def test_an_index_mode_outside_the_contract_is_refused(admin: Client, repository: dict[str, Any], mode: Any) -> None:
    answer = change(admin, repository, index_mode=mode, compression="lzma,6")

    assert answer.status_code == 422
    now = admin.get(f"/api/repositories/{repository['id']}").json()
    assert (now["index_mode"], now["compression"]) == (repository["index_mode"], repository["compression"])


@pytest.mark.parametrize(
    "values",
    [
        {"path": "/elsewhere"},
        {"encryption": "none"},
        {"engine_version": 2},
        {"id": 5},
        {"name": None},
        {"source_paths": None},
        {"source_paths": ["relative"]},
        {"custom_flags": ["--json"]},
        {"exclude_patterns": ["re:["]},
        {"retention": {"keep_daily": "many"}},
        {"has_passphrase": False},
    ],
)
def test_read_only_fields_and_invalid_values_are_refused_with_422(
    admin: Client, repository: dict[str, Any], values: dict[str, Any]
) -> None:
    assert change(admin, repository, **values).status_code == 422
    assert admin.get(f"/api/repositories/{repository['id']}").json() == repository


def test_a_new_name_applies_to_new_operations_while_old_ones_keep_theirs(running: Running, admin: Client) -> None:
    repository = running.new_repository()
    before = admin.start_backup(repository)
    admin.wait_for_end(before)
    name = running.new_name("renamed")

    assert change(admin, repository, name=name).json()["name"] == name
    after = admin.start_backup(repository)
    assert admin.wait_for_end(after)["repository"] == name
    assert admin.operation(before)["repository"] == repository["name"]


def test_the_name_of_another_repository_is_refused(running: Running, admin: Client, repository: dict[str, Any]) -> None:
    taken = change(admin, repository, name=running.known.repository["name"])

    assert error_of(taken) == (409, "repository.name_taken")
    assert change(admin, repository, name=repository["name"]).status_code == 200


@pytest.mark.parametrize("engine", ["1.2", "1.4"])
def test_a_new_passphrase_is_verified_before_it_is_stored(services: Services, engine: str) -> None:
    running = services.get(engine=engine)
    admin = running.admin
    repository = running.new_repository(encryption="repokey")

    assert error_of(change(admin, repository, passphrase="a wrong one")) == (422, "engine.passphrase_wrong")
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed", "the right one is still stored"

    running.outside.change_passphrase(repository["path"], PASSPHRASE, "another passphrase")
    failed = admin.wait_for_end(admin.start_backup(repository))
    assert (failed["status"], failed["error_key"]) == ("failed", "engine.passphrase_wrong")

    answer = change(admin, repository, passphrase="another passphrase")
    assert answer.status_code == 200
    assert "another passphrase" not in answer.text
    assert admin.wait_for_end(admin.start_backup(repository))["status"] == "completed"


def test_an_unencrypted_repository_refuses_a_passphrase(admin: Client, repository: dict[str, Any]) -> None:
    assert error_of(change(admin, repository, passphrase="something")) == (422, "repository.no_key")


def test_a_new_passphrase_for_a_busy_repository_is_refused_and_names_the_holder(
    running: Running, admin: Client
) -> None:
    repository = running.new_repository(encryption="repokey")

    with running.held_backup(repository) as (job_id, _gate):
        answer = change(admin, repository, passphrase=PASSPHRASE)
        assert error_of(answer) == (423, "repository.busy")
        assert answer.json()["detail"]["params"]["operation_id"] == job_id
        assert int(answer.headers["Retry-After"]) > 0
        assert change(admin, repository, compression="zstd").status_code == 200, "this does not need the engine"


def test_only_an_admin_may_change_a_repository(running: Running, repository: dict[str, Any]) -> None:
    for role in ("viewer", "operator"):
        client = running.client_with_right(repository, role)
        assert error_of(change(client, repository, mode="observe")) == (403, "access.forbidden")
    assert error_of(change(running.stranger, repository, mode="observe")) == (404, "repository.not_found")


def test_an_unknown_repository_cannot_be_changed(admin: Client) -> None:
    assert error_of(admin.put("/api/repositories/999999", json={"mode": "full"})) == (404, "repository.not_found")
