"""Files of archives are read without waiting: in parts, while other work holds the repository, only with a right."""

import base64
import io
import os
import random
import signal
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from sqlalchemy import func, select

from holdfast.operations.models import Operation
from holdfast.operations.status import Status
from tests.contract.archives.test_webdav import Drive
from tests.contract.fields import error_of
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.gate import FLAG
from tests.support.running import Running, Services
from tests.support.service import Client, wait_until
from tests.support.sshd import Sshd, sshd
from tests.support.warm_engines import warm_program

LARGE = 12_000_000
PNG = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Library:
    """A repository with one archive that is indexed by chunks."""

    running: Running
    repository: dict[str, Any]
    source: Path
    archive_id: int

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}/archives/{self.archive_id}"

    def get(self, name: str, client: Client | None = None, what: str = "files", **headers: str) -> Any:
        path = str(self.source / name)
        return (client or self.running.admin).get(f"{self.url}/{what}", params={"path": path}, headers=headers)

    @property
    def archive_name(self) -> str:
        archives = self.running.admin.get(f"/api/repositories/{self.repository['id']}/archives").json()["archives"]
        return next(str(one["name"]) for one in archives if one["id"] == self.archive_id)

    @property
    def place(self) -> Path:
        """The folder of a repository on this machine, or on a server that is also this machine."""
        return Path("/" + self.repository["path"].removeprefix("ssh://").partition("/")[2])

    def readers(self) -> list[psutil.Process]:
        """The processes that read for this service."""
        children = psutil.Process(self.running.process.process.pid).children(recursive=True)
        return [child for child in children if any("chunks/helper" in word for word in _words(child))]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def fill(source: Path) -> None:
    rng = random.Random(5)
    (source / "large").write_bytes(rng.randbytes(LARGE))
    (source / "small").write_bytes(b"0123456789")
    (source / "empty").touch()
    os.link(source / "small", source / "zz-second-name")
    (source / "link").symlink_to("small")
    (source / "folder").mkdir()
    (source / "picture").write_bytes(PNG)
    (source / "words").write_text("héllo\n" * 5000)


def make(running: Running, *beside: Path, **more: Any) -> Library:
    source = running.new_folder("source")
    fill(source)
    repository = running.admin.create_repository(
        running.new_path(), [source, *beside], **{"index_mode": "full", "custom_flags": [FLAG], **more}
    )
    assert running.admin.wait_for_end(running.admin.start_backup(repository))["status"] == "completed"

    def indexed() -> int | None:
        listed = running.admin.get(f"/api/repositories/{repository['id']}/archives").json()["archives"]
        return next((one["id"] for one in listed if one["history_state"] == "indexed"), None)

    return Library(running, repository, source, wait_until(indexed, what="the archive is indexed"))


@pytest.fixture(scope="module")
def libraries(services: Services) -> Callable[[str], Library]:
    """The library on each store, built on first use."""

    @cache
    def of(store: str) -> Library:
        assert ENGINE_2 is not None
        programs = {"HOLDFAST_BORG1": str(warm_program(ENGINES["1.4"])), "HOLDFAST_BORG2": str(warm_program(ENGINE_2))}
        return make(services.new(store, **programs, HOLDFAST_INLINE_WAIT_SECONDS="300"))

    return of


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def library(request: pytest.FixtureRequest, libraries: Callable[[str], Library]) -> Library:
    return libraries(request.param)


def test_with_an_index_in_postgresql_everything_is_read_without_the_engine(
    libraries: Callable[[str], Library],
) -> None:
    """All tests of this file run on both stores, but most run on PostgreSQL only in the campaign."""
    library = libraries("postgresql")
    content = (library.source / "large").read_bytes()
    drive = Drive(library.running.admin)
    below = quote(f"{library.repository['name']}/{library.archive_name}{library.source}")
    with library.running.held_backup(library.repository):
        part = library.get("large", Range="bytes=7000000-8999999")
        shown = library.get("words", what="preview")
        tar, zipped = (
            library.running.admin.get(f"{library.url}/download", params={"path": str(library.source), "format": form})
            for form in ("tar", "zip")
        )
        on_drive = drive.ask("GET", f"/{below}/zz-second-name", Range="bytes=2-5")
        names = drive.names(f"/{below}")
    assert (part.status_code, part.content == content[7_000_000:9_000_000]) == (206, True)
    assert shown.json()["text"] == "héllo\n" * 5000
    assert members(tar.content)[f"{library.source.name}/large"][-1] == content
    with zipfile.ZipFile(io.BytesIO(zipped.content)) as found:
        assert found.read(f"{library.source.name}/small") == b"0123456789"
    assert (on_drive.status_code, on_drive.content) == (206, b"2345")
    assert {b"large", b"small", b"folder"} <= set(names)


