"""Lists are served from the cache while nothing was committed: never to another user, and never after a change."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from bench.filling import fill, prepare
from holdfast.settings import Settings
from tests.support.in_process import InProcess, started
from tests.support.service import ADMIN_PASSWORD

REPOSITORIES = "/api/repositories/"
OPERATIONS = "/api/operations/"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    folder = tmp_path_factory.mktemp("remembered")
    database = prepare(Settings(data_dir=folder, database_url=None, admin_password=SecretStr(ADMIN_PASSWORD)))
    fill(database, 60)
    database.dispose()
    with started(folder, role="api") as service:
        yield service


@pytest.fixture
def admin(running: InProcess) -> dict[str, str]:
    return running.login()


@pytest.fixture
def viewer(running: InProcess) -> dict[str, str]:
    return running.login("few")


def read(running: InProcess, path: str, who: dict[str, str], **query: Any) -> Any:
    answer = running.client.get(path, headers=who, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def change(running: InProcess, statement: str) -> None:
    """As another process would."""
    connection = sqlite3.connect(running.service.settings.data_dir / "holdfast.db")
    try:
        connection.execute(statement)
        connection.commit()
    finally:
        connection.close()


def names(answer: Any) -> list[str]:
    return [repository["name"] for repository in answer["repositories"]]


def test_a_list_shows_what_another_process_has_changed(running: InProcess, admin: dict[str, str]) -> None:
    for name in ("first name", "second name", "third name"):
        change(running, f"UPDATE repositories SET name = '{name}' WHERE id = 1")
        for _ in range(3):
            assert name in names(read(running, REPOSITORIES, admin))


def test_no_user_gets_another_users_list(running: InProcess, admin: dict[str, str], viewer: dict[str, str]) -> None:
    for _ in range(3):
        assert len(names(read(running, REPOSITORIES, admin))) == 50
        assert len(names(read(running, REPOSITORIES, viewer))) == 5
        assert {item["repository_id"] for item in read(running, OPERATIONS, viewer)["items"]} <= {1, 2, 3, 4, 5}


def test_a_revoked_right_takes_effect_with_the_next_list(running: InProcess, viewer: dict[str, str]) -> None:
    taken = "repository_rights WHERE user_id = (SELECT id FROM users WHERE username = 'few') AND repository_id = 5"
    assert len(names(read(running, REPOSITORIES, viewer))) == len(names(read(running, REPOSITORIES, viewer))) == 5
    change(running, f"DELETE FROM {taken}")
    assert len(names(read(running, REPOSITORIES, viewer))) == 4
    change(running, "INSERT INTO repository_rights SELECT id, 5, 'viewer' FROM users WHERE username = 'few'")
    assert len(names(read(running, REPOSITORIES, viewer))) == 5


def test_each_page_size_and_filter_is_cached_separately(running: InProcess, admin: dict[str, str]) -> None:
    for _ in range(2):
        assert len(read(running, OPERATIONS, admin, limit=3)["items"]) == 3
        assert len(read(running, OPERATIONS, admin, limit=4)["items"]) == 4
        assert {item["status"] for item in read(running, OPERATIONS, admin, status="completed")["items"]} == {
            "completed"
        }


def test_a_running_operation_ages_in_every_list(running: InProcess, admin: dict[str, str]) -> None:
    first, second = (read(running, OPERATIONS, admin, status="running")["items"][0] for _ in range(2))
    assert first["id"] == second["id"]
    assert second["duration_seconds"] > first["duration_seconds"]


def test_a_cached_list_still_requires_a_credential(running: InProcess, admin: dict[str, str]) -> None:
    read(running, REPOSITORIES, admin)
    read(running, REPOSITORIES, admin)
    assert running.client.get(REPOSITORIES).status_code == 401
    assert running.client.post("/api/auth/logout", headers=admin).status_code == 204
    assert running.client.get(REPOSITORIES, headers=admin).status_code == 401
