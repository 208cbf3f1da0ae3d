#!/usr/bin/env python3
"""A service with a year of history: real repositories, archives, jobs and failures, in a temporary folder and on a free
port.

It runs until Ctrl-C and then leaves nothing behind; with DEMO_EXIT=1 it ends as soon as it is filled. `--keep-open
FILE` writes address, user and password to a file, for a program that takes screenshots.
"""

import argparse
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from demo_machine import NAME as SECOND
from demo_machine import Machine

HOUSE = Path(__file__).resolve().parents[1]
PASSPHRASE = "correct horse battery staple"  # noqa: S105 -- of sample data
NOW = datetime.now(UTC).replace(microsecond=0)
TODAY = NOW.replace(hour=2, minute=0, second=0)
DAY = timedelta(days=1)
ENDED = {"completed", "completed_with_warnings", "failed", "cancelled"}
START_SECONDS, JOB_SECONDS = 120, 300
QUICK = {"HOLDFAST_AGENT_POLL_SECONDS": "1"}

# --- a year of changes ----------------------------------------------------------------------------------------------


def photos(folder: Path, chance: random.Random) -> Iterator[datetime]:
    """Add some pictures every week; one folder is removed by mistake, unnoticed."""
    for week in range(51, -1, -1):
        taken = TODAY - week * 7 * DAY
        album = folder / f"{taken:%Y}" / f"{taken:%m %B}"
        album.mkdir(parents=True, exist_ok=True)
        for _ in range(chance.randint(1, 4)):
            picture = album / f"IMG_{chance.randrange(10_000):04}.jpg"
            picture.write_bytes(chance.randbytes(chance.randint(20_000, 90_000)))
        if week == 20:
            holiday = folder / f"{taken - 60 * DAY:%Y}" / f"{taken - 60 * DAY:%m %B}"
            shutil.rmtree(holiday, ignore_errors=True)
        yield taken + timedelta(minutes=chance.randint(0, 20))


def website(folder: Path, chance: random.Random) -> Iterator[datetime]:
    """Monthly at first, daily for the last three months: a few pages change each day, and one file disappears."""
    for name in ("index", "about", "prices", "contact", "imprint", *(f"news/{number:03}" for number in range(30))):
        page = folder / "www" / f"{name}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"<h1>{name}</h1>\n" + "<p>As of old.</p>\n" * chance.randint(5, 60))
    (folder / "etc" / "nginx").mkdir(parents=True)
    (folder / "etc" / "nginx" / "nginx.conf").write_text("worker_processes 2;\n")
    (folder / "invoices").mkdir()
    for age in [*range(360, 90, -30), *range(90, -1, -1)]:
        if age in (61, 62, 17):
            continue  # the machine was off
        for _ in range(chance.randint(1, 3)):
            page = chance.choice(sorted((folder / "www").rglob("*.html")))
            page.write_text(page.read_text() + f"<p>Changed {TODAY - age * DAY:%d %b}.</p>\n")
        if age % 30 == 0:
            day = TODAY - age * DAY
            (folder / "invoices" / f"{day:%Y-%m}.pdf").write_bytes(b"%PDF-1.7\n" + chance.randbytes(30_000))
            (folder / "etc" / "nginx" / "nginx.conf").write_text(f"worker_processes {2 + age % 4};\n# {day:%d %b %Y}\n")
        if age == 24:
            sorted((folder / "invoices").iterdir())[2].unlink()
        yield TODAY - age * DAY + timedelta(hours=1, minutes=chance.randint(0, 9))


def laptop(folder: Path, chance: random.Random) -> Iterator[datetime]:
    """Back up whenever the laptop is at home."""
    (folder / "Documents").mkdir(parents=True)
    age = 340
    while age >= 0:
        for _ in range(chance.randint(1, 5)):
            letter = (
                folder
                / "Documents"
                / f"{chance.choice(('letter', 'notes', 'tax', 'travel'))}-{chance.randrange(60):02}.txt"
            )
            letter.write_text(f"{TODAY - age * DAY:%d %B %Y}\n" + "words and words\n" * chance.randint(3, 400))
        yield TODAY - age * DAY + timedelta(hours=chance.randint(7, 20), minutes=chance.randint(0, 59))
        age -= chance.choice((2, 3, 4, 5, 9))


