"""Requests that restores and downloads refuse, each with its code and key and without leaving a trace."""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.fields import error_of
from tests.contract.restore.known import Known
from tests.support.running import Running

NOBODY = 999_999
BOTH = pytest.mark.parametrize("route", ["/api/restore/start", "/api/restore/preview"])

BAD: list[tuple[str, dict[str, Any], str | None]] = [
    ("a path that climbs", {"paths": ["home/../../etc"]}, "restore.bad_path"),
    ("a path that climbs at once", {"paths": [".."]}, "restore.bad_path"),
    ("a climbing path in base64", {"paths": [{"path_b64": "Li4vZXRj"}]}, "restore.bad_path"),
    ("no base64", {"paths": [{"path_b64": "%%%"}]}, "restore.bad_path"),
    ("a relative destination", {"destination": "restore/here"}, "restore.bad_destination"),
    ("an empty destination", {"destination": ""}, "restore.bad_destination"),
    ("a destination that climbs", {"destination": "/tmp/../etc"}, "restore.bad_destination"),
    ("an ssh target", {"destination_type": "ssh"}, "restore.machine_missing"),
    ("an agent target", {"destination_type": "agent"}, "restore.agent_missing"),
    ("two archives", {"archive_id": 1}, "restore.archive_unclear"),
    ("no archive", {"archive": None}, "restore.archive_unclear"),
    ("two repositories", {"repository": "/somewhere"}, "restore.repository_unclear"),
    ("no repository", {"repository_id": None}, "restore.repository_unclear"),
    (
        "a path below another one",
        {"paths": ["a", "a/b"], "restore_layout": "contents_only"},
        "restore.paths_overlap",
    ),
    ("no destination", {"destination": None}, None),
    ("an unknown layout", {"restore_layout": "flat"}, None),
    ("an unknown way to overwrite", {"overwrite": "always"}, None),
    ("an unknown target", {"destination_type": "cloud"}, None),
    ("a misspelt field", {"overwite": "replace"}, None),
    ("a path that is no text", {"paths": [5]}, None),
    ("a path without its bytes", {"paths": [{"path": "a"}]}, None),
    ("too many paths", {"paths": ["a"] * 1001}, None),
]


