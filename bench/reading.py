"""How soon the first byte of an archived file arrives over HTTP, and how fast the rest and whole folders, compared with
the bare engine.

Processor time is that of the service and its readers, or of the engine: on a busy machine it means more than wall time.
"""

import http.client
import os
import random
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil

from bench.report import Bench, Measurement, Options
from bench.running import folder, pid_of, serving, settings_for, signed_in
from bench.timing import milliseconds, percentile
from tests.support.service import Client, ServiceProcess, wait_until

SECONDS = 3600.0
PASSPHRASE = "bench"
FILES_PER_FOLDER = 100
ARCHIVES = 3
PART = 64 << 10
FIRST_BYTE_P50, FIRST_BYTE_P95 = 5.0, 50.0
WITH_ENGINE = 10
FOLDER_FILES = 10_000
"""Small files in the folder that is sent as a whole; other files are in folders next to it."""
MOUNT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Site:
    """A repository of small files and a large one, in several archives; and a copy of the last archive without an
    index.
    """

    source: Path
    repository: dict[str, Any]
    archives: list[dict[str, Any]]
    files: list[Path]
    large: Path
    folder: Path
    without_index: dict[str, Any]
    its_archive: dict[str, Any]


def run(options: Options) -> list[Measurement]:
    files, large = (1_000, 32 << 20) if options.quick else (100_000, 512 << 20)
    with folder() as place, settings_for(place / "data", options.store) as settings, serving(settings) as service:
        admin = signed_in(service)
        site = _make_site(admin, place, files, large)
        reading = _Reading(service, admin, site)
        return [
            *_first_bytes(reading, options.repeats(1000)),
            *_parts(reading, options.repeats(100)),
            *_throughput(reading),
            *_folders(reading, place),
            *_engine_alone(place, site, options.repeats(WITH_ENGINE)),
            *_mounted(place, site, options.repeats(100)),
        ]


def _make_site(admin: Client, place: Path, count: int, large: int) -> Site:
    generator = random.Random(count)
    source = place / "source"
    folder = source / "folder"
    names = [
        (folder if number < FOLDER_FILES else source) / f"d{number // FILES_PER_FOLDER}" / f"file{number}"
        for number in range(count)
    ]
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
    without = admin.create_repository(
        place / "without", [source], encryption="repokey-blake2", passphrase=PASSPHRASE, index_mode="off"
    )
    ended = admin.wait_for_end(admin.start_backup(without), SECONDS)
    assert ended["status"] == "completed", ended
    (its,) = wait_until(lambda: _listed(admin, without), SECONDS, what="the archive is known")
    return Site(source, repository, archives, names, source / "large", folder, without, its)


def _listed(admin: Client, repository: dict[str, Any]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = admin.get(f"/api/repositories/{repository['id']}/archives").json()["archives"]
    return listed


def _indexed(admin: Client, repository: dict[str, Any]) -> list[dict[str, Any]] | None:
    listed = _listed(admin, repository)
    is_done = len(listed) == ARCHIVES and all(one["history_state"] == "indexed" for one in listed)
    return listed if is_done else None


class _Reading:
    """One connection that stays open, like a browser's."""

    def __init__(self, service: ServiceProcess, admin: Client, site: Site) -> None:
        self.site = site
        self.pid = pid_of(service)
        self.of_the_service = _processor(self.pid)
        self._headers = {"X-Backup-Authorization": admin.headers["X-Backup-Authorization"]}
        self._connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=SECONDS)

    def ask(self, archive: dict[str, Any], path: Path, part: tuple[int, int] | None = None) -> tuple[float, int]:
        """Seconds to the first byte, and the number of bytes. It is an error if only the engine could answer."""
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

    def folder(self, repository: dict[str, Any], archive: dict[str, Any], path: Path, form: str) -> int:
        """Download a folder as a whole; return the number of bytes."""
        url = f"/api/repositories/{repository['id']}/archives/{archive['id']}/download?"
        self._connection.request("GET", url + urlencode({"path": str(path), "format": form}), headers=self._headers)
        answer = self._connection.getresponse()
        assert answer.status == 200, answer.read(2000)
        received = 0
        while block := answer.read(1 << 20):
            received += len(block)
        return received

    def of_the_readers(self) -> float:
        """Processor seconds of the processes that read chunks."""
        children = psutil.Process(self.pid).children(recursive=True)
        return sum(_processor(one.pid)() for one in children if _is_reader(one))


