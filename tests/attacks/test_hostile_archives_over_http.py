"""Archives with random hostile items, all the way over HTTP: index, browse, WebDAV, downloads, restore check, restore.

Every request gets a clear response, every failed job an error key, nothing appears outside the destination, and the
service takes little memory. Seeds as in `test_hostile_repositories`: `HOLDFAST_HOSTILE_SEEDS=17` runs only that one.

`make test` indexes 15 archives, and browses and reads every third one in one of the other ways; the campaign runs
1,000 of each engine, each in every way.
"""

import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes
from xml.etree import ElementTree as ET

import httpx2
import pytest

from backup_engine.far.unpack import link_fault, name_fault
from tests.contract.fields import error_of
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.hostile import HostileRepository
from tests.support.hostile_cases import case, wanted_seeds
from tests.support.peak import MIB, growth_of
from tests.support.running import Running, Services
from tests.support.service import Client, wait_until

WITHOUT_ENGINE_2 = pytest.mark.skipif(ENGINE_2 is None, reason="there is no engine of major 2")
BOUND = 64 * MIB
IN_EVERY_RUN = 15
IN_THE_CAMPAIGN = 1000
OF_A_REPOSITORY = 50
"""Archives per repository: each restore check makes the engine list all of them."""
WAYS = ("files", "tar", "zip", "check", "restore")
ENDS = {"completed", "completed_with_warnings", "failed"}
AT_A_TIME = 2
MOST_FOLDERS = 50
"""Some archives have a thousand nested folders."""


@dataclass(frozen=True)
class Surroundings:
    """A folder with files that nothing may touch, and the destination within it."""

    folder: Path

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    @property
    def destination(self) -> Path:
        return self.folder / "destination"

    def seen(self) -> dict[str, tuple[Any, ...]]:
        """Everything except the contents of the destination."""
        found = {}
        for place, folders, files in os.walk(self.folder):
            if Path(place) == self.destination:
                folders.clear()
                continue
            for name in [*folders, *files]:
                status = os.lstat(os.path.join(place, name))
                is_ours = Path(place, name) == self.destination
                facts = (status.st_ino, status.st_mode, status.st_uid, status.st_nlink, status.st_size)
                found[os.path.join(place, name)] = facts if not is_ours else facts[:2]
        return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    services = Services(tmp_path_factory.mktemp("hostile-over-http"))
    yield services.get()
    services.stop()


@pytest.fixture
def surroundings(tmp_path: Path) -> Surroundings:
    made = Surroundings(tmp_path / "around")
    made.outside.mkdir(parents=True)
    made.destination.mkdir()
    (made.outside / "victim").write_text("somebody else's")
    return made


@pytest.mark.parametrize("major", [1, pytest.param(2, marks=WITHOUT_ENGINE_2)])
@pytest.mark.parametrize(
    ("cases", "ways", "each"),
    [
        pytest.param(IN_EVERY_RUN, 1, 3, id="few"),
        pytest.param(IN_THE_CAMPAIGN, len(WAYS), 1, id="many", marks=pytest.mark.campaign),
    ],
)
def test_every_hostile_archive_gets_a_clear_response_and_nothing_is_written_outside(
    running: Running, surroundings: Surroundings, cases: int, ways: int, each: int, major: int
) -> None:
    assert running.process.process is not None
    before, places, seeds = surroundings.seen(), set(os.listdir("/")), wanted_seeds(cases)

    for first in range(0, len(seeds), OF_A_REPOSITORY):
        repository = running.new_repository(engine_version=major, custom_flags=[], index_mode="full")
        write(repository, seeds[first : first + OF_A_REPOSITORY], surroundings)
        with growth_of(running.process.process.pid) as growth, ThreadPoolExecutor(AT_A_TIME) as pool:
            archives = indexed(running, repository)
            assert len(archives) == len(seeds[first : first + OF_A_REPOSITORY])
            played = [
                pool.submit(play, running, repository, archive, surroundings, chosen(number, ways, each))
                for number, archive in enumerate(archives)
            ]
            for done in played:
                done.result()
        assert growth.bytes < BOUND
        print(f"engine {major}: played {first + len(archives)} of {len(seeds)}")

    assert surroundings.seen() == before
    assert (surroundings.outside / "victim").read_text() == "somebody else's"
    assert set(os.listdir("/")) == places
    assert running.anonymous().get("/health/ready").status_code == 200
    assert "Traceback" not in running.process.own_log()


def chosen(number: int, ways: int, each: int) -> set[str]:
    """This many of the ways for every n-th archive, and other ones for the next."""
    taken, left = divmod(number, each)
    return set() if left else {WAYS[(taken + more) % len(WAYS)] for more in range(ways)}


# --- archives -------------------------------------------------------------------------------------------------------


def write(repository: dict[str, Any], seeds: list[int], around: Surroundings) -> None:
    major = repository["engine_version"]
    program = ENGINES["1.4"] if major == 1 else ENGINE_2
    assert program is not None
    made = HostileRepository(program, Path(repository["path"]), major)
    made.write(*(case(seed, around.outside, major) for seed in seeds))


