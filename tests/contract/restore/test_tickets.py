"""Download tickets: one download each, within a minute, only for their user and within the user's rights."""

import io
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from sqlalchemy import update

from holdfast.downloads.tickets.models import DownloadTicket
from holdfast.downloads.tickets.store import MOST_PER_USER
from holdfast.kit import clock
from tests.contract.fields import error_of
from tests.contract.restore.known import Known
from tests.support.running import PASSWORD, Running
from tests.support.service import Client

BAD_TICKET = (401, "downloads.bad_ticket")


def wanted(known: Known, *names: str, **more: Any) -> dict[str, Any]:
    ids = {"repository_id": known.repository["id"], "archive_id": known.archive_id}
    return {**ids, "paths": [f"{known.source}/{name}" for name in names], **more}


def address(client: Client, body: dict[str, Any]) -> str:
    answer = client.post("/api/downloads", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["expires_in"] == 60
    url: str = answer.json()["url"]
    return url


def test_a_ticket_downloads_a_file_once_and_without_a_credential(known: Known) -> None:
    url = address(known.viewer, wanted(known, "file-1", format="file"))

    answer = known.running.anonymous().get(url)

    assert answer.status_code == 200
    assert answer.content == (known.source / "file-1").read_bytes()
    assert answer.headers["content-disposition"] == 'attachment; filename="file-1"'
    assert error_of(known.running.anonymous().get(url)) == BAD_TICKET


def test_several_paths_become_one_zip_relative_to_their_common_folder(known: Known) -> None:
    url = address(known.viewer, wanted(known, "file-2", "file-0", format="zip"))

    answer = known.running.anonymous().get(url)

    assert answer.headers["content-disposition"] == f'attachment; filename="{known.source.name}.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as found:
        assert sorted(found.namelist()) == ["file-0", "file-2"]
        assert found.read("file-0") == (known.source / "file-0").read_bytes()


def test_a_missing_path_leaves_a_download_of_several_paths_incomplete(known: Known) -> None:
    """The download is created while it is sent, so only its end can reveal the error."""
    url = address(known.viewer, wanted(known, "file-0", "nowhere", format="zip"))

    with pytest.raises(httpx2.RemoteProtocolError):
        known.running.anonymous().get(url)


def test_only_one_of_several_concurrent_requests_can_use_a_ticket(known: Known) -> None:
    url = address(known.viewer, wanted(known, "file-0", format="file"))

    def status(client: Client) -> int:
        return client.get(url).status_code

    with ThreadPoolExecutor(4) as threads:
        statuses = list(threads.map(status, [known.running.anonymous() for _ in range(4)]))

    assert sorted(statuses) == [200, 401, 401, 401]


def test_a_ticket_downloads_the_log_of_an_operation_once(known: Known) -> None:
    job_id = known.running.warned
    url = address(known.admin, {"operation_id": job_id})

    answer = known.running.anonymous().get(url)

    assert answer.status_code == 200
    assert answer.text.splitlines() == known.admin.log_lines(job_id)
    assert error_of(known.running.anonymous().get(url)) == BAD_TICKET


def test_a_ticket_becomes_invalid_when_the_session_that_requested_it_ends(known: Known) -> None:
    viewer = known.running.client_with_right(known.repository, "viewer")
    url = address(viewer, wanted(known, "file-0"))
    assert viewer.post("/api/auth/logout").status_code == 204

    assert error_of(known.running.anonymous().get(url)) == BAD_TICKET


def test_a_ticket_is_useless_once_the_user_has_lost_the_right(known: Known) -> None:
    user = known.running.new_user("viewer")
    right = f"/api/users/{user['id']}/repositories/{known.repository['id']}"
    assert known.admin.put(right, json={"role": "viewer"}).status_code == 200
    url = address(known.running.client_of(user), wanted(known, "file-0"))
    assert known.admin.delete(right).status_code == 204

    assert error_of(known.running.anonymous().get(url)) == (404, "repository.not_found")


def test_an_expired_ticket_is_refused(known: Known) -> None:
    url = address(known.viewer, wanted(known, "file-0"))
    with known.running.store() as session:
        session.execute(update(DownloadTicket).values(expires_at=clock.now() - timedelta(seconds=1)))

    assert error_of(known.running.anonymous().get(url)) == BAD_TICKET


def test_a_user_without_rights_gets_no_ticket(known: Known) -> None:
    assert error_of(known.running.stranger.post("/api/downloads", json=wanted(known))) == (404, "repository.not_found")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"paths": ["a/../../b"]}, (422, "restore.bad_path")),
        ({"paths": [], "format": "file"}, (422, "archives.not_a_file")),
        ({"paths": ["a", "b"], "format": "file"}, (422, "archives.not_a_file")),
        ({"paths": [f"{number:03}{'a' * 4000}" for number in range(30)]}, (422, "downloads.paths_too_long")),
        ({"archive_id": 999_999}, (404, "archives.not_found")),
        ({"format": "rar"}, None),
        ({"operation_id": 1}, None),
        ({"paths": ["a"] * 1001}, None),
    ],
)
def test_a_ticket_for_an_impossible_download_is_refused(
    known: Known, change: dict[str, Any], error: tuple[int, str] | None
) -> None:
    answer = known.viewer.post("/api/downloads", json={**wanted(known), **change})

    assert (answer.status_code if error is None else error_of(answer)) == (error or 422)


def test_a_user_has_a_limited_number_of_tickets_and_each_is_audited(running: Running) -> None:
    user = running.new_user("admin")
    client = running.process.client().login(user["username"], PASSWORD)
    body = {"operation_id": running.known.job_id}

    answers = [client.post("/api/downloads", json=body) for _ in range(MOST_PER_USER + 1)]

    assert [answer.status_code for answer in answers[:-1]] == [200] * MOST_PER_USER
    assert error_of(answers[-1]) == (429, "downloads.too_many_tickets")
    params = {"actor": user["username"], "action": "downloads.ticket"}
    entries = running.admin.get("/api/audit", params=params).json()["entries"]
    assert len(entries) == MOST_PER_USER
    assert (entries[0]["object_type"], entries[0]["object_id"]) == ("operation", str(running.known.job_id))