def _is_reader(process: psutil.Process) -> bool:
    try:
        return any("chunks/helper" in word for word in process.cmdline())
    except psutil.Error:  # it has just ended
        return False


@dataclass(slots=True)
class _Cost:
    wall: float = 0.0
    service: float = 0.0
    readers: float = 0.0
    engines: float = 0.0

    @property
    def note(self) -> str:
        shares = (("service", self.service), ("reader", self.readers), ("engine", self.engines))
        told = ", ".join(f"{name} {seconds:.2f}" for name, seconds in shares if seconds > 0.005)
        return f"processor: {self.processor:.2f} s ({told})"

    @property
    def processor(self) -> float:
        return self.service + self.readers + self.engines


@contextmanager
def _measured(reading: "_Reading | None", engine: Callable[[], float] = lambda: 0.0) -> Iterator[_Cost]:
    cost = _Cost()
    service = reading.of_the_service if reading else lambda: 0.0
    readers = reading.of_the_readers if reading else lambda: 0.0
    before = service(), readers(), engine()
    began = time.perf_counter()
    yield cost
    cost.wall = time.perf_counter() - began
    cost.service, cost.readers, cost.engines = service() - before[0], readers() - before[1], engine() - before[2]


def _own_children() -> float:
    """Processor seconds of programs that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _processor(pid: int) -> Callable[[], float]:
    """A clock of a process's processor time, including its threads that have ended."""
    process = psutil.Process(pid)

    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    return used


