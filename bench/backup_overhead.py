"""The time that the service adds to a small backup, from the request to the recorded end, compared with the bare
engine.
"""

import json
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from bench.report import Bench, Measurement, Options
from bench.running import folder, pid_of, serving, settings_for, signed_in
from bench.timing import milliseconds, processor_seconds
from tests.support.engines import ENGINES
from tests.support.service import Client, ServiceProcess

MOST_MILLISECONDS = 150.0
REPEATS = 10
FILES = 100
PASSPHRASE = "a passphrase of the benches"
ENCRYPTION = "repokey-blake2"


def run(options: Options) -> list[Measurement]:
    return [measurement for series, program in ENGINES.items() for measurement in _of_engine(series, program, options)]


def _of_engine(series: str, program: Path, options: Options) -> list[Measurement]:
    with folder() as place, settings_for(place / "data", options.store) as settings:
        sources = a_tree(place / "sources")
        bare = BareEngine(program, place, sources)
        os.environ["HOLDFAST_BORG1"] = str(program)
        with serving(settings) as service:
            client = signed_in(service)
            body = {"encryption": ENCRYPTION, "passphrase": PASSPHRASE}
            repository = client.create_repository(place / "served", [sources], **body)
            with Ends(client) as ends:
                alone, served, cpu = interleaved(options, bare, service, client, repository["path"], ends)
    overhead = milliseconds(statistics.median(served) - statistics.median(alone))
    pairs = milliseconds(statistics.median(one - other for one, other in zip(served, alone, strict=True)))
    note = (
        f"engine alone {milliseconds(statistics.median(alone)):.0f} ms, "
        f"served {milliseconds(statistics.median(served)):.0f} ms, median of the differences {pairs:.0f} ms, "
        f"processor of the service {milliseconds(cpu):.0f} ms a backup"
    )
    what = f"backup of {FILES} small files by engine {series}, request to recorded end, over bare create"
    return [Measurement(what, overhead, "ms", MOST_MILLISECONDS, note)]


def interleaved(
    options: Options, bare: "BareEngine", service: ServiceProcess, client: Client, path: str, ends: "Ends"
) -> tuple[list[float], list[float], float]:
    """Alternate, so that a slow moment of the machine affects both. The first backup of each is not counted."""
    bare.create()
    ends.time_backup(client, path)
    clock = processor_seconds(pid_of(service))
    used = 0.0
    alone: list[float] = []
    served: list[float] = []
    for _ in range(options.repeats(REPEATS)):
        alone.append(bare.create())
        before = clock()
        served.append(ends.time_backup(client, path))
        used += clock() - before
    return alone, served, used / len(served)


def a_tree(root: Path) -> Path:
    for number in range(FILES):
        file = root / f"folder {number % 10}" / f"file {number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number} " * 200)
    return root


class BareEngine:
    """The engine as a person would call it, at the same low priority that the service gives it."""

    def __init__(self, program: Path, place: Path, sources: Path) -> None:
        self.program = program
        self.repository = place / "bare"
        self.sources = sources
        self.environment = {**os.environ, "BORG_PASSPHRASE": PASSPHRASE, "BORG_BASE_DIR": str(place / "base")}
        self.made = 0
        self.run("init", "--encryption", ENCRYPTION, str(self.repository))

    def create(self) -> float:
        self.made += 1
        began = time.perf_counter()
        self.run("create", f"{self.repository}::archive-{self.made}", str(self.sources))
        return time.perf_counter() - began

    def run(self, *arguments: str) -> None:
        command = ["nice", "-n", "10", str(self.program), *arguments]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)


class Ends:
    """Watches the event stream for ends of operations; polling would add to what is measured."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended: dict[int, tuple[float, str]] = {}
        self._changed = threading.Condition()
        self._connected, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> "Ends":
        self._thread.start()
        assert self._connected.wait(60), "no event stream"
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()

    def time_backup(self, client: Client, path: str) -> float:
        """Start a backup and wait until its end is reported; return the seconds."""
        began = time.perf_counter()
        operation_id = client.start_backup(path)
        with self._changed:
            assert self._changed.wait_for(lambda: operation_id in self._ended, 120), "the backup did not end"
            at, status = self._ended[operation_id]
        assert status == "completed", status
        return at - began

    def _listen(self) -> None:
        try:
            self._hear()
        except httpx2.TransportError:
            if not self._closing.is_set():
                raise  # otherwise the service was stopped, and its stream with it

    def _hear(self) -> None:
        with self._events() as lines:
            for line in lines:
                self._connected.set()
                if not line.startswith("data: "):
                    continue
                event = json.loads(line.removeprefix("data: "))
                if event.get("status") in ("completed", "completed_with_warnings", "failed", "cancelled"):
                    with self._changed:
                        self._ended[event["id"]] = (time.perf_counter(), event["status"])
                        self._changed.notify_all()
                if self._closing.is_set():
                    return

    @contextmanager
    def _events(self) -> Iterator[Iterator[str]]:
        listener = Client(base_url=self._client.base_url, headers=self._client.headers, timeout=None)
        with listener, listener.stream("GET", "/api/events/stream") as answer:
            yield answer.iter_lines()


BENCH = Bench("a backup of 100 small files: ≤ 150 ms more than bare `borg create`, request to recorded end", run)