def test_a_range_request_returns_exactly_those_bytes(library: Library) -> None:
    content = (library.source / "large").read_bytes()
    whole = library.get("large")
    assert (whole.status_code, whole.content == content, whole.headers["accept-ranges"]) == (200, True, "bytes")
    rng = random.Random(7)
    edges = [0, 1, LARGE // 2, LARGE - 1, LARGE, LARGE + 5]
    for _ in range(12):
        first, last = sorted(rng.choice([*edges, rng.randrange(LARGE)]) for _ in range(2))
        for text, start, end in (
            (f"bytes={first}-{last}", first, last + 1),
            (f"bytes={first}-", first, LARGE),
            (f"bytes=-{last}", max(LARGE - last, 0), LARGE),
        ):
            answer = library.get("large", Range=text)
            if start >= LARGE or text == "bytes=-0":
                assert error_of(answer) == (416, "restore.range_outside"), text
                assert answer.headers["content-range"] == f"bytes */{LARGE}"
                continue
            end = min(end, LARGE)
            assert answer.status_code == 206, text
            assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/{LARGE}"
            assert answer.headers["content-length"] == str(end - start)
            assert answer.content == content[start:end], text


@pytest.mark.parametrize("text", ["bytes=1-2,4-5", "bytes=5-2", "bytes=-", "lines=1-2", "bytes=a-b", "bytes=1-2-3"])
def test_an_invalid_range_returns_the_whole_file(library: Library, text: str) -> None:
    answer = library.get("small", Range=text)
    assert (answer.status_code, answer.content) == (200, b"0123456789")


def test_an_unchanged_file_is_not_sent_again_and_a_changed_one_is_sent_whole(library: Library) -> None:
    head = library.running.admin.head(f"{library.url}/files", params={"path": str(library.source / "small")})
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "10", b"")
    tag = head.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = library.get("small", **{"If-None-Match": known})
        assert (answer.status_code, answer.content) == (304, b"")
    assert library.get("small", **{"If-None-Match": '"other"'}).status_code == 200
    resumed = library.get("small", Range="bytes=5-", **{"If-Range": tag})
    assert (resumed.status_code, resumed.content) == (206, b"56789")
    for changed in ('"other"', f"W/{tag}", "Wed, 21 Oct 2015 07:28:00 GMT"):
        whole = library.get("small", Range="bytes=5-", **{"If-Range": changed})
        assert (whole.status_code, whole.content) == (200, b"0123456789")


def test_empty_files_and_hard_links_are_served_and_folders_and_symlinks_refused(library: Library) -> None:
    assert (library.get("empty").status_code, library.get("empty").content) == (200, b"")
    assert error_of(library.get("empty", Range="bytes=0-")) == (416, "restore.range_outside")
    assert library.get("zz-second-name", Range="bytes=2-3").content == b"23"
    for name in ("link", "folder"):
        assert error_of(library.get(name)) == (422, "archives.not_a_file")
    assert error_of(library.get("nothing")) == (404, "archives.path_not_found")


def test_a_revoked_right_hides_the_file_from_the_next_request(library: Library) -> None:
    user = library.running.new_user()
    client = library.running.client_of(user)
    right = f"/api/users/{user['id']}/repositories/{library.repository['id']}"
    assert library.get("small", client).status_code == 404
    assert library.running.admin.put(right, json={"role": "viewer"}).status_code == 200
    assert library.get("small", client, Range="bytes=0-0").status_code == 206
    assert library.running.admin.delete(right).status_code in (200, 204)
    assert library.get("small", client, Range="bytes=0-0").status_code == 404
    assert library.get("small", client, what="preview").status_code == 404