def _first_bytes(reading: _Reading, repeats: int) -> list[Measurement]:
    generator = random.Random(1)
    site = reading.site
    began = time.perf_counter()
    reading.ask(site.archives[0], site.files[0])
    cold = time.perf_counter() - began
    with _measured(reading) as cost:
        times = [
            milliseconds(reading.ask(generator.choice(site.archives), generator.choice(site.files))[0])
            for _ in range(repeats)
        ]
    what = f"reading: first byte of {repeats} random files of {ARCHIVES} archives"
    shares = (
        f"{cost.service / repeats * 1000:.2f} ms of the service, {cost.readers / repeats * 1000:.2f} ms of the reader"
    )
    return [
        Measurement("reading: the first of all, which starts the reader", milliseconds(cold), "ms"),
        Measurement(f"{what}, median", percentile(times, 50), "ms", FIRST_BYTE_P50),
        Measurement(f"{what}, 95th percentile", percentile(times, 95), "ms", FIRST_BYTE_P95),
        Measurement(
            "reading: processor for each of them, to its last byte", cost.processor / repeats * 1000, "ms", None, shares
        ),
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


def _throughput(reading: _Reading) -> list[Measurement]:
    with _measured(reading) as cost:
        _, received = reading.ask(reading.site.archives[0], reading.site.large)
    size = received / 2**20
    what = "reading: a large file from its first byte to its last"
    decrypting = f"{cost.readers / size * 1000:.1f} ms of the reader (decrypting and checking)"
    return [
        Measurement(what, size / cost.wall, "MiB/s"),
        Measurement(
            f"{what}, processor for each MiB",
            cost.processor / size * 1000,
            "ms",
            None,
            f"{decrypting}, {cost.service / size * 1000:.1f} ms of the service",
        ),
    ]


def _folders(reading: _Reading, place: Path) -> list[Measurement]:
    """Measure a folder of small files as zip and as tar: by chunks, by the engine through the service, and by the bare
    engine.

    The processor time of engines started by the service is not measured; it is that of the bare engine.
    """
    site, found = reading.site, []
    files = sum(1 for one in site.files if one.is_relative_to(site.folder))
    archive = site.archives[0]
    for form in ("zip", "tar"):
        with _measured(reading) as by_chunks:
            received = reading.folder(site.repository, archive, site.folder, form)
        with _measured(reading) as by_engine:
            again = reading.folder(site.without_index, site.its_archive, site.folder, form)
        assert abs(received - again) < received * 0.05, (received, again)
        what = f"reading: a folder of {files} small files as {form}"
        found += [
            Measurement(f"{what}, by chunks", by_chunks.wall, "s", None, by_chunks.note),
            Measurement(f"{what}, by the engine's export", by_engine.wall, "s", None, by_engine.note),
        ]
    for what, path in (("the large file", site.large), ("everything", site.source)):
        with _measured(reading) as by_chunks:
            reading.folder(site.repository, archive, path, "tar")
        with _measured(reading) as by_engine:
            reading.folder(site.without_index, site.its_archive, path, "tar")
        found += [
            Measurement(f"reading: {what} as tar, from the index", by_chunks.wall, "s", None, by_chunks.note),
            Measurement(f"reading: {what} as tar, without an index", by_engine.wall, "s", None, by_engine.note),
        ]
    with _measured(None, _own_children) as alone, (place / "exported.tar").open("wb") as output:
        command = ["borg", "export-tar", _address(place, archive), "-", str(site.folder).lstrip("/")]
        subprocess.run(command, env=_alone(place), stdout=output, check=True)
    what = f"reading: the {files} small files by `borg export-tar` alone"
    return [*found, Measurement(what, alone.wall, "s", None, alone.note)]


def _mounted(place: Path, site: Site, repeats: int) -> list[Measurement]:
    """Measure the first byte of random files through `borg mount`, if this machine has FUSE."""
    what = "reading: the first byte through `borg mount`"
    target = place / "mounted"
    target.mkdir()
    command = ["borg", "mount", "--foreground", _address(place, site.archives[0]), str(target)]
    began = time.perf_counter()
    mount = subprocess.Popen(command, env=_alone(place), stderr=subprocess.PIPE)
    try:
        while not os.path.ismount(target):
            if mount.poll() is not None or time.perf_counter() - began > MOUNT_SECONDS:
                said = (mount.stderr.read() if mount.stderr and mount.poll() is not None else b"").decode().strip()
                return [Measurement(f"{what}: not available", 0.0, "", None, said.splitlines()[-1] if said else "")]
            time.sleep(0.01)
        ready = time.perf_counter() - began
        generator, times = random.Random(4), []
        for _ in range(repeats):
            file = target / str(generator.choice(site.files)).lstrip("/")
            before = time.perf_counter()
            with file.open("rb") as stream:
                stream.read(1)
            times.append(milliseconds(time.perf_counter() - before))
        return [
            Measurement("reading: until `borg mount` shows the archive", milliseconds(ready), "ms"),
            Measurement(f"{what}, median", percentile(times, 50), "ms"),
            Measurement(f"{what}, 95th percentile", percentile(times, 95), "ms"),
        ]
    finally:
        if mount.poll() is None:
            subprocess.run(["borg", "umount", str(target)], env=_alone(place), check=False)
        mount.terminate()
        mount.wait()


def _alone(place: Path) -> dict[str, str]:
    """The environment of an engine independent of the service."""
    return {
        **os.environ,
        "BORG_PASSPHRASE": PASSPHRASE,
        "BORG_BASE_DIR": str(place / "alone"),
        "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
    }


def _address(place: Path, archive: dict[str, Any]) -> str:
    return f"{place / 'repository'}::{archive['name']}"


def _engine_alone(place: Path, site: Site, repeats: int) -> list[Measurement]:
    """Measure the same with `borg extract --stdout`, for single files and for the large one."""
    generator = random.Random(3)

    def extract(archive: dict[str, Any], path: Path) -> tuple[float, float]:
        command = ["borg", "extract", "--stdout", _address(place, archive), str(path).lstrip("/")]
        began = time.perf_counter()
        with subprocess.Popen(command, env=_alone(place), stdout=subprocess.PIPE) as engine:
            assert engine.stdout is not None
            engine.stdout.read(1)
            first = time.perf_counter() - began
            while engine.stdout.read(1 << 20):
                continue
        assert engine.returncode == 0
        return first, time.perf_counter() - began

    extract(site.archives[0], site.files[0])  # it creates its cache once
    with _measured(None, _own_children) as small:
        times = [
            milliseconds(extract(generator.choice(site.archives), generator.choice(site.files))[0])
            for _ in range(repeats)
        ]
    with _measured(None, _own_children) as large:
        _, whole = extract(site.archives[0], site.large)
    size = site.large.stat().st_size >> 20
    what = "reading: the same by `borg extract --stdout`"
    return [
        Measurement(f"{what}, median", percentile(times, 50), "ms"),
        Measurement(f"{what}, processor for each file", small.processor / repeats * 1000, "ms"),
        Measurement("reading: the large file by it, its start included", size / whole, "MiB/s"),
        Measurement("reading: processor of it for each MiB", large.processor / size * 1000, "ms"),
    ]


BENCH = Bench("the first byte of any file of any archive of a local repository comes in 5 ms, 95 of 100 in 50 ms", run)
