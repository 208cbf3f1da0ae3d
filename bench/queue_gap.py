"""How long a repository is idle between two exclusive jobs while more of them wait."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import Bench, Measurement, Options
from bench.running import folder, serving, settings_for, signed_in
from tests.support.service import Client

LIMIT_MILLISECONDS = 100.0
KINDS = ("check", "compact", "prune", "restore-check", "backup")
SHARED = "restore_check"
DEADLINE_SECONDS = 1800.0


def run(options: Options) -> list[Measurement]:
    jobs, repositories = (40, 2) if options.quick else (200, 5)
    with folder() as place, settings_for(place / "data", options.store) as settings, serving(settings) as service:
        admin = signed_in(service)
        names = ("backups", "restores", "maintenance", "index", "total")
        admin.put("/api/operations/limits", json={f"max_running_{name}": 64 for name in names})
        made = [_repository(admin, place, number) for number in range(repositories)]
        ended = _run_jobs(admin, made, jobs)
    gaps = [gap for repository in made for gap in _gaps(_of(repository, ended))]
    unfinished = sum(operation["status"] != "completed" for operation in ended)
    return [
        Measurement("queue: jobs that did not complete", unfinished, "jobs", 0),
        Measurement(f"queue: median gap of {len(gaps)} between exclusive jobs", median(gaps), "ms", LIMIT_MILLISECONDS),
        Measurement("queue: 95th percentile of that gap", sorted(gaps)[int(len(gaps) * 0.95)], "ms", None),
    ]


def _repository(admin: Client, place: Path, number: int) -> dict[str, Any]:
    source = place / f"source-{number}"
    source.mkdir()
    (source / "file").write_text(f"of repository {number}\n")
    made = admin.create_repository(
        place / f"repository-{number}", [source], encryption="none", passphrase=None, index_mode="off"
    )
    admin.wait_for_end(admin.start_backup(made))
    return made


def _run_jobs(admin: Client, repositories: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """Submit all jobs at once, and wait for all of them."""
    chance = random.Random(number)
    wanted = [(chance.choice(KINDS), chance.choice(repositories)) for _ in range(number)]
    with ThreadPoolExecutor(16) as pool:
        started = list(pool.map(lambda job: _start(admin, *job), wanted))
    return [admin.wait_for_end(operation, DEADLINE_SECONDS) for operation in started]


def _start(admin: Client, kind: str, repository: dict[str, Any]) -> int:
    if kind == "backup":
        return admin.start_backup(repository)
    body = {"keep_last": 3} if kind == "prune" else {}
    answer = admin.post(f"/api/repositories/{repository['id']}/{kind}", json=body)
    answer.raise_for_status()
    job_id: int = answer.json()["job_id"]
    return job_id


def _of(repository: dict[str, Any], operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    mine = [operation for operation in operations if operation["repository_id"] == repository["id"]]
    return sorted(mine, key=lambda operation: str(operation["started_at"]))


def _gaps(operations: list[dict[str, Any]]) -> list[float]:
    """Milliseconds from the end of an exclusive job to the start of the next one, if that was already waiting."""
    return [
        (_moment(later, "started_at") - _moment(earlier, "completed_at")) * 1000
        for earlier, later in pairwise(operations)
        if SHARED not in (earlier["kind"], later["kind"])
        and _moment(later, "created_at") < _moment(earlier, "completed_at")
    ]


def _moment(operation: dict[str, Any], name: str) -> float:
    return datetime.fromisoformat(operation[name]).timestamp()


BENCH = Bench("a gap of at most 100 ms (median) between exclusive jobs of a busy repository", run)
