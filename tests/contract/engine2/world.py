"""A repository of engine 2 with two archives and changes between them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.archives.world import get, no_tick, wait_for_index
from tests.support.running import Running
from tests.support.service import Client

NOT_UTF8 = b"caf\xe9.txt"


@dataclass(frozen=True)
class World:
    running: Running
    repository: dict[str, Any]
    source: Path
    jobs: tuple[dict[str, Any], dict[str, Any]]

    @property
    def admin(self) -> Client:
        return self.running.admin

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}"

    def get(self, path: str, expected: int = 200, /, **params: Any) -> Any:
        return get(self.admin, f"{self.url}{path}", expected, **params)

    def archives(self) -> list[dict[str, Any]]:
        """The archives of the repository, oldest first."""
        found: list[dict[str, Any]] = self.get("/archives")["archives"]
        return sorted(found, key=lambda archive: archive["start"])

    def at(self, path: str) -> str:
        return f"{self.source}/{path}".lstrip("/")


def fill(folder: Path) -> None:
    (folder / "letters").mkdir(parents=True)
    (folder / "letters" / "may.txt").write_text("may\n")
    (folder / "notes.txt").write_text("one\n")
    (folder / "same-size.txt").write_text("aaaa\n")
    os.link(folder / "notes.txt", folder / "also-notes.txt")
    (folder / "link").symlink_to("notes.txt")
    (folder / "two\nlines 'and' \"quotes\"").write_text("odd name\n")
    Path(os.fsdecode(os.fsencode(folder) + b"/" + NOT_UTF8)).write_text("latin\n")


def build(running: Running) -> World:
    no_tick(running.admin)
    source = running.new_folder("source")
    fill(source)
    repository = new_repository(running, source_paths=[source], index_mode="full")
    first = backup(running, repository)
    (source / "notes.txt").write_text("one\ntwo\n")
    (source / "letters" / "may.txt").unlink()
    (source / "letters" / "june.txt").write_text("june\n")
    times = (source / "same-size.txt").stat()
    (source / "same-size.txt").write_text("bbbb\n")
    os.utime(source / "same-size.txt", ns=(times.st_atime_ns, times.st_mtime_ns))
    second = backup(running, repository)
    wait_for_index(running.admin, repository)
    return World(running, repository, source, (first, second))


def new_repository(running: Running, **more: Any) -> dict[str, Any]:
    return running.new_repository(engine_version=2, **more)


def backup(running: Running, repository: dict[str, Any], **more: Any) -> dict[str, Any]:
    ended = running.admin.wait_for_end(running.admin.start_backup(repository, **more))
    assert ended["status"] == "completed", (ended, running.admin.log_lines(ended["id"]))
    return ended


def run(running: Running, repository: dict[str, Any], word: str, **body: Any) -> dict[str, Any]:
    """Run a maintenance job to its end and return its operation."""
    answer = running.admin.post(f"/api/repositories/{repository['id']}/{word}", json=body)
    assert answer.status_code == 200, answer.text
    return running.admin.wait_for_end(answer.json()["job_id"])


def live(running: Running, repository: dict[str, Any]) -> dict[str, str]:
    """The archives that the engine lists now: names by id."""
    found = get(running.admin, f"/api/repositories/{repository['id']}/archives/live")["archives"]
    return {archive["id"]: archive["name"] for archive in found}


def deleted(running: Running, repository: dict[str, Any]) -> list[str]:
    found = get(running.admin, f"/api/repositories/{repository['id']}/deleted-archives")["archives"]
    return [archive["engine_id"] for archive in found]
