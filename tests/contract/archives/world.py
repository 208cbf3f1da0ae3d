"""A repository with archives of two series, in which something changes from each archive to the next."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.archive_sets import OwnEngine
from tests.support.engines import ENGINES
from tests.support.running import Running
from tests.support.service import Client, wait_until
from tests.support.warm_engines import warm_program

NOT_UTF8 = b"caf\xe9"
LINES = "two\nlines"
DEEPEST = 4096

ARCHIVE = {
    *("id", "repository_id", "engine_id", "name", "series", "start", "end", "duration_seconds", "nfiles"),
    *("original_size", "compressed_size", "deduplicated_size", "hostname", "username", "comment"),
    *("backup_operation_id", "history_state", "history_indexed_at", "history_rows", "history_truncated"),
    *("first_seen_at", "last_seen_at", "lost_at", "protected_at"),
}


@dataclass(frozen=True)
class Story:
    """A repository that no service manages yet, and the source folders of its archives."""

    folder: Path
    times: dict[str, datetime] = field(default_factory=dict)
    """When each archive was created, by the letter and number that tests use for it."""
    names: dict[str, str] = field(default_factory=dict)

    @property
    def docs(self) -> Path:
        return self.folder / "docs"

    @property
    def web(self) -> Path:
        return self.folder / "web"

    @property
    def repository(self) -> Path:
        return self.folder / "repository"


@dataclass(frozen=True)
class World:
    """The story's repository in a service. Tests only read it."""

    running: Running
    repository: dict[str, Any]
    story: Story
    ids: dict[str, int]

    @property
    def times(self) -> dict[str, datetime]:
        return self.story.times

    @property
    def names(self) -> dict[str, str]:
        return self.story.names

    @property
    def admin(self) -> Client:
        return self.running.admin

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}"

    def get(self, path: str, expected: int = 200, /, client: Client | None = None, **params: Any) -> Any:
        return get(client or self.admin, f"{self.url}{path}", expected, **params)

    def at(self, path: str) -> str:
        """A path below the first source, as stored in archives."""
        return f"{self.story.docs}/{path}".lstrip("/")

    def word(self, archive_id: int | None) -> str | None:
        """The letter and number that tests use for the archive with an id."""
        return next((word for word, number in self.ids.items() if number == archive_id), None)


def get(client: Client, url: str, expected: int = 200, /, **params: Any) -> Any:
    answer = client.get(url, params=params)
    assert answer.status_code == expected, answer.text
    return answer.json()


def run_index(client: Client, repository: dict[str, Any], word: str = "resync", **body: Any) -> dict[str, Any]:
    """Start index work and wait until all of it has succeeded; return the response to the request."""
    answer = client.post(f"/api/repositories/{repository['id']}/{word}", json=body or None)
    assert answer.status_code == 200, answer.text
    queued: dict[str, Any] = answer.json()
    for operation in queued["operations"]:
        ended = client.wait_for_end(operation)
        assert ended["status"] == "completed", ended
    return queued


def no_tick(client: Client) -> None:
    """Run the reconcile tick now, so that it does not interfere for an hour."""
    assert client.post("/api/operations/reconcile").status_code == 200


def build(running: Running, story: Story) -> World:
    """Import a copy of the story's repository, and wait until it is indexed."""
    no_tick(running.admin)
    place = running.folder / running.new_name("imported")
    shutil.copytree(story.repository, place)
    body = {"name": place.name, "path": str(place), "encryption": "none", "source_paths": [str(story.docs)]}
    answer = running.admin.post("/api/repositories/import", json=body)
    assert answer.status_code == 201, answer.text
    repository = answer.json()
    wait_for_index(running.admin, repository)
    found = get(running.admin, f"/api/repositories/{repository['id']}/archives")["archives"]
    ids = {word: one["id"] for word, name in story.names.items() for one in found if one["name"] == name}
    assert len(ids) == len(CHAPTERS)
    return World(running, repository, story, ids)