YEARS: dict[str, Callable[[Path, random.Random], Iterator[datetime]]] = {
    "photos": photos,
    "web-server": website,
    "laptop": laptop,
}


def live(place: Path, name: str) -> int:
    """Create the repository and all of its archives with the engine itself; return the number of archives."""
    chance, source = random.Random(name), place / "machines" / name
    source.mkdir(parents=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "BORG_BASE_DIR": str(place / "before" / name),
        "BORG_PASSPHRASE": PASSPHRASE,
        "BORG_SELFTEST": "disabled",
    }
    program = os.environ.get("HOLDFAST_BORG1") or "borg"
    repository = place / "repositories" / name
    repository.parent.mkdir(exist_ok=True)

    def engine(*words: str) -> None:
        done = subprocess.run(
            [program, *words], env=environment, capture_output=True, text=True, cwd=source, check=False
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"demo: borg {words[0]} failed: {done.stderr.strip()}")

    engine("init", "--encryption", "repokey-blake2", str(repository))
    count = 0
    for moment in YEARS[name](source, chance):
        if moment > NOW:
            continue
        date_back(source, moment)
        archive = f"{repository}::{name}-{moment:%Y-%m-%dT%H:%M:%S}"
        engine(
            "create", "--timestamp", f"{moment:%Y-%m-%dT%H:%M:%S}", "--files-cache", "disabled", archive, str(source)
        )
        count += 1
    return count


def date_back(folder: Path, moment: datetime) -> None:
    """Set the times of files written just now to the given time."""
    for path in (*folder.rglob("*"), folder):
        if path.stat().st_mtime > NOW.timestamp() - 60:
            os.utime(path, (moment.timestamp(), moment.timestamp()))


# --- the service ----------------------------------------------------------------------------------------------------