def indexed(running: Running, repository: dict[str, Any]) -> list[dict[str, Any]]:
    """The archives, each of them indexed or refused with a reason."""
    base = f"/api/repositories/{repository['id']}"
    assert running.admin.post(f"{base}/resync").status_code == 200
    archives = wait_until(lambda: none_pending(running, base), what="all archives are indexed or refused")
    status = running.admin.get(f"/api/operations/repositories/{repository['id']}").json()
    failed = {archive["id"]: archive for archive in status["failed_archives"]}
    for archive in archives:
        if archive["history_state"] == "failed":
            assert failed[archive["id"]]["error_key"] not in (None, "operations.internal"), failed[archive["id"]]
        else:
            assert archive["history_state"] == "indexed", archive
    return archives


def none_pending(running: Running, base: str) -> list[dict[str, Any]] | None:
    archives: list[dict[str, Any]] = running.admin.get(f"{base}/archives?limit=500").json()["archives"]
    is_pending = any(archive["history_state"] == "pending" for archive in archives)
    return None if is_pending or not archives else archives


# --- ways to read each archive --------------------------------------------------------------------------------------


def play(
    running: Running, repository: dict[str, Any], archive: dict[str, Any], around: Surroundings, ways: set[str]
) -> None:
    with running.process.client() as client:
        client.headers.update(running.admin.headers)
        base = f"/api/repositories/{repository['id']}/archives/{archive['id']}"
        for path in ("", "tree", "link") if ways else ():  # if it is not indexed, each request runs an engine
            fetch(client, f"{base}/browse", path=path)
        if archive["history_state"] == "indexed":
            walk_as_a_drive(client, repository, archive, reads="files" in ways)
        if "files" in ways:
            for path in ("tree/file", "tree/evil"):
                fetch(client, f"{base}/files", path=path)
        jobs = []
        if "check" in ways:
            jobs.append(restore_check(client, repository, archive))
        if "restore" in ways:
            jobs.append(restore(client, repository, archive, around.destination))
        for form in sorted(ways & {"tar", "zip"}):
            content = fetch(client, f"{base}/download", format=form)
            if content is not None:
                harmless(content, form)
        ends = [client.wait_for_end(job) for job in jobs]
        for ended in ends:
            assert ended["status"] in ENDS, ended
            if ended["status"] == "failed":
                assert ended["error_key"] not in (None, "operations.internal"), ended
                assert ended["error_message"], ended
        if len(ends) > 1 and ends[1]["error_key"] == "restore.unsafe_archive":
            assert ends[0]["status"] == "failed", ends


def restore_check(client: Client, repository: dict[str, Any], archive: dict[str, Any]) -> int:
    body = {"archive_id": archive["id"], "full_archive": True}
    answer = client.post(f"/api/repositories/{repository['id']}/restore-check", json=body)
    assert answer.status_code == 200, answer.text
    job: int = answer.json()["job_id"]
    return job


def restore(client: Client, repository: dict[str, Any], archive: dict[str, Any], destination: Path) -> int:
    place = str(destination / archive["name"])
    body = {"repository_id": repository["id"], "archive": archive["name"], "destination": place, "overwrite": "replace"}
    answer = client.post("/api/restore/start", json=body)
    assert answer.status_code == 200, answer.text
    job: int = answer.json()["job_id"]
    return job


def fetch(client: Client, url: str, **query: str) -> bytes | None:
    """The content; None if the request is refused with a key, or the connection is cut."""
    try:
        answer = client.get(url, params=query)
    except httpx2.RemoteProtocolError:
        return None
    if answer.status_code == 200:
        return answer.content
    status, key = error_of(answer)
    assert 400 <= status < 500, (url, query, answer.text)
    assert key, (url, query, answer.text)
    return None


def walk_as_a_drive(client: Client, repository: dict[str, Any], archive: dict[str, Any], reads: bool) -> None:
    """Every response is XML whose addresses stay below the requested folder; every file is read if `reads` is set."""
    folders = [f"/dav/{quote(repository['name'])}/{quote(archive['name'])}/"]
    for folder in folders:
        answer = client.request("PROPFIND", folder, headers={"Depth": "1"})
        assert answer.status_code == 207, (folder, answer.text)
        found = [one.findtext("{DAV:}href") or "" for one in ET.fromstring(answer.content).iter("{DAV:}response")]
        assert found[0] == folder
        for address in found[1:]:
            name = unquote_to_bytes(address.removeprefix(folder).rstrip("/"))
            assert address.startswith(folder), address
            assert name not in (b"", b".", b".."), address
            assert b"/" not in name, address
            assert b"\0" not in name, address
            if not address.endswith("/"):
                _ = reads and fetch(client, address)
            elif len(folders) < MOST_FOLDERS:
                folders.append(address)


def harmless(content: bytes, form: str) -> None:
    """Check that a file is complete and its names and links stay below the folder where it is unpacked."""
    if form == "tar":
        with tarfile.open(fileobj=io.BytesIO(content), errors="surrogateescape") as tar:
            members = [(member.name, member.linkname if member.issym() else None) for member in tar.getmembers()]
    else:
        with zipfile.ZipFile(io.BytesIO(content)) as opened:
            assert opened.testzip() is None
            members = [
                (info.filename, link_of(opened.read(info)) if stat.S_ISLNK(info.external_attr >> 16) else None)
                for info in opened.infolist()
            ]
    for name, target in members:
        path = name.rstrip("/").encode("utf-8", "surrogateescape")
        assert path == b"." or name_fault(path) is None, name
        assert target is None or link_fault(path, target.encode("utf-8", "surrogateescape")) is None, (name, target)


def link_of(content: bytes) -> str:
    """A link's target may be any bytes."""
    return content.decode("utf-8", "surrogateescape")
