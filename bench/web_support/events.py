"""Live events on an open overview: an hour of them at sixty times the speed, and a flood."""

import time
from dataclasses import dataclass

from bench.report import Measurement, Options
from bench.web_support.browser import Measured
from holdfast.operations import outbox
from holdfast.storage.session import Database

HEAP_RATIO, HEAP_MB, NODES_RATIO, SHIFT, BUSY_PERCENT = 1.2, 60, 1.1, 0.01, 30
AN_HOUR = 1200
"""Number of events in an hour: an operation or a repository changes every three seconds."""
FLOOD_PER_SECOND = 200
PART_SECONDS = 0.5


@dataclass(frozen=True)
class Source:
    """Writes events as the service does, into the store that it serves from."""

    database: Database
    repository: int
    operation: int

    def tell(self, count: int) -> None:
        with self.database.writing() as session:
            for number in range(count):
                if number % 2:
                    outbox.publish(
                        session,
                        "operation.updated",
                        {"status": "running"},
                        repository_id=self.repository,
                        operation_id=self.operation,
                    )
                else:
                    outbox.publish(
                        session, "repository.updated", {"changed": ["evidence"]}, repository_id=self.repository
                    )

    def replay(self, seconds: float, per_second: float) -> None:
        begun, told = time.monotonic(), 0.0
        while (passed := time.monotonic() - begun) < seconds:
            due = int(passed * per_second - told)
            if due > 0:
                self.tell(due)
                told += due
            time.sleep(PART_SECONDS)


def measure_events(measured: Measured, source: Source, options: Options) -> list[Measurement]:
    page = measured.page
    page.goto("/")
    page.get_by_role("status").filter(has_text="Live").wait_for()
    page.get_by_role("region", name="Right now").wait_for()
    minutes = 10 if options.quick else 60
    measured.watch_shifts()
    looks: list[str] = []
    page.on("request", lambda request: looks.append(request.url))
    source.replay(1, AN_HOUR / 60)
    first = settled(measured)
    source.replay(minutes - 1, AN_HOUR / 60)
    last = settled(measured)
    shifted = measured.shifted()
    assert len(looks) > minutes, f"the events did not reach the page: it looked {len(looks)} times"
    note = f"{len(looks)} requests in {minutes} s"
    busy = busy_during_flood(measured, source, options)
    heap = last["JSHeapUsedSize"] / 1e6
    what = f"after {minutes} minutes of events"
    return [
        Measurement(
            f"{what}: memory against that after one",
            last["JSHeapUsedSize"] / first["JSHeapUsedSize"],
            "x",
            HEAP_RATIO,
            note,
        ),
        Measurement(f"{what}: memory of the page's scripts", heap, "MB", HEAP_MB),
        Measurement(f"{what}: nodes against those after one minute", last["Nodes"] / first["Nodes"], "x", NODES_RATIO),
        Measurement(f"{what}: layout shift", shifted, "", SHIFT),
        Measurement(f"{FLOOD_PER_SECOND} events a second: main thread busy", busy, "%", BUSY_PERCENT),
    ]


def busy_during_flood(measured: Measured, source: Source, options: Options) -> float:
    begun, before = time.monotonic(), measured.metrics()["TaskDuration"]
    source.replay(10 if options.quick else 60, FLOOD_PER_SECOND)
    return 100 * (measured.metrics()["TaskDuration"] - before) / (time.monotonic() - begun)


def settled(measured: Measured) -> dict[str, float]:
    """The page's metrics once all of its requests have been answered."""
    measured.page.wait_for_timeout(3000)
    for _ in range(3):
        measured.collect_garbage()
    return measured.metrics()