class Service:
    def __init__(self, place: Path) -> None:
        self.password = secrets.token_urlsafe(9)
        self.url, self._token = "", ""
        self._place = place
        # Real installations are left alone: of HOLDFAST_ variables, only the engine programs are passed on.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        engines = {name: os.environ[name] for name in ("HOLDFAST_BORG1", "HOLDFAST_BORG2") if name in os.environ}
        self.out = place / "service.log"
        command = [str(HOUSE / ".venv/bin/holdfast"), "serve", "--port", "0", "--data-dir", str(place / "service")]
        with self.out.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                env={**kept, **engines, **QUICK, "HOLDFAST_ADMIN_PASSWORD": self.password},
                stdout=out,
                stderr=out,
            )

    def wait_until_ready(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            found = re.search(r"^Holdfast is listening on (\S+)", self.out.read_text(), re.MULTILINE)
            if found is not None:
                self.url = found[1]
                body = urllib.parse.urlencode({"username": "admin", "password": self.password}).encode()
                self._token = self._send(urllib.request.Request(f"{self.url}/api/auth/login", body))["access_token"]
                return
            time.sleep(0.1)
        raise SystemExit(f"demo: the service did not start:\n{self.out.read_text()}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode() if body is not None else None, method=method
        )
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("Content-Type", "application/json")
        return self._send(request)

    def job(self, path: str, body: Any = None) -> str:
        """Start a job, wait for it and return its final status."""
        return self.end_of(self.ask("POST", path, body or {})["job_id"])

    def end_of(self, number: int) -> str:
        end = time.monotonic() + JOB_SECONDS
        while time.monotonic() < end:
            status: str = self.ask("GET", f"/api/operations/{number}")["status"]
            if status in ENDED:
                return status
            time.sleep(0.1)
        raise SystemExit(f"demo: job {number} did not end within {JOB_SECONDS} s")

    def _send(self, request: urllib.request.Request) -> Any:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise SystemExit(f"demo: {request.get_method()} {request.full_url}: {error.read().decode()}") from error
        return json.loads(text) if text else None

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def fill(service: Service, place: Path, machine: Machine) -> None:
    """Import the repositories, and let some things succeed and others fail."""
    ids = {}
    retention = {
        "photos": {"keep_weekly": 60, "keep_yearly": 10},
        "web-server": {"keep_daily": 85, "keep_monthly": 12},
        "laptop": {"keep_last": 30, "keep_monthly": 12},
    }
    for name in YEARS:
        body = {
            "name": name,
            "path": str(place / "repositories" / name),
            "passphrase": PASSPHRASE,
            "source_paths": [str(place / "machines" / name)],
            "retention": retention[name],
            "labels": {"tier": "gold" if name == "photos" else "silver"},
        }
        ids[name] = service.ask("POST", "/api/repositories/import", body)["id"]
    say("Three repositories are imported; their files are being indexed")
    second = machine.repository(machine.enrol(service.url, service.ask), PASSPHRASE)
    setup = service.ask("POST", "/api/repositories/", second)["setup_operation_id"]
    say(f"A second machine, {SECOND}, has enrolled with an agent")
    broken = {
        "name": "database",
        "path": str(place / "repositories" / "database"),
        "passphrase": PASSPHRASE,
        "source_paths": ["/srv/postgresql/dumps"],
        "retention": {"keep_daily": 14},
    }
    service.ask("POST", "/api/repositories/", broken)
    for name in ids:
        (place / "machines" / name / "today.txt").write_text("written today\n")
        say(f"Backup of {name}: {service.job('/api/backup/start', {'repository': str(place / 'repositories' / name)})}")
    say(
        "Backup of database, whose folder is not there: "
        f"{service.job('/api/backup/start', {'repository': broken['path']})}"
    )
    if service.end_of(setup) == "completed":
        say(f"Backup of {SECOND}, by its agent: {service.job('/api/backup/start', {'repository': second['path']})}")
    web = ids["web-server"]
    say(f"Check of web-server: {service.job(f'/api/repositories/{web}/check')}")
    say(f"Prune of web-server: {service.job(f'/api/repositories/{web}/prune')}")
    say(f"Compaction of web-server: {service.job(f'/api/repositories/{web}/compact')}")
    proof = f"/api/repositories/{ids['photos']}/restore-check"
    say(f"Restore check of photos: {service.job(proof, {'sample': 40})}")
    nightly = {
        "name": "nightly",
        "cron_expression": "0 2 * * *",
        "targets": {"all": True},
        "steps": [{"kind": "backup"}, {"kind": "prune"}, {"kind": "compact", "every_days": 7}],
    }
    service.ask("POST", "/api/schedules/", nightly)
    weekly = {
        "name": "weekly proof",
        "cron_expression": "0 5 * * 0",
        "targets": {"labels": {"tier": "gold"}},
        "steps": [{"kind": "check"}, {"kind": "restore_check"}],
    }
    service.ask("POST", "/api/schedules/", weekly)
    anna = {"username": "anna", "password": secrets.token_urlsafe(12), "role": "viewer"}
    user = service.ask("POST", "/api/users", anna)["id"]
    service.ask("PUT", f"/api/users/{user}/repositories/{ids['photos']}", {"role": "viewer"})
    say("Two schedules, and a user who may look at the photos")
    wait_for_index(service, ids)


def wait_for_index(service: Service, ids: dict[str, int]) -> None:
    end = time.monotonic() + JOB_SECONDS
    for name, number in ids.items():
        while time.monotonic() < end:
            archives = service.ask("GET", f"/api/repositories/{number}/archives?limit=500")["archives"]
            if archives and all(archive["history_state"] == "indexed" for archive in archives):
                say(f"Every file of {len(archives)} archives of {name} is indexed")
                break
            time.sleep(0.3)


# --- the program ----------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep-open", metavar="FILE", help="write address, user and password there as JSON, and go on")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    begun = time.monotonic()
    service, machine = None, Machine(place, HOUSE)
    try:
        print("Making a year of backups with the engine itself, and a service for them …", flush=True)
        service = Service(place)
        with ThreadPoolExecutor(2) as pool:
            for name, count in zip(YEARS, pool.map(lambda name: live(place, name), YEARS), strict=True):
                say(f"{count} archives of {name}")
        service.wait_until_ready()
        fill(service, place, machine)
        print(f"\nReady after {time.monotonic() - begun:.0f} seconds: {service.url}")
        print(f"User admin, password {service.password}", flush=True)
        if options.keep_open:
            known = {"url": service.url, "username": "admin", "password": service.password}
            Path(options.keep_open).write_text(json.dumps(known))
        elif os.environ.get("DEMO_EXIT") == "1":
            return 0
        print("It stays until Ctrl-C; nothing of it is left then.", flush=True)
        return service.process.wait()
    except KeyboardInterrupt:
        return 130
    finally:
        machine.stop()
        if service is not None:
            service.stop()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
