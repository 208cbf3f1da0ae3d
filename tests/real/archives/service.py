"""A service for tests that disturb it, and the helpers that they share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.contract.archives.world import get, no_tick, run_index, wait_for_index
from tests.real.archives.scripted_engine import ScriptedEngine
from tests.support.archive_sets import OwnEngine
from tests.support.engines import ENGINES
from tests.support.service import Client, ServiceProcess

__all__ = ["Installed", "get", "run_index", "wait_for_index"]

FIRST_DAY = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Installed:
    """One service process with its own data folder."""

    folder: Path
    engine: ScriptedEngine | None
    process: ServiceProcess
    _client: Client | None = None
    _made: int = 0
    repositories: dict[int, "Shelf"] = field(default_factory=dict)

    @staticmethod
    def start(folder: Path, *, scripted: bool = True, **environment: str) -> "Installed":
        """With a scripted engine archives are read by listing, otherwise by metadata chunks."""
        engine = ScriptedEngine(folder / "engine", ENGINES["1.4"]) if scripted else None
        program = engine.program if engine else ENGINES["1.4"]
        process = ServiceProcess(folder / "data", {"HOLDFAST_BORG1": str(program), **environment})
        process.launch()
        process.wait_until_ready()
        installed = Installed(folder, engine, process)
        no_tick(installed.client)
        return installed

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = self.process.client().login()
        return self._client

    @property
    def scripted(self) -> ScriptedEngine:
        assert self.engine is not None
        return self.engine

    @property
    def own(self) -> OwnEngine:
        """The engine itself, with the service's own identity."""
        return OwnEngine(ENGINES["1.4"], self.folder / "data")

    def restart(self) -> None:
        token = self.client.headers["X-Backup-Authorization"]
        self.process.restart()
        self._client = self.process.client()
        self._client.headers["X-Backup-Authorization"] = token

    def new_shelf(self, **settings: Any) -> "Shelf":
        """A new repository of a folder with a few files."""
        self._made += 1
        source = self.folder / f"source{self._made}"
        source.mkdir()
        for number in range(3):
            (source / f"file-{number}").write_text(f"{number}")
        repository = self.client.create_repository(
            self.folder / f"repository{self._made}",
            [source],
            **{"encryption": "none", "passphrase": None, "index_mode": "full", **settings},
        )
        return Shelf(self, repository, source)


@dataclass
class Shelf:
    """A repository and the folder whose archives it contains."""

    installed: Installed
    repository: dict[str, Any]
    source: Path

    @property
    def client(self) -> Client:
        return self.installed.client

    @property
    def url(self) -> str:
        return f"/api/repositories/{self.repository['id']}"

    @property
    def index_file(self) -> Path:
        (file,) = [
            file
            for file in (self.installed.folder / "data" / "history").glob("*.db")
            if file.name.removesuffix(".db") == self.uuid()
        ]
        return file

    def uuid(self) -> str:
        import sqlite3
        from contextlib import closing

        with closing(sqlite3.connect(self.installed.folder / "data" / "holdfast.db")) as connection:
            row = connection.execute("SELECT uuid FROM repositories WHERE id = ?", (self.repository["id"],)).fetchone()
        return str(row[0])

    def get(self, path: str, /, **params: Any) -> Any:
        return get(self.client, f"{self.url}{path}", **params)

    def make(self, *names: str) -> None:
        """Create archives behind the service's back, one day apart, with one file changed between each two."""
        known = len(self.installed.own.archives(self.repository))
        for number, name in enumerate(names, known):
            (self.source / "file-0").write_text(f"of {name}")
            (self.source / f"only-in-{name}").write_text(name)
            time = FIRST_DAY + timedelta(days=number)
            self.installed.own.make(self.repository, [(name, time)], self.source)
            (self.source / f"only-in-{name}").unlink()

    def resync(self) -> None:
        run_index(self.client, self.repository)

    def start(self, word: str, **body: Any) -> list[int]:
        answer = self.client.post(f"{self.url}/{word}", json=body or None)
        assert answer.status_code == 200, answer.text
        operations: list[int] = answer.json()["operations"]
        return operations

    def ends(self, operations: Sequence[int]) -> list[dict[str, Any]]:
        return [self.client.wait_for_end(operation) for operation in operations]

    def run(self, word: str, **body: Any) -> list[str]:
        """Start index work; return the status of each of its operations."""
        return [ended["status"] for ended in self.ends(self.start(word, **body))]

    def archives(self) -> dict[str, dict[str, Any]]:
        """By name, oldest first."""
        return {one["name"]: one for one in reversed(self.get("/archives")["archives"])}

    def states(self) -> dict[str, str]:
        return {name: archive["history_state"] for name, archive in self.archives().items()}

    def files_found(self, query: str = "only-in-") -> set[str]:
        results = self.get("/search", q=query, limit=500)["results"]
        return {hit["path"].rsplit("/", 1)[-1] for hit in results}

    def history_runs(self) -> list[dict[str, Any]]:
        """Oldest first."""
        items = get(self.client, "/api/operations/", repository_id=self.repository["id"], kind="history")["items"]
        return list(reversed(items))
