"""How long a backup of a repository on a server waits for its lane while two clients constantly read its files.

The server is a real sshd on loopback. Backups without readers and with two clients alternate, so that other work of the
machine affects both.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.report import Bench, Measurement, Options
from bench.running import folder, serving, settings_for, signed_in
from bench.timing import percentile
from tests.support.engines import ENGINES
from tests.support.service import Client, ServiceProcess, wait_until
from tests.support.sshd import sshd

LIMIT_SECONDS = 17.0
BACKUPS, QUICK_BACKUPS = 8, 3
"""Of each sort; fewer if time runs out."""
SECONDS = 100.0
CLIENTS = 2
SMALL_FILES, LARGE_BYTES = 300, 30_000_000
READS_BEFORE = 3
"""Files that each client has read before a backup is requested."""


@dataclass
class Site:
    """A repository on a server, with one archive that is indexed by chunks."""

    admin: Client
    repository: dict[str, Any]
    archive: int
    contents: dict[str, bytes]

    def waited(self) -> float:
        """Run a backup; return the seconds between its request and its start."""
        ended = self.admin.wait_for_end(self.admin.start_backup(self.repository), 600.0)
        assert ended["status"] == "completed", ended
        created, started = (datetime.fromisoformat(ended[name]) for name in ("created_at", "started_at"))
        return (started - created).total_seconds()


@dataclass
class Readers:
    """Clients that read one file after the other."""

    service: ServiceProcess
    site: Site
    stopped: threading.Event = field(default_factory=threading.Event)
    answers: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.stopped.clear()
        with ThreadPoolExecutor(CLIENTS) as threads:
            clients = [threads.submit(self._read, number) for number in range(CLIENTS)]
            enough = self.answers.total() + CLIENTS * READS_BEFORE
            try:
                wait_until(lambda: self.answers.total() >= enough, 120.0, what="files are read")
                yield
            finally:
                self.stopped.set()
            for client in clients:
                client.result()

    def _read(self, number: int) -> None:
        chance, client = random.Random(number), signed_in(self.service)
        paths = list(self.site.contents)
        url = f"/api/repositories/{self.site.repository['id']}/archives/{self.site.archive}/files"
        while not self.stopped.is_set():
            path = chance.choice(paths)
            answer = client.get(url, params={"path": path})
            if answer.status_code == 200:
                assert answer.content == self.site.contents[path], "wrong bytes"
            by_engine = answer.status_code == 200 and answer.headers["Accept-Ranges"] == "none"
            self.answers["by the engine" if by_engine else str(answer.status_code)] += 1


def run(options: Options) -> list[Measurement]:
    os.environ["HOLDFAST_BORG1"] = str(ENGINES["1.4"])
    with (
        folder() as place,
        sshd(place / "server") as server,
        settings_for(place / "data", options.store) as settings,
        serving(settings) as service,
    ):
        admin = signed_in(service)
        number = server.connection(admin, "server", engine_path=str(ENGINES["1.4"]))
        site = _made(admin, place, number)
        readers = Readers(service, site)
        alone, beside = [], []
        late = time.monotonic() + SECONDS
        for _ in range(QUICK_BACKUPS if options.quick else BACKUPS):
            alone.append(site.waited())
            with readers.at_work():
                beside.append(site.waited())
            if time.monotonic() > late:
                break
    by_engine = readers.answers["by the engine"]
    return [
        Measurement("nobody reads: longest wait of a backup", max(alone), "s", None, _told(alone)),
        Measurement("two clients read: longest wait of a backup", max(beside), "s", LIMIT_SECONDS, _told(beside)),
        Measurement("requests answered by the engine", by_engine, "", None, _answers(readers.answers)),
    ]


def _made(admin: Client, place: Path, connection: int) -> Site:
    source, chance = place / "source", random.Random(1)
    source.mkdir()
    contents = {str(source / f"file-{number}"): chance.randbytes(2_000) for number in range(SMALL_FILES)}
    contents[str(source / "large")] = chance.randbytes(LARGE_BYTES)
    for path, content in contents.items():
        Path(path).write_bytes(content)
    repository = admin.create_repository(
        place / "server" / "repository",
        [source],
        repository_type="ssh",
        ssh_connection_id=connection,
        index_mode="full",
    )
    assert admin.wait_for_end(admin.start_backup(repository), 600.0)["status"] == "completed"

    def indexed() -> int | None:
        listed = admin.get(f"/api/repositories/{repository['id']}/archives").json()["archives"]
        return next((one["id"] for one in listed if one["history_state"] == "indexed"), None)

    archive = wait_until(indexed, 300.0, what="the archive is indexed")
    answer = admin.put(f"/api/repositories/{repository['id']}", json={"index_mode": "off"})
    assert answer.status_code == 200, answer.text
    return Site(admin, repository, archive, contents)


def _told(seconds: list[float]) -> str:
    return f"median {percentile(seconds, 50):.1f} s of {len(seconds)}: " + ", ".join(f"{each:.1f}" for each in seconds)


def _answers(answers: Counter[str]) -> str:
    return ", ".join(f"{count} times {what}" for what, count in sorted(answers.items()))


BENCH = Bench("a backup of a repository on a server waits 17 s at most for two clients that read all the time", run)
