"""What a download of a large folder costs the service in memory and time, compared with the bare engine."""

import os
import random
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from bench.report import Bench, Measurement, Options
from bench.running import folder, pid_of, serving, settings_for, signed_in
from tests.support.service import Client, ServiceProcess, wait_until

MEBIBYTE = 1 << 20
LIMIT_MEBIBYTES = 50.0
SECONDS = 3600.0


def run(options: Options) -> list[Measurement]:
    size = (300 if options.quick else 5120) * MEBIBYTE
    with folder() as place, settings_for(place / "data", options.store) as settings, serving(settings) as service:
        admin = signed_in(service)
        source = _make_source(place / "source", size)
        repository = admin.create_repository(place / "repository", [source], encryption="none", passphrase=None)
        ended = admin.wait_for_end(admin.start_backup(repository), SECONDS)
        url = f"/api/repositories/{repository['id']}/archives/{_archive_id(admin, repository)}/download"
        alone = _engine_alone(place / "repository", ended["archive_name"])
        measurements = []
        for form in ("tar", "zip"):
            seconds, received, grown = _download(service, admin, url, {"path": str(source), "format": form})
            assert received > size * 0.9
            what = f"download: {size / 2**30:.1f} GiB as {form}"
            measurements += [
                Measurement(f"{what}, memory", grown / MEBIBYTE, "MiB more", LIMIT_MEBIBYTES),
                Measurement(
                    f"{what}, speed",
                    received / seconds / MEBIBYTE,
                    "MiB/s",
                    None,
                    f"{seconds / alone:.1f} times borg alone",
                ),
            ]
    return measurements


def _make_source(path: Path, size: int) -> Path:
    """Random content in files of 64 MiB. All blocks differ, but share most bytes to save time."""
    path.mkdir()
    generator = random.Random(size)
    block = bytearray(generator.randbytes(MEBIBYTE))
    for number in range(size // (64 * MEBIBYTE) or 1):
        with (path / f"file-{number:03d}").open("wb") as file:
            for _ in range(64):
                block[:16] = generator.randbytes(16)
                file.write(block)
    return path


def _archive_id(admin: Client, repository: dict[str, Any]) -> int:
    def known() -> int | None:
        listed = admin.get(f"/api/repositories/{repository['id']}/archives").json()["archives"]
        return listed[0]["id"] if listed else None

    return wait_until(known, SECONDS, what="the index knows the archive")


def _engine_alone(repository: Path, archive: str) -> float:
    """Seconds that the engine takes to write the same tar stream to /dev/null."""
    environment = {
        **os.environ,
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        "BORG_BASE_DIR": str(repository.parent / "alone"),
    }
    began = time.monotonic()
    with open(os.devnull, "wb") as nowhere:
        subprocess.run(
            ["borg", "export-tar", f"{repository}::{archive}", "-"], env=environment, stdout=nowhere, check=True
        )
    return time.monotonic() - began


def _download(service: ServiceProcess, admin: Client, url: str, params: dict[str, str]) -> tuple[float, int, int]:
    """Seconds, bytes, and the largest growth of the service's memory."""
    process = psutil.Process(pid_of(service))
    before = highest = process.memory_info().rss
    ended = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not ended.wait(0.05):
            highest = max(highest, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, received = time.monotonic(), 0
    try:
        with admin.stream("GET", url, params=params, timeout=SECONDS) as answer:
            assert answer.status_code == 200
            for block in answer.iter_raw(MEBIBYTE):
                received += len(block)
    finally:
        ended.set()
        watcher.join()
    return time.monotonic() - began, received, highest - before


BENCH = Bench("a download of 5 GB takes less than 50 MB of the service's memory", run)