def test_a_killed_reader_is_replaced_and_a_changed_repository_gets_a_new_one(library: Library) -> None:
    assert library.get("small").content == b"0123456789"
    (reader,) = library.readers()
    reader.send_signal(signal.SIGKILL)
    assert library.get("small").content == b"0123456789"
    (reader,) = library.readers()
    config = Path(library.repository["path"]) / "config"
    os.utime(config, ns=(0, config.stat().st_mtime_ns + 1))
    assert library.get("small").content == b"0123456789"
    assert not reader.is_running()


@pytest.mark.parametrize(
    ("name", "kind", "rest"),
    [
        ("small", "text", {"text": "0123456789", "truncated": False, "encoding": "utf-8"}),
        ("empty", "text", {"text": "", "size": 0}),
        ("picture", "image", {"media_type": "image/png", "content_b64": base64.b64encode(PNG).decode()}),
        ("large", "binary", {"size": LARGE, "truncated": True}),
        ("words", "text", {"truncated": False, "text": "héllo\n" * 5000}),
    ],
)
def test_a_preview_shows_the_beginning_of_a_file_by_its_type(
    library: Library, name: str, kind: str, rest: dict[str, Any]
) -> None:
    answer = library.get(name, what="preview")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert {"kind": kind, **rest}.items() <= answer.json().items()


def test_a_file_is_read_while_a_backup_holds_the_repository(library: Library) -> None:
    lock = Path(library.repository["path"]) / "lock.exclusive"
    with library.running.held_backup(library.repository):
        assert lock.exists()
        assert library.get("large", Range="bytes=7-99").content == (library.source / "large").read_bytes()[7:100]
        assert library.get("small", what="preview").json()["text"] == "0123456789"


def exported(library: Library, path: str) -> dict[str, tuple[Any, ...]]:
    """What the engine itself writes into a tar file of a folder."""
    depth = path.rstrip("/").count("/") - 1
    environment = {
        **os.environ,
        "BORG_PASSPHRASE": "a passphrase of the tests",
        "BORG_BASE_DIR": str(library.running.folder / "alone"),
        "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
    }
    command = [
        "export-tar",
        f"--strip-components={depth}",
        f"{library.repository['path']}::{library.archive_name}",
        "-",
        path[1:],
    ]
    written = subprocess.run([ENGINES["1.4"], *command], env=environment, stdout=subprocess.PIPE, check=True)
    return members(written.stdout)


