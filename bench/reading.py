"""How soon the first byte of an archived file comes over HTTP, and how fast the rest, beside the engine alone."""

import http.client
import os
import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.report import Bench, Measurement, Options
from bench.running import folder, pid_of, serving, settings_for, signed_in
from bench.timing import milliseconds, percentile, processor_seconds
from tests.support.service import Client, ServiceProcess, wait_until

SECONDS = 3600.0
PASSPHRASE = "bench"
FILES_PER_FOLDER = 100
ARCHIVES = 3
PART = 64 << 10
FIRST_BYTE_P50, FIRST_BYTE_P95 = 5.0, 50.0
WITH_ENGINE = 10


@dataclass(frozen=True, slots=True)
class Site:
    """A repository of small files and a large one, in several archives."""

    source: Path
    repository: dict[str, Any]
    archives: list[dict[str, Any]]
    files: list[Path]
    large: Path


def run(options: Options) -> list[Measurement]:
    files, large = (2_000, 64 << 20) if options.quick else (100_000, 512 << 20)
    with folder() as place, settings_for(place / "data", options.store) as settings, serving(settings) as service:
        admin = signed_in(service)
        site = _make_site(admin, place, files, large)
        reading = _Reading(service, admin, site)
        return [
            *_first_bytes(reading, options.repeats(1000)),
            *_parts(reading, options.repeats(100)),
            *_throughput(reading, service),
            *_engine_alone(place, site, options.repeats(WITH_ENGINE)),
        ]


def _make_site(admin: Client, place: Path, count: int, large: int) -> Site:
    generator = random.Random(count)
    source = place / "source"
    names = [source / f"d{number // FILES_PER_FOLDER}" / f"file{number}" for number in range(count)]
    for name in names:
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(generator.randbytes(int(generator.expovariate(1 / 12_000))))
    with (source / "large").open("wb") as file:
        for _ in range(large >> 20):
            file.write(generator.randbytes(1 << 20))
    repository = admin.create_repository(
        place / "repository", [source], encryption="repokey-blake2", passphrase=PASSPHRASE, index_mode="full"
    )
    for _ in range(ARCHIVES):
        ended = admin.wait_for_end(admin.start_backup(repository), SECONDS)
        assert ended["status"] == "completed", ended
        for name in generator.sample(names, max(1, count // 100)):
            name.write_bytes(generator.randbytes(8000))
    archives = wait_until(lambda: _indexed(admin, repository), SECONDS, what="all archives are indexed")
    return Site(source, repository, archives, names, source / "large")


def _indexed(admin: Client, repository: dict[str, Any]) -> list[dict[str, Any]] | None:
    listed: list[dict[str, Any]] = admin.get(f"/api/repositories/{repository['id']}/archives").json()["archives"]
    is_done = len(listed) == ARCHIVES and all(one["history_state"] == "indexed" for one in listed)
    return listed if is_done else None


class _Reading:
    """One connection that stays open, as a browser's does."""

    def __init__(self, service: ServiceProcess, admin: Client, site: Site) -> None:
        self.site = site
        self._headers = {"X-Backup-Authorization": admin.headers["X-Backup-Authorization"]}
        self._connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=SECONDS)

    def ask(self, archive: dict[str, Any], path: Path, part: tuple[int, int] | None = None) -> tuple[float, int]:
        """Seconds to the first byte, and how many came. Where only the engine could answer, this is an error."""
        url = f"/api/repositories/{self.site.repository['id']}/archives/{archive['id']}/files?"
        headers = {**self._headers, **({"Range": f"bytes={part[0]}-{part[1] - 1}"} if part else {})}
        began = time.perf_counter()
        self._connection.request("GET", url + urlencode({"path": str(path)}), headers=headers)
        answer = self._connection.getresponse()
        first = answer.read(1)
        seconds = time.perf_counter() - began
        received = len(first)
        while block := answer.read(1 << 20):
            received += len(block)
        assert (answer.status, answer.headers["Accept-Ranges"]) == (206 if part else 200, "bytes")
        assert received == int(answer.headers["Content-Length"])
        return seconds, received


def _first_bytes(reading: _Reading, repeats: int) -> list[Measurement]:
    generator = random.Random(1)
    site = reading.site
    began = time.perf_counter()
    reading.ask(site.archives[0], site.files[0])
    cold = time.perf_counter() - began
    times = [
        milliseconds(reading.ask(generator.choice(site.archives), generator.choice(site.files))[0])
        for _ in range(repeats)
    ]
    what = f"reading: first byte of {repeats} random files of {ARCHIVES} archives"
    return [
        Measurement("reading: the first of all, which starts the reader", milliseconds(cold), "ms"),
        Measurement(f"{what}, median", percentile(times, 50), "ms", FIRST_BYTE_P50),
        Measurement(f"{what}, 95th percentile", percentile(times, 95), "ms", FIRST_BYTE_P95),
    ]


def _parts(reading: _Reading, repeats: int) -> list[Measurement]:
    generator = random.Random(2)
    site = reading.site
    size = site.large.stat().st_size
    times = []
    for _ in range(repeats):
        start = generator.randrange(size - PART)
        times.append(milliseconds(reading.ask(generator.choice(site.archives), site.large, (start, start + PART))[0]))
    what = f"reading: 64 KiB anywhere in a file of {size >> 20} MiB"
    return [
        Measurement(f"{what}, median", percentile(times, 50), "ms"),
        Measurement(f"{what}, 95th percentile", percentile(times, 95), "ms"),
    ]


def _throughput(reading: _Reading, service: ServiceProcess) -> list[Measurement]:
    used = processor_seconds(pid_of(service))
    before, began = used(), time.perf_counter()
    _, received = reading.ask(reading.site.archives[0], reading.site.large)
    seconds = time.perf_counter() - began
    note = f"{(used() - before) / (received >> 20) * 1000:.1f} ms of the service's processor for each MiB"
    return [
        Measurement(
            "reading: a large file from its first byte to its last", received / seconds / 2**20, "MiB/s", None, note
        )
    ]


def _engine_alone(place: Path, site: Site, repeats: int) -> list[Measurement]:
    """The same by `borg extract --stdout`, each file by itself, and the large one as a whole."""
    generator = random.Random(3)
    environment = {
        **os.environ,
        "BORG_PASSPHRASE": PASSPHRASE,
        "BORG_BASE_DIR": str(place / "alone"),
        "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
    }

    def extract(archive: dict[str, Any], path: Path) -> tuple[float, float]:
        address = f"{place / 'repository'}::{archive['name']}"
        command = ["borg", "extract", "--stdout", address, str(path).lstrip("/")]
        began = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as engine:
            assert engine.stdout is not None
            engine.stdout.read(1)
            first = time.perf_counter() - began
            while engine.stdout.read(1 << 20):
                continue
        assert engine.returncode == 0
        return first, time.perf_counter() - began

    extract(site.archives[0], site.files[0])  # it makes its cache once
    times = [
        milliseconds(extract(generator.choice(site.archives), generator.choice(site.files))[0]) for _ in range(repeats)
    ]
    _, whole = extract(site.archives[0], site.large)
    size = site.large.stat().st_size >> 20
    return [
        Measurement("reading: the same by `borg extract --stdout`, median", percentile(times, 50), "ms"),
        Measurement("reading: the large file by it, its start included", size / whole, "MiB/s"),
    ]


BENCH = Bench("the first byte of any file of any archive of a local repository comes in 5 ms, 95 of 100 in 50 ms", run)