def wait_for_index(client: Client, repository: dict[str, Any]) -> list[dict[str, Any]]:
    """Wait until all index work of a repository has ended; return it, newest first."""

    def ended() -> list[dict[str, Any]] | None:
        items = get(client, "/api/operations/", repository_id=repository["id"], category="index")["items"]
        return None if any(item["status"] in ("pending", "running") for item in items) else items

    return wait_until(ended, pause=0.1, what="index work ends")


def tell(folder: Path) -> Story:
    """Build the story's folders and its repository with the engine alone, or load it if it was built before."""
    notes = folder / "notes.json"
    if notes.exists():
        told = json.loads(notes.read_text())
        times = {word: datetime.fromisoformat(time) for word, time in told["times"].items()}
        return Story(folder, times, told["names"])
    story = Story(folder)
    story.docs.mkdir(parents=True)
    story.web.mkdir()
    engine = OwnEngine(warm_program(ENGINES["1.4"]), folder / "data")
    (folder / "data").mkdir()
    (folder / "data" / "install-id").write_text("story")
    engine.run("init", "--encryption=none", str(story.repository))
    for word, change in CHAPTERS:
        change(story)
        _archive(engine, story, word)
    times = {word: time.isoformat() for word, time in story.times.items()}
    notes.write_text(json.dumps({"times": times, "names": story.names}))
    return story


def _archive(engine: OwnEngine, story: Story, word: str) -> None:
    """Create an archive dated two days after the previous one."""
    day = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=14)
    story.times[word] = day + 2 * timedelta(days=len(story.times))
    source = story.docs if word.startswith("d") else story.web
    story.names[word] = f"{source.name}-{story.times[word]:%Y-%m-%dT%H:%M:%S}"
    engine.make({"path": str(story.repository)}, [(story.names[word], story.times[word])], source)


def _first_docs(story: Story) -> None:
    docs = story.docs
    (docs / "letters").mkdir()
    (docs / "letters" / "April.txt").write_text("april\n")
    (docs / "letters" / "april.txt").write_text("another april\n")
    (docs / "letters" / "may.txt").write_text("may\n")
    (docs / "notes.txt").write_text("one\n")
    (docs / "keep.md").write_text("kept\n")
    (docs / "script.sh").write_text("echo\n")
    (docs / "link").symlink_to("notes.txt")
    (docs / os.fsdecode(NOT_UTF8)).write_text("coffee\n")
    (docs / LINES).write_text("lines\n")
    for number in range(12):
        (docs / "letters" / f"page-{number:02d}").write_text(str(number))
    make_deep_file(docs)


def make_deep_file(folder: Path) -> str:
    """Create a file whose path, as stored in archives, is exactly 4,096 bytes long; return that path."""
    descriptor = os.open(folder, os.O_RDONLY)
    path = str(folder)
    while len(path) < DEEPEST - 210:
        os.mkdir("d" * 200, dir_fd=descriptor)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor, path = below, f"{path}/{'d' * 200}"
    name = "f" * (DEEPEST - len(path))
    with os.fdopen(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=descriptor), "w") as file:
        file.write("deep")
    os.close(descriptor)
    return f"{path}/{name}".lstrip("/")


def _first_web(story: Story) -> None:
    (story.web / "index.html").write_text("<p>one</p>\n")
    (story.web / "notes.txt").write_text("web notes\n")


def _second_docs(story: Story) -> None:
    (story.docs / "notes.txt").write_text("one and two\n")
    (story.docs / "letters" / "may.txt").unlink()
    (story.docs / "new.txt").write_text("new\n")
    (story.docs / "script.sh").chmod(0o755)


def _second_web(story: Story) -> None:
    (story.web / "index.html").write_text("<p>one and two</p>\n")


def _third_docs(story: Story) -> None:
    (story.docs / "letters" / "may.txt").write_text("may again\n")
    (story.docs / "new.txt").unlink()


CHAPTERS: tuple[tuple[str, Callable[[Story], None]], ...] = (
    ("d1", _first_docs),
    ("w1", _first_web),
    ("d2", _second_docs),
    ("w2", _second_web),
    ("d3", _third_docs),
)