def members(content: bytes) -> dict[str, tuple[Any, ...]]:
    """The entries of a tar file; it does not matter which name of a hard-linked file carries the content."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {
            one.name: (
                *(one.type if not one.islnk() else tarfile.REGTYPE, one.mode, one.uid, one.gid, one.uname, one.gname),
                *(int(one.mtime), one.linkname if one.issym() else ""),
                tar.extractfile(one).read() if one.isreg() or one.islnk() else b"",  # type: ignore[union-attr]
            )
            for one in tar.getmembers()
        }


def test_a_folder_downloads_as_the_engine_would_export_it_while_a_backup_holds_the_repository(
    library: Library,
) -> None:
    params = {"path": str(library.source)}
    wanted = exported(library, str(library.source))
    assert f"{library.source.name}/zz-second-name" in wanted
    with library.running.held_backup(library.repository):
        tar = library.running.admin.get(f"{library.url}/download", params=params)
        zipped = library.running.admin.get(f"{library.url}/download", params={**params, "format": "zip"})
    assert (tar.status_code, zipped.status_code) == (200, 200)
    assert members(tar.content) == wanted
    with zipfile.ZipFile(io.BytesIO(zipped.content)) as found:
        assert found.testzip() is None
        assert {name.rstrip("/") for name in found.namelist()} == wanted.keys()
        for name in ("large", "small", "words", "empty"):
            assert found.read(f"{library.source.name}/{name}") == (library.source / name).read_bytes()


def test_only_an_admin_downloads_the_data_of_the_service_when_the_engine_is_not_used(library: Library) -> None:
    own = library.running.process.data_dir / "install-id"
    other = make(library.running, own, own_places_confirmed=True)
    viewer = other.running.client_with_right(other.repository, "viewer")
    with other.running.held_backup(other.repository):
        by_admin, by_viewer = (
            members(client.get(f"{other.url}/download").content) for client in (other.running.admin, viewer)
        )
    assert by_admin.keys() - by_viewer.keys() == {str(own).lstrip("/")}
    assert str(other.source / "small").lstrip("/") in by_viewer


def test_an_empty_folder_can_be_downloaded_and_a_missing_one_is_not_found(library: Library) -> None:
    answer = library.running.admin.get(f"{library.url}/download", params={"path": str(library.source / "folder")})
    assert list(members(answer.content)) == ["folder"]
    missing = library.running.admin.get(f"{library.url}/download", params={"path": str(library.source / "nothing")})
    assert error_of(missing) == (404, "archives.path_not_found")


@pytest.mark.skipif(ENGINE_2 is None, reason="needs engine 2")
def test_an_engine_2_repository_is_indexed_and_read_by_chunks(library: Library) -> None:
    other = make(library.running, engine_version=2, encryption="none", passphrase=None, custom_flags=[])
    part = other.get("large", Range="bytes=7-99")
    assert (part.status_code, part.headers["accept-ranges"]) == (206, "bytes")
    assert part.content == (other.source / "large").read_bytes()[7:100]
    for name in ("large", "small", "empty", "zz-second-name", "words"):
        assert other.get(name).content == (other.source / name).read_bytes()
    assert other.get("small", what="preview").json()["text"] == "0123456789"
    tar = library.running.admin.get(f"{other.url}/download", params={"path": str(other.source / "words")})
    assert list(members(tar.content)) == ["words"]


def test_a_restore_check_reads_chunks_without_replacing_a_reader(library: Library) -> None:
    assert library.get("small").status_code == 200
    readers = {one.pid for one in library.readers()}
    admin, url = library.running.admin, f"/api/repositories/{library.repository['id']}/restore-check"
    for body, files in (({"sample": 2}, 2), ({"paths": [str(library.source / "large")]}, 1)):
        job = admin.wait_for_end(admin.post(url, json=body).json()["job_id"])

        assert job["status"] == "completed"
        result = job["result"]
        assert (result["read_by"], result["files_proven"], result["problems"]) == ("chunks", files, [])
        assert f"Proven: {files} of {files} files" in admin.log_lines(job["id"])[-1]
    assert readers <= {one.pid for one in library.readers()}, "it takes the place of no reader"


def test_the_reader_of_a_removed_repository_ends(library: Library) -> None:
    other = make(library.running)
    assert other.get("small").status_code == 200
    readers = {one.pid for one in other.readers()}
    library.running.wait_until_idle()
    answer = library.running.admin.delete(f"/api/repositories/{other.repository['id']}")
    assert answer.status_code in (200, 204), answer.text
    wait_until(lambda: len({one.pid for one in other.readers()} & readers) < len(readers), what="its reader ends")


# --- on a server, through `borg serve` ------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnServer(Library):
    server: Sshd
    connection: int

    def files(self) -> dict[str, tuple[int, bytes]]:
        """The modification time and content of every file of the repository except the lock."""
        found = (path for path in self.place.rglob("*") if path.is_file() and not path.name.startswith("lock."))
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}

    def places(self) -> int:
        """The number of requests and readers that wait in the queue."""
        waiting = select(func.count()).where(Operation.executor == "inline", Operation.status == Status.PENDING)
        with self.running.store() as session:
            return session.scalar(waiting) or 0

    def is_locked(self) -> bool:
        return any(self.place.glob("lock.*"))


@pytest.fixture(scope="module")
def on_server(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnServer]:
    with sshd(tmp_path_factory.mktemp("server")) as server:
        number = server.connection(library.running.admin, "server", engine_path=str(warm_program(ENGINES["1.4"])))
        made = make(library.running, repository_type="ssh", ssh_connection_id=number)
        library.running.wait_until_idle()
        without_index = {"index_mode": "off"}  # for later backups; archives that are indexed stay indexed
        assert (
            made.running.admin.put(f"/api/repositories/{made.repository['id']}", json=without_index).status_code == 200
        )
        yield OnServer(made.running, made.repository, made.source, made.archive_id, server, number)


@pytest.mark.campaign
def test_a_repository_on_a_server_is_read_in_parts_even_after_a_cut_and_stays_unchanged(on_server: OnServer) -> None:
    before, content = on_server.files(), (on_server.source / "large").read_bytes()
    part = on_server.get("large", Range="bytes=7-99")
    assert (part.status_code, part.headers["accept-ranges"], part.content) == (206, "bytes", content[7:100])
    assert on_server.is_locked(), "nobody may write meanwhile"
    assert on_server.get("large").content == content
    for name in ("small", "empty", "zz-second-name", "words"):
        assert on_server.get(name).content == (on_server.source / name).read_bytes()
    params = {"path": str(on_server.source)}
    tar = members(on_server.running.admin.get(f"{on_server.url}/download", params=params).content)
    assert tar[f"{on_server.source.name}/large"][-1] == content
    assert on_server.server.cut_links()
    again = on_server.get("small", Range="bytes=2-3")
    assert (again.status_code, again.content) == (206, b"23")
    changed = {"engine_path": str(warm_program(ENGINES["1.4"]))}
    answer = on_server.running.admin.put(f"/api/ssh-connections/{on_server.connection}", json=changed)
    assert answer.status_code == 200, answer.text
    wait_until(lambda: not on_server.is_locked(), what="the reader of the changed connection has given its lock back")
    assert on_server.files() == before


@pytest.mark.campaign
def test_requests_that_waited_for_a_backup_need_no_engine_even_if_another_backup_waits(
    on_server: OnServer,
) -> None:
    admin, words = on_server.running.admin, (on_server.source / "words").read_bytes()
    with ThreadPoolExecutor(4) as clients:
        with on_server.running.held_backup(on_server.repository):
            asked = [clients.submit(on_server.get, "words") for _ in range(3)]
            shown = clients.submit(on_server.get, "small", what="preview")
            wait_until(lambda: on_server.places() == 1, what="they wait in one place")
            following = admin.start_backup(on_server.repository)
        answers = [request.result() for request in asked]
        told = [(answer.status_code, answer.headers["accept-ranges"], answer.content == words) for answer in answers]
        assert told == [(200, "bytes", True)] * 3, "the engine would not accept ranges"
        assert shown.result().json()["text"] == "0123456789"
    assert admin.wait_for_end(following)["status"] == "completed"


@pytest.mark.campaign
def test_a_reader_on_a_server_yields_to_a_backup_and_the_download_resumes_afterwards(on_server: OnServer) -> None:
    content = (on_server.source / "large").read_bytes()
    path = {"path": str(on_server.source / "large")}
    with on_server.running.admin.stream("GET", f"{on_server.url}/files", params=path) as answer:
        blocks = answer.iter_bytes(1000)
        received = [next(blocks)]
        backup = on_server.running.admin.start_backup(on_server.repository)
        assert on_server.running.admin.wait_for_end(backup)["status"] == "completed"
        assert b"".join([*received, *blocks]) == content
    on_server.running.wait_until_idle()
    assert on_server.get("small").content == b"0123456789"
    assert on_server.is_locked()
    forgotten = on_server.running.admin.delete(f"/api/repositories/{on_server.repository['id']}")
    assert forgotten.status_code == 204, "nobody is refused it because of a reader"
    wait_until(lambda: not on_server.is_locked(), what="the reader of the forgotten repository has given its lock back")


@pytest.mark.campaign
def test_no_more_than_four_readers_run_at_the_same_time(services: Services, tmp_path: Path) -> None:
    running = services.new(HOLDFAST_BORG1=str(warm_program(ENGINES["1.4"])))
    libraries = [make(running, encryption="none", passphrase=None) for _ in range(5)]
    for library in libraries:
        assert library.get("small").content == b"0123456789"
        assert len(library.readers()) <= 4
    assert libraries[0].get("small").content == b"0123456789"
