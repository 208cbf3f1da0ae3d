"""Archives as folders of a read-only network drive below /dav, with an account token as the password."""

import base64
import os
import subprocess
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, unquote_to_bytes
from xml.etree import ElementTree as ET

import pytest

from tests.contract.archives.world import LINES, NOT_UTF8, World
from tests.contract.fields import error_of
from tests.support.service import ADMIN_PASSWORD, PATIENCE, Client

D = "{DAV:}"
ASKED = b'<?xml version="1.0"?><propfind xmlns="DAV:"><prop><getcontentlength/><quota-used-bytes/></prop></propfind>'


def token_of(client: Client, **more: Any) -> str:
    answer = client.post("/api/settings/tokens", json={"name": "a drive", "scope": "read", **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


class Drive:
    """The drive as seen by a client with a user name and a password."""

    def __init__(self, client: Client, username: str = "admin", token: str | None = None) -> None:
        self.username = username
        self.token = token_of(client) if token is None else token
        given = base64.b64encode(f"{username}:{self.token}".encode()).decode()
        self.client = Client(base_url=client.base_url, headers={"Authorization": f"Basic {given}"})

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
        return self.client.request(method, f"/dav{path}", content=body, headers=headers)

    def folder(self, path: str) -> dict[str, ET.Element]:
        """The address and properties of the folder itself and then of each entry in it."""
        answer = self.ask("PROPFIND", path, Depth="1")
        assert answer.status_code == 207, answer.text
        assert answer.headers["content-type"].startswith("application/xml")
        found = {}
        for one in ET.fromstring(answer.content).iter(f"{D}response"):
            prop = one.find(f"{D}propstat/{D}prop")
            assert prop is not None
            found[one.findtext(f"{D}href") or ""] = prop
        return found

    def names(self, path: str) -> list[bytes]:
        return [unquote_to_bytes(address.rstrip("/").rpartition("/")[2]) for address in list(self.folder(path))[1:]]


@pytest.fixture
def drive(world: World) -> Drive:
    return Drive(world.admin)


def address(world: World, archive: str = "latest", path: str | bytes = "") -> str:
    below = path.encode() if isinstance(path, str) else path
    return f"/{quote(world.repository['name'])}/{quote(archive)}" + (f"/{quote(below)}" if below else "")


def test_the_drive_shows_repositories_archives_folders_and_file_contents(world: World, drive: Drive) -> None:
    name = world.repository["name"].encode()
    assert name in drive.names("")
    assert name in drive.names("/")
    assert drive.names(f"/{quote(name)}/") == [
        b"latest",
        *(world.names[word].encode() for word in sorted_by_time(world)),
    ]

    folder = drive.folder(address(world, world.names["d1"], world.at("")))
    itself, notes = (
        next(iter(folder.items())),
        folder["/dav" + address(world, world.names["d1"], world.at("notes.txt"))],
    )
    assert itself[0].endswith("/")
    assert itself[1].find(f"{D}resourcetype/{D}collection") is not None
    assert notes.findtext(f"{D}getcontentlength") == "4"
    assert notes.find(f"{D}resourcetype/{D}collection") is None
    modified = parsedate_to_datetime(notes.findtext(f"{D}getlastmodified") or "")
    assert abs(modified.timestamp() - (world.story.docs / "notes.txt").stat().st_mtime) < 10**9

    content = drive.ask("GET", address(world, world.names["d1"], world.at("notes.txt")))
    assert (content.status_code, len(content.content)) == (200, 4)
    live = world.get(f"/archives/{world.ids['d1']}/browse", path=world.at(""))
    shown = {exact(entry) for entry in live["entries"] if entry["type"] in "d-"}
    assert set(drive.names(address(world, world.names["d1"], world.at("")))) == shown


def exact(entry: dict[str, Any]) -> bytes:
    coded: str | None = entry["name_b64"]
    return base64.b64decode(coded) if coded else str(entry["name"]).encode()


def sorted_by_time(world: World) -> list[str]:
    return sorted(world.times, key=lambda word: world.times[word])


def test_parent_folders_lead_down_to_the_sources(world: World, drive: Drive) -> None:
    above = world.at("").rstrip("/").split("/")
    for depth in range(len(above)):
        folder = address(world, world.names["d1"], "/".join(above[:depth]))
        assert drive.names(folder) == [above[depth].encode()]
        assert drive.ask("PROPFIND", folder, Depth="0").status_code == 207


def test_latest_or_a_time_selects_the_matching_archive(world: World, drive: Drive) -> None:
    order = sorted_by_time(world)
    first, last = order[0], order[-1]

    def seen(archive: str) -> list[bytes]:
        return drive.names(address(world, archive))

    assert seen("latest") == seen(world.names[last])
    assert seen(f"{world.times[first]:%Y-%m-%dT%H:%M:%S}Z") == seen(world.names[first])
    day = world.times[first].date()
    newest_of_day = max((word for word in order if world.times[word].date() == day), key=order.index)
    assert seen(f"{day:%Y-%m-%d}") == seen(world.names[newest_of_day])
    for nothing in ("1999-01-01", "2026-02-31", "nothing"):
        assert error_of(drive.ask("PROPFIND", address(world, nothing), Depth="0")) == (404, "dav.not_found")


def test_names_with_line_breaks_or_invalid_utf8_are_listed_and_readable(world: World, drive: Drive) -> None:
    folder = address(world, world.names["d1"], world.at("letters"))
    for name in drive.names(folder):
        answer = drive.ask("HEAD", f"{folder}/{quote(name)}")
        assert answer.status_code in (200, 403), name
    names = set(drive.names(folder)) | set(drive.names(address(world, world.names["d1"], world.at(""))))
    assert any(NOT_UTF8 in name for name in names)
    assert any(LINES.encode() in name for name in names)
    lines = drive.ask("GET", address(world, world.names["d1"], world.at(LINES)))
    assert (lines.status_code, lines.content) == (200, b"lines\n")


def test_file_metadata_comes_from_the_index_and_an_unchanged_file_is_not_sent_again(world: World, drive: Drive) -> None:
    file = address(world, world.names["d1"], world.at("notes.txt"))
    head = drive.ask("HEAD", file)

    assert (head.status_code, head.headers["content-length"]) == (200, "4")
    by_parts = drive.ask("GET", file, Range="bytes=1-2")
    if head.headers["accept-ranges"] == "bytes":
        assert (by_parts.status_code, by_parts.headers["content-range"]) == (206, "bytes 1-2/4")
        assert by_parts.content == drive.ask("GET", file).content[1:3]
    else:
        assert (by_parts.status_code, len(by_parts.content)) == (200, 4)
    again = drive.ask("GET", file, **{"If-None-Match": head.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    sent = drive.ask("GET", file)
    assert sent.headers["etag"] == head.headers["etag"]
    assert sent.headers["content-disposition"].startswith("attachment")
    assert sent.headers["content-type"] == "application/octet-stream"
    assert sent.headers["x-content-type-options"] == "nosniff"


def test_only_requested_properties_are_returned_and_unknown_ones_are_listed_as_not_found(
    world: World, drive: Drive
) -> None:
    answer = drive.ask("PROPFIND", address(world, world.names["d1"], world.at("notes.txt")), ASKED, Depth="0")

    found = {
        stat.findtext(f"{D}status"): [each.tag for prop in stat.iter(f"{D}prop") for each in prop]
        for stat in ET.fromstring(answer.content).iter(f"{D}propstat")
    }
    assert found == {"HTTP/1.1 200 OK": [f"{D}getcontentlength"], "HTTP/1.1 404 Not Found": [f"{D}quota-used-bytes"]}


@pytest.mark.parametrize(
    ("method", "headers", "body", "expected"),
    [
        ("PROPFIND", {"Depth": "infinity"}, None, 403),
        ("PROPFIND", {}, None, 403),
        ("PROPFIND", {"Depth": "1"}, b"<propfind", 422),
        ("PROPFIND", {"Depth": "1"}, b"<other/>", 422),
        ("PROPFIND", {"Depth": "1"}, b'<!DOCTYPE x [<!ENTITY a "b">]><propfind xmlns="DAV:"/>', 422),
        ("PROPFIND", {"Depth": "1"}, b" " * 70_000, 413),
        ("GET", {}, None, 403),
        *(
            (method, {}, None, 405)
            for method in ("PUT", "DELETE", "MKCOL", "MOVE", "COPY", "LOCK", "PROPPATCH", "POST")
        ),
    ],
)
def test_write_methods_and_malformed_requests_are_refused(
    world: World, drive: Drive, method: str, headers: dict[str, str], body: bytes | None, expected: int
) -> None:
    assert drive.ask(method, address(world), body, **headers).status_code == expected


BOMBS = {
    "many properties": b"".join(b"<p%d/>" % number for number in range(8000)),
    "a long namespace": b'<x:p xmlns:x="' + b"n" * 30_000 + b'"/>',
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_small_request_cannot_cause_a_huge_response(world: World, drive: Drive, bomb: str) -> None:
    """Each unknown property is repeated for each file, so 64 KiB could grow to hundreds of megabytes for one folder."""
    asked = b'<propfind xmlns="DAV:"><prop>' + BOMBS[bomb] + b"</prop></propfind>"

    assert error_of(drive.ask("PROPFIND", address(world), asked, Depth="1")) == (422, "dav.bad_request")


def test_options_lists_the_supported_methods(drive: Drive) -> None:
    answer = drive.ask("OPTIONS", "/")
    assert (answer.status_code, answer.headers["dav"]) == (200, "1")
    assert set(answer.headers["allow"].split(", ")) == {"OPTIONS", "GET", "HEAD", "PROPFIND"}


def test_the_drive_requires_an_account_token_of_the_named_user(world: World) -> None:
    token = token_of(world.admin)
    metrics = token_of(world.admin, scope="metrics")
    for username, password in (("admin", ADMIN_PASSWORD), ("somebody", token), ("admin", ""), ("", token)):
        answer = Drive(world.admin, username, password).ask("PROPFIND", "/", Depth="0")
        assert (answer.status_code, answer.headers["www-authenticate"].partition(" ")[0]) == (401, "Basic"), username
    assert Drive(world.admin, "admin", metrics).ask("PROPFIND", "/", Depth="0").status_code == 403
    session = world.admin.headers["X-Backup-Authorization"].partition(" ")[2]
    assert Drive(world.admin, "admin", session).ask("PROPFIND", "/", Depth="0").status_code == 401
    nobody = Client(base_url=world.admin.base_url)
    for header in ({}, {"Authorization": "Basic no-base64!"}, {"Authorization": "Basic /w=="}):
        assert nobody.request("PROPFIND", "/dav/", headers={"Depth": "0", **header}).status_code == 401
    assert Drive(world.admin, "admin", token).ask("PROPFIND", "/", Depth="0").status_code == 207


def test_a_user_without_rights_sees_nothing_and_cannot_probe_for_repositories(world: World) -> None:
    user = world.running.new_user()
    stranger = Drive(world.running.client_of(user), user["username"])
    viewer_client = world.running.client_with_right(world.repository, "viewer")
    viewer = Drive(viewer_client, viewer_client.get("/api/auth/me").json()["username"])

    assert list(stranger.folder("/")) == ["/dav/"]
    hidden, missing = (stranger.ask("PROPFIND", path, Depth="1") for path in (address(world), "/nothing/latest"))
    assert (hidden.status_code, hidden.text) == (404, missing.text)
    assert stranger.ask("GET", f"/{world.repository['id']}/latest/x").status_code == 404
    assert viewer.names("/") == [world.repository["name"].encode()]
    assert viewer.ask("GET", address(world, world.names["d1"], world.at("notes.txt"))).status_code == 200


def test_paths_cannot_escape_from_archives(world: World, drive: Drive) -> None:
    for path in ("/%2e%2e/etc", "/x/%2e%2e/%2e%2e/etc/passwd", f"{address(world)}/%00", f"{address(world)}/../../x"):
        assert drive.ask("GET", path).status_code == 404, path


def test_reading_adds_one_audit_entry_per_archive(world: World) -> None:
    user = world.running.new_user("admin")
    drive = Drive(world.running.client_of(user), user["username"])
    for _ in range(3):
        assert drive.ask("GET", address(world, world.names["d1"], world.at("notes.txt"))).status_code == 200

    entries = world.admin.get("/api/audit", params={"limit": 200}).json()["entries"]
    mine = [one for one in entries if one["actor"] == user["username"] and one["action"] == "archive.read_by_webdav"]
    assert [one["object_id"] for one in mine] == [str(world.ids["d1"])]


def test_rclone_copies_a_folder_of_an_archive(world: World, drive: Drive, tmp_path: Any) -> None:
    config = tmp_path / "rclone.conf"
    config.write_text(
        f"[drive]\ntype = webdav\nvendor = other\nurl = {drive.client.base_url}/dav\n"
        f"bearer_token = {drive.token}\n".replace("//dav", "/dav")
    )
    folder = f"{world.repository['name']}/{world.names['d1']}/{world.at('letters')}"
    ran = subprocess.run(
        [
            "rclone",
            "--config",
            config,
            "copy",
            f"drive:{folder}",
            tmp_path / "here",
            "--retries",
            "1",
            "--transfers",
            "1",
        ],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    copied = {one.name: one.read_text() for one in (tmp_path / "here").iterdir()}
    letters = {"April.txt": "april\n", "april.txt": "another april\n", "may.txt": "may\n"}
    assert copied == {**letters, **{f"page-{number:02d}": str(number) for number in range(12)}}
