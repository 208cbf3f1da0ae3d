"""Creating, changing and deleting scripts; every version is kept."""

import hashlib
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.contract.scripts.written import URL, Written

SCRIPT = {
    *("id", "name", "description", "where", "interpreter", "arguments", "installed_as", "timeout_seconds"),
    *("parameters", "operators_may_use", "version", "sha256", "changed_by", "created_at", "updated_at"),
}


def test_changed_content_becomes_a_new_version_and_the_old_one_is_kept(written: Written) -> None:
    script = written.new("echo one\n", description="says one")

    changed = written.change(script, content="echo two\n", timeout_seconds=10)

    assert set(script) == {*SCRIPT, "content", "used_by"}
    assert (script["version"], script["interpreter"], script["where"]) == (1, ["/bin/sh"], "service")
    assert (changed["version"], changed["content"], changed["timeout_seconds"]) == (2, "echo two\n", 10)
    assert changed["description"] == "says one"
    versions = written.admin.get(f"{URL}/{script['id']}/versions").json()["versions"]
    assert [(one["version"], one["content"], one["author"]) for one in versions] == [
        (2, "echo two\n", "admin"),
        (1, "echo one\n", "admin"),
    ]
    assert versions[0]["sha256"] == changed["sha256"] == hashlib.sha256(b"echo two\n").hexdigest()
    listed = written.admin.get(f"{URL}/").json()["scripts"]
    assert set(next(one for one in listed if one["id"] == script["id"])) == SCRIPT


def test_a_change_of_other_fields_does_not_create_a_new_version(written: Written) -> None:
    script = written.new("true\n")

    assert written.change(script, description="another", content="true\n")["version"] == 1


def test_a_change_based_on_an_older_version_is_refused(written: Written) -> None:
    script = written.new("echo one\n")
    written.change(script, content="echo two\n")

    refused = written.admin.put(f"{URL}/{script['id']}", json={"version": 1, "content": "echo three\n"})

    assert error_of(refused) == (409, "scripts.version_conflict")
    assert written.admin.get(f"{URL}/{script['id']}").json()["content"] == "echo two\n"


def test_a_deleted_script_is_gone_and_its_name_can_be_reused(written: Written) -> None:
    script = written.new("true\n")
    place = f"{URL}/{script['id']}"

    assert written.admin.delete(place).status_code == 204

    for answer in (
        written.admin.get(place),
        written.admin.put(place, json={}),
        written.admin.delete(place),
        written.admin.get(f"{place}/versions"),
        written.admin.post(f"{place}/run", json={}),
    ):
        assert error_of(answer) == (404, "scripts.not_found")
    again = written.admin.post(f"{URL}/", json={"name": script["name"], "content": "true\n"})
    assert again.status_code == 201


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"content": ""}, 422),
        ({"content": "   \n"}, 422),
        ({"content": "true", "interpreter": []}, 422),
        ({"content": "true", "interpreter": ["sh"]}, 422),
        ({"content": "true", "timeout_seconds": 0}, 422),
        ({"content": "true", "timeout_seconds": 86_401}, 422),
        ({"content": "x" * (256 * 1024 + 1)}, 422),
        ({"content": "true\0"}, 422),
        ({"content": "true", "where": "everywhere"}, 422),
        ({"content": "true", "installed_as": "dump"}, 422),
        ({"content": "true", "where": "agent", "installed_as": "../dump"}, 422),
        ({"content": "true", "parameters": [{"name": "A"}, {"name": "a"}]}, 422),
        ({"content": "true", "parameters": [{"name": "A=B"}]}, 422),
        ({"content": "true", "colour": "red"}, 422),
    ],
)
def test_an_invalid_script_is_refused_and_not_stored(written: Written, body: dict[str, Any], status: int) -> None:
    name = written.running.new_name("refused")

    answer = written.admin.post(f"{URL}/", json={"name": name, **body})

    assert answer.status_code == status, answer.text
    assert name not in [one["name"] for one in written.admin.get(f"{URL}/").json()["scripts"]]


def test_two_scripts_cannot_have_the_same_name(written: Written) -> None:
    first, second = written.new("true\n"), written.new("true\n")

    taken = written.admin.post(f"{URL}/", json={"name": first["name"], "content": "true\n"})

    assert error_of(taken) == (409, "scripts.name_taken")
    assert error_of(written.admin.put(f"{URL}/{second['id']}", json={"name": first["name"]})) == (
        409,
        "scripts.name_taken",
    )


def test_operators_see_and_run_only_scripts_that_allow_operators_without_their_content(written: Written) -> None:
    running = written.running
    theirs = written.new("echo for operators\n", operators_may_use=True, parameters=[{"name": "word"}])
    not_theirs = written.new("echo for admins\n")
    repository = running.new_repository()
    user = running.new_user("operator")
    users = running.admin.get("/api/users").json()["users"]
    user_id = next(one["id"] for one in users if one["username"] == user["username"])
    right = f"/api/users/{user_id}/repositories/{repository['id']}"
    assert running.admin.put(right, json={"role": "operator"}).status_code == 200
    operator, viewer = running.client_of(user), running.client_of(running.new_user("viewer"))

    names = [one["name"] for one in operator.get(f"{URL}/").json()["scripts"]]
    assert theirs["name"] in names
    assert not_theirs["name"] not in names
    read = operator.get(f"{URL}/{theirs['id']}").json()
    assert (read["content"], read["used_by"]) == (None, [])
    assert error_of(operator.get(f"{URL}/{not_theirs['id']}")) == (404, "scripts.not_found")
    body = {"repository_id": repository["id"], "parameters": {"word": "x"}}
    assert error_of(operator.post(f"{URL}/{not_theirs['id']}/run", json=body)) == (404, "scripts.not_found")
    assert error_of(operator.post(f"{URL}/{theirs['id']}/run", json={})) == (422, "scripts.repository_needed")
    other = {"repository_id": running.known.repository["id"]}
    assert error_of(operator.post(f"{URL}/{theirs['id']}/run", json=other)) == (404, "repository.not_found")
    job = operator.post(f"{URL}/{theirs['id']}/run", json=body).json()["job_id"]
    assert running.admin.wait_for_end(job)["status"] == "completed"
    assert viewer.get(f"{URL}/").json()["scripts"] == []
    assert error_of(viewer.get(f"{URL}/{theirs['id']}")) == (404, "scripts.not_found")


def test_every_change_and_run_is_audited_without_the_content(written: Written) -> None:
    script = written.new("echo hush-hush\n")
    written.change(script, content="echo hush\n")
    written.run(script)
    written.admin.delete(f"{URL}/{script['id']}")

    actions = ("script.created", "script.changed", "script_execution.started", "script.deleted")
    found = [written.admin.get("/api/audit", params={"action": action}).json()["entries"] for action in actions]
    mine = [next(one for one in entries if script["name"] in str(one["details"])) for entries in found]
    assert "hush" not in str(mine)