@BOTH
@pytest.mark.parametrize(("change", "key"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_body_is_refused(
    known: Known, destination: Path, route: str, change: dict[str, Any], key: str | None
) -> None:
    before = known.traces()

    answer = known.admin.post(route, json=known.body(destination, **change))

    if key is None:
        assert answer.status_code == 422
        assert isinstance(answer.json()["detail"], list)
    else:
        assert error_of(answer) == (422, key)
    assert known.traces() == before
    assert not destination.exists()


@BOTH
def test_a_destination_inside_a_repository_or_the_service_is_refused(known: Known, route: str) -> None:
    data = known.running.process.data_dir
    for place in (known.repository["path"], f"{known.repository['path']}/data/new", str(data), f"{data}/logs"):
        answer = known.admin.post(route, json=known.body(place))

        assert error_of(answer) == (422, "restore.destination_forbidden")


@BOTH
def test_a_destination_below_a_link_or_at_a_file_is_refused(known: Known, tmp_path: Path, route: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()

    behind_link = known.admin.post(route, json=known.body(tmp_path / "link" / "new"))
    behind_file = known.admin.post(route, json=known.body(tmp_path / "file"))

    assert error_of(behind_link) == (422, "restore.destination_is_link")
    assert error_of(behind_file) == (422, "restore.destination_unusable")


@BOTH
def test_an_unknown_repository_or_archive_is_not_found(known: Known, destination: Path, route: str) -> None:
    foreign = known.running.new_repository()
    assert known.archive_id
    cases = {
        "repository.not_found": {"repository_id": NOBODY},
        "repository.not_registered": {"repository_id": None, "repository": "/not/registered"},
        "archives.not_found": {"archive": "no-such-archive"},
    }
    for key, change in cases.items():
        assert error_of(known.admin.post(route, json=known.body(destination, **change))) == (404, key)
    by_number = known.body(destination, archive=None, archive_id=NOBODY)
    of_another = {**by_number, "repository_id": foreign["id"], "archive_id": known.archive_id}
    for body in (by_number, of_another):
        assert error_of(known.admin.post(route, json=body)) == (404, "archives.not_found")


def test_a_user_without_rights_finds_neither_the_repository_nor_its_restores(known: Known, destination: Path) -> None:
    stranger = known.running.stranger
    ended = known.restore(destination, dry_run=True)
    body = known.body(destination)
    by_path = known.body(destination, repository_id=None, repository=known.repository["path"])

    for route in ("/api/restore/start", "/api/restore/preview"):
        assert error_of(stranger.post(route, json=body)) == (404, "repository.not_found")
        assert error_of(stranger.post(route, json=by_path)) == (404, "repository.not_registered")
    for route in ("files?path=a", "download"):
        assert error_of(stranger.get(f"{known.downloads}/{route}")) == (404, "repository.not_found")
    assert error_of(stranger.get(f"/api/restore/status/{ended['id']}")) == (404, "operations.not_found")
    assert error_of(stranger.post(f"/api/restore/cancel/{ended['id']}")) == (404, "operations.not_found")
    assert stranger.get("/api/restore/jobs").json()["jobs"] == []


def test_a_viewer_may_preview_and_download_but_not_restore(known: Known, destination: Path) -> None:
    known.restore(destination, dry_run=True)
    before = known.traces()
    file = known.source / "file-0"

    assert error_of(known.viewer.post("/api/restore/start", json=known.body(destination))) == (403, "access.forbidden")
    assert known.viewer.post("/api/restore/preview", json=known.body(destination)).status_code == 200
    downloaded = known.viewer.get(f"{known.downloads}/files", params={"path": str(file)})
    assert downloaded.content == file.read_bytes()
    assert known.traces() == before
    cancelled = known.viewer.post(f"/api/restore/cancel/{before[0]}")
    assert error_of(cancelled) == (403, "access.forbidden")


def test_an_operator_may_restore(known: Known, destination: Path) -> None:
    answer = known.operator.post("/api/restore/start", json=known.body(destination, dry_run=True))

    assert answer.status_code == 200
    assert known.operator.wait_for_end(answer.json()["job_id"])["status"] == "completed"


def test_an_account_token_may_read_and_download_but_not_start_or_cancel(known: Known, destination: Path) -> None:
    client = known.running.anonymous()
    client.headers["X-Backup-Authorization"] = f"Bearer {known.running.account_token()}"
    file = known.source / "file-0"

    started = client.post("/api/restore/start", json=known.body(destination))
    cancelled = client.post(f"/api/restore/cancel/{NOBODY}")

    assert error_of(started) == error_of(cancelled) == (403, "auth.login_token_required")
    assert client.get("/api/restore/jobs").status_code == 200
    downloaded = client.get(f"{known.downloads}/files", params={"path": str(file)})
    assert downloaded.content == file.read_bytes()


@pytest.mark.parametrize("route", ["/api/restore/jobs", "/api/restore/status/1"])
def test_a_request_without_a_credential_is_refused_with_401(known: Known, route: str) -> None:
    assert known.running.anonymous().get(route).status_code == 401


def test_an_unknown_job_and_a_job_of_another_kind_are_not_found(known: Known) -> None:
    for number in (NOBODY, known.running.known.job_id):
        assert error_of(known.admin.get(f"/api/restore/status/{number}")) == (404, "operations.not_found")
        assert error_of(known.admin.post(f"/api/restore/cancel/{number}")) == (404, "operations.not_found")


@pytest.mark.parametrize(
    ("what", "params", "status", "key"),
    [
        ("files", {"path": "no/such/file"}, 404, "archives.path_not_found"),
        ("download", {"path": "no/such/folder"}, 404, "archives.path_not_found"),
        ("files", {"path": "a/../b"}, 422, "restore.bad_path"),
        ("files", {}, 422, "archives.not_a_file"),
        ("files", {"path": "a", "path_b64": "YQ=="}, 422, "restore.path_unclear"),
        ("download", {"path_b64": "%"}, 422, "restore.bad_path"),
    ],
)
def test_a_download_of_a_missing_or_malformed_path_is_refused(
    known: Known, what: str, params: dict[str, str], status: int, key: str
) -> None:
    answer = known.admin.get(f"{known.downloads}/{what}", params=params)

    assert error_of(answer) == (status, key)


def test_a_download_in_an_unknown_format_is_refused(known: Known) -> None:
    assert known.admin.get(f"{known.downloads}/download", params={"format": "rar"}).status_code == 422


def test_an_unknown_archive_or_one_of_another_repository_cannot_be_downloaded(known: Known) -> None:
    foreign = known.running.new_repository()
    for place in (f"{foreign['id']}/archives/{known.archive_id}", f"{known.repository['id']}/archives/{NOBODY}"):
        answer = known.admin.get(f"/api/repositories/{place}/download")

        assert error_of(answer) == (404, "archives.not_found")


def test_downloads_and_previews_of_a_busy_repository_are_refused_and_name_the_holder(
    impatient: Running, tmp_path: Path
) -> None:
    known = Known(impatient)
    routes = [f"{known.downloads}/download", f"{known.downloads}/files?path=a"]
    with impatient.held_backup(known.repository) as (backup, _gate):
        answers = [impatient.admin.get(route) for route in routes]
        answers.append(impatient.admin.post("/api/restore/preview", json=known.body(tmp_path / "new")))

    for answer in answers:
        assert error_of(answer) == (423, "repository.busy")
        assert answer.json()["detail"]["params"]["operation_id"] == backup
        assert int(answer.headers["Retry-After"]) > 0
