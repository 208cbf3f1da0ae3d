"""Reading a record of a million operations must cost the same as reading one of a thousand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.filling import VIEWERS, Past, fill, prepare
from bench.report import Bench, Measurement, Options
from bench.running import folder, pid_of, serving, settings_for, signed_in
from bench.timing import Sample, measure, milliseconds, processor_seconds
from tests.support.service import Client, ServiceProcess

SMALL_ROWS = 1000
MOST_TIMES_SMALL = 1.5
P99_MILLISECONDS = 20.0
ROUNDS = 3
PAGE = 20
"""No filter finds fewer rows in the small store, so both stores return pages of the same size."""

Parameters = dict[str, str | int | list[str]]


@dataclass(frozen=True, slots=True)
class Read:
    """A request that is sent to both stores."""

    name: str
    path: str
    parameters: Callable[[Past], Parameters] = field(default=lambda _: {"limit": PAGE})
    user: str = "admin"


def listing(name: str, user: str = "admin", **parameters: str | int | list[str]) -> Read:
    return Read(name, "/api/operations/", lambda _: {"limit": PAGE, **parameters}, user)


def _reads() -> Sequence[Read]:
    return (
        listing("list"),
        listing("list, 100 rows", limit=100),
        listing("list, kind", kind="backup"),
        listing("list, a rare kind", kind="wipe"),
        listing("list, a kind nobody has", kind="unheard_of"),
        listing("list, two kinds", kind=["check", "wipe"]),
        listing("list, category", category="maintenance"),
        listing("list, two categories", category=["maintenance", "index"]),
        listing("list, status", status="completed"),
        listing("list, a rare status", status="skipped"),
        listing("list, two statuses", status=["failed", "skipped"]),
        listing("list, trigger", trigger="followup"),
        listing("list, a rare trigger", trigger="import"),
        listing("list, repository", repository_id=3),
        listing("list, repository and kind", repository_id=3, kind="backup"),
        listing("list, repository and status", repository_id=50, status="failed"),
        listing("list, kind and status", kind="wipe", status="completed"),
        listing("list, kind and status that never met", kind="restore", status="skipped"),
        listing("list, category, status and trigger", category="maintenance", status="failed", trigger="import"),
        Read("list, since yesterday", "/api/operations/", lambda past: {"limit": PAGE, "since": past.days_ago(1)}),
        Read("list, since long ago", "/api/operations/", lambda past: {"limit": PAGE, "since": past.days_ago(3000)}),
        Read("list, run", "/api/operations/", lambda past: {"run_id": past.a_run}),
        Read("list, a page far back", "/api/operations/", lambda past: {"limit": PAGE, "cursor": past.cursor_far_back}),
        *(listing(f"list, viewer of {len(seen)} ({name})", user=name) for name, seen in VIEWERS.items()),
        *(listing(f"list, kind, viewer ({name})", user=name, kind="backup") for name in VIEWERS),
        *(listing(f"list, two statuses, viewer ({name})", user=name, status=["failed", "skipped"]) for name in VIEWERS),
        Read("queue", "/api/operations/queue"),
        Read("queue, viewer (few)", "/api/operations/queue", user="few"),
        Read("queue, viewer (quiet)", "/api/operations/queue", user="quiet"),
        Read("one operation", "/api/operations/{newest_backup}"),
        Read("backup status", "/api/backup/status/{newest_backup}"),
        Read("backup jobs", "/api/backup/jobs"),
        Read("backup jobs, repository", "/api/backup/jobs", lambda _: {"limit": PAGE, "repository_id": 3}),
        Read("activity", "/api/activity/recent"),
        Read("activity, viewer (few)", "/api/activity/recent", user="few"),
        Read("activity, viewer (quiet)", "/api/activity/recent", user="quiet"),
    )


def run(options: Options) -> list[Measurement]:
    with (
        folder() as place,
        settings_for(place / "small", options.store) as small_settings,
        settings_for(place / "large", options.store) as large_settings,
    ):
        pasts = []
        for settings, rows in ((small_settings, SMALL_ROWS), (large_settings, options.rows())):
            database = prepare(settings)
            pasts.append(fill(database, rows))
            database.dispose()
        with serving(small_settings) as small, serving(large_settings) as large:
            return _compare(options, (small, large), pasts)


def _compare(options: Options, services: Sequence[ServiceProcess], pasts: Sequence[Past]) -> list[Measurement]:
    clients = [{name: signed_in(service, name) for name in ("admin", *VIEWERS)} for service in services]
    clocks = [processor_seconds(pid_of(service)) for service in services]
    measurements: list[Measurement] = []
    for read in _reads():
        calls = [_call(read, mine[read.user], past) for mine, past in zip(clients, pasts, strict=True)]
        if calls[0]() is None:
            continue  # a route that this version does not have
        rounds = [measure(calls, options.repeats(100), clocks) for _ in range(ROUNDS)]
        measurements += _told(read, rounds)
    return measurements


def _call(read: Read, client: Client, past: Past) -> Callable[[], int | None]:
    """A function that sends the request once and returns the size of the answer; None if there is no such route."""
    path = read.path.format(newest_backup=past.newest_backup)
    parameters = read.parameters(past)

    def call() -> int | None:
        answer = client.get(path, params=parameters)
        if answer.status_code == 404 and answer.json()["detail"]["key"] == "api.not_found":
            return None
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:300]}"
        return len(answer.content)

    return call


def _told(read: Read, rounds: Sequence[Sequence[Sample]]) -> list[Measurement]:
    """Noise only ever adds, so the best of several rounds counts."""
    ratio = min(large.median / small.median for small, large in rounds)
    p99 = min(milliseconds(large.p99) for _, large in rounds)
    small_cpu, large_cpu = (min(milliseconds(samples[which].cpu_per_call) for samples in rounds) for which in range(2))
    small_wall, large_wall = (min(milliseconds(samples[which].median) for samples in rounds) for which in range(2))
    note = f"wall {small_wall:.1f} → {large_wall:.1f} ms, processor {small_cpu:.1f} → {large_cpu:.1f} ms"
    return [
        Measurement(f"{read.name}: large / small", ratio, "x", MOST_TIMES_SMALL, note),
        Measurement(f"{read.name}: p99", p99, "ms", P99_MILLISECONDS),
    ]


BENCH = Bench("lists, status and queue: p99 ≤ 20 ms at one client, and 1,000,000 rows ≤ 1.5 x 1,000", run)
