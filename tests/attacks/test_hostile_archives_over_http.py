"""Archives with random malice in their items, all the way over HTTP: browse, downloads, restore check, restore.

Every request gets a clear answer, every job an end with a key, nothing appears outside the destination, and the service takes
little memory. Seeds as in `test_hostile_repositories`: `HOLDFAST_HOSTILE_SEEDS=17` plays that one alone.
"""

import io
import os
import random
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from backup_engine.far.unpack import link_fault, name_fault
from tests.attacks.test_hostile_repositories import case, wanted_seeds
from tests.contract.fields import error_of
from tests.support.archive_sets import OwnEngine
from tests.support.crafted import craft_2, symbolic_link
from tests.support.engines import ENGINE_2, ENGINES
from tests.support.hostile import HostileRepository
from tests.support.peak import MIB, growth_of
from tests.support.running import Running, Services
from tests.support.service import Client, wait_until

BOUND = 64 * MIB
IN_EVERY_RUN = {1: 6, 2: 1}
IN_THE_CAMPAIGN = {1: 900, 2: 100}
OF_A_REPOSITORY = 50
"""Archives of one repository: each restore check asks the engine for the list of all of them."""
ENDS = {"completed", "completed_with_warnings", "failed"}
AT_A_TIME = 2


@dataclass(frozen=True)
class Surroundings:
    """A folder with what nobody may touch, and the destination within it."""

    folder: Path

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    @property
    def destination(self) -> Path:
        return self.folder / "destination"

    def seen(self) -> dict[str, tuple[Any, ...]]:
        """All but the inside of the destination."""
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


@pytest.mark.parametrize("major", [1, 2])
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(IN_EVERY_RUN, id="few"),
        pytest.param(IN_THE_CAMPAIGN, id="many", marks=pytest.mark.campaign),
    ],
)
def test_every_hostile_archive_gets_a_clear_answer_and_nothing_is_written_outside(
    running: Running, surroundings: Surroundings, cases: dict[int, int], major: int
) -> None:
    assert running.process.process is not None
    before, places, seeds = surroundings.seen(), set(os.listdir("/")), wanted_seeds(cases[major])

    for first in range(0, len(seeds), OF_A_REPOSITORY):
        repository = running.new_repository(engine_version=major, custom_flags=[])
        write = write_1 if major == 1 else write_2
        write(running, repository, seeds[first : first + OF_A_REPOSITORY], surroundings)
        archives = known_archives(running, repository)
        with growth_of(running.process.process.pid) as growth, ThreadPoolExecutor(AT_A_TIME) as pool:
            for done in [pool.submit(play, running, repository, archive, surroundings) for archive in archives]:
                done.result()
        assert growth.bytes < BOUND
        print(f"engine {major}: played {first + len(archives)} of {len(seeds)}")

    assert surroundings.seen() == before
    assert (surroundings.outside / "victim").read_text() == "somebody else's"
    assert set(os.listdir("/")) == places
    assert running.anonymous().get("/health/ready").status_code == 200
    assert "Traceback" not in running.process.own_log()


# --- archives -----------------------------------------------------------------------------------------------------------


def write_1(running: Running, repository: dict[str, Any], seeds: list[int], around: Surroundings) -> None:
    del running
    made = HostileRepository(ENGINES["1.4"], Path(repository["path"]))
    made.write(*(case(seed, around.outside) for seed in seeds))


def write_2(running: Running, repository: dict[str, Any], seeds: list[int], around: Surroundings) -> None:
    assert ENGINE_2 is not None
    source = running.new_source(1)
    environment = OwnEngine.of(running).environment()
    for seed in seeds:
        rng = random.Random(f"hostile, engine 2 {seed}")
        items = [hostile_item_2(rng, str(around.outside)) for _ in range(rng.randrange(1, 5))]
        items.insert(0, symbolic_link("link", str(around.outside), major=2))
        craft_2(Path(repository["path"]), f"case-{seed:06}", source, items, environment)


def hostile_item_2(rng: random.Random, outside: str) -> dict[str, Any]:
    names = [
        "../evil",
        "..",
        f"{outside}/evil",
        "/evil",
        "nul\0",
        "",
        ".",
        "n" * 300,
        "d/" * 600,
        "link/evil",
        "\x1b[2J",
    ]
    if rng.random() < 0.4:
        return symbolic_link(rng.choice(["link", *names]), rng.choice([outside, "..", "/etc", "link"]), major=2)
    odd = {"mode": rng.choice([0o40755, 0o10644, 0o60644, 2**31]), "mtime": rng.choice([-1, 2**62]), "uid": 2**31}
    changed = rng.choice(sorted(odd))
    return {"path": rng.choice(names), **({changed: odd[changed]} if rng.random() < 0.5 else {})}


def known_archives(running: Running, repository: dict[str, Any]) -> list[dict[str, Any]]:
    base = f"/api/repositories/{repository['id']}"
    assert running.admin.post(f"{base}/resync").status_code == 200
    return wait_until(lambda: running.admin.get(f"{base}/archives?limit=500").json()["archives"], what="the archives")


# --- what is done with each ----------------------------------------------------------------------------------------------


def play(running: Running, repository: dict[str, Any], archive: dict[str, Any], around: Surroundings) -> None:
    with running.process.client() as client:
        client.headers.update(running.admin.headers)
        jobs = [restore_check(client, repository, archive), restore(client, repository, archive, around.destination)]
        base = f"/api/repositories/{repository['id']}/archives/{archive['id']}"
        fetch(client, f"{base}/browse")
        fetch(client, f"{base}/files", path="tree/file" if repository["engine_version"] == 1 else "file-0")
        form = ("tar", "zip")[archive["id"] % 2]
        content = fetch(client, f"{base}/download", format=form)
        if content is not None:
            harmless(content, form)
        checked, restored = [client.wait_for_end(job) for job in jobs]
        if restored["error_key"] == "restore.unsafe_archive":
            assert checked["status"] == "failed", (checked, restored)
        for ended in (checked, restored):
            assert ended["status"] in ENDS, ended
            if ended["status"] == "failed":
                assert ended["error_key"] not in (None, "operations.internal"), ended
                assert ended["error_message"], ended


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
    """The content; nothing if the answer is a refusal with a key, or a connection that was cut."""
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


def harmless(content: bytes, form: str) -> None:
    """A whole file whose names and links stay below the folder where it is unpacked."""
    if form == "tar":
        with tarfile.open(fileobj=io.BytesIO(content), errors="surrogateescape") as tar:
            members = [(member.name, member.linkname if member.issym() else None) for member in tar.getmembers()]
    else:
        with zipfile.ZipFile(io.BytesIO(content)) as opened:
            assert opened.testzip() is None
            members = [
                (info.filename, opened.read(info).decode() if stat.S_ISLNK(info.external_attr >> 16) else None)
                for info in opened.infolist()
            ]
    for name, target in members:
        path = name.rstrip("/").encode("utf-8", "surrogateescape")
        assert path == b"." or name_fault(path) is None, name
        assert target is None or link_fault(path, target.encode("utf-8", "surrogateescape")) is None, (name, target)
