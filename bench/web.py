"""The web pages against their budgets, in a real browser in front of a real service."""

import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from backup_engine.process import NICENESS_VARIABLE
from bench.log_stream import LOG_FILE, name_log, write_log
from bench.report import Bench, Measurement, Options
from bench.running import folder, serving, settings_for, signed_in
from bench.timing import percentile
from bench.web_support.browser import SLOWER, Measured, browsing, static_page
from bench.web_support.build import sizes
from bench.web_support.events import Source, measure_events
from bench.web_support.folder import filled_folder, measure_folder
from bench.web_support.log import measure_log
from holdfast.settings import Settings
from holdfast.storage.session import Database
from tests.support.service import Client, wait_until

PAINT_RATIO, SHIFT_ON_LOAD, ACT_MILLISECONDS = 4, 0.005, 100
LOADS, REPOSITORIES, STATIC_ACTS = 5, 6, 30
SHORTEST_REPORTED = 16
"""In milliseconds; the browser does not report acts that were shown sooner."""
ACTS = """() => { window.acts = {}; new PerformanceObserver((list) => { for (const one of list.getEntries())
  if (one.interactionId) window.acts[one.interactionId] = Math.max(window.acts[one.interactionId] ?? 0, one.duration) })
  .observe({ type: 'event', durationThreshold: 16, buffered: true }) }"""


def run(options: Options) -> list[Measurement]:
    told = shown(sizes())
    with (
        engines_at_our_priority(),
        folder() as place,
        settings_for(place / "data", options.store) as settings,
        serving(settings) as service,
    ):
        client = signed_in(service)
        operation, repository = filled(client, place)
        database = Database(settings.database_url or f"sqlite:///{settings.data_dir / 'holdfast.db'}")
        give_log(settings, database, operation, options)
        many, path = filled_folder(client, place, options)
        try:
            with browsing(service) as measured:
                told += shown(measure_loads(measured, options))
                told += shown(measure_acts(measured))
                told += shown(measure_log(measured, operation, options))
                told += shown(measure_folder(measured, many["id"], path, options))
                told += shown(measure_idle(measured, client, options))
                told += shown(measure_events(measured, Source(database, repository, operation), options))
        finally:
            database.dispose()
    return told


def shown(measurements: list[Measurement]) -> list[Measurement]:
    """Print measurements at once, so that they are not lost if a later part fails."""
    for one in measurements:
        print(f"  {one.what}: {one.value:.2f} {one.unit} {one.verdict} {one.note}".rstrip(), flush=True)
    return measurements


@contextmanager
def engines_at_our_priority() -> Iterator[None]:
    """Run engines at normal priority; at their usual low one, 100,000 files would never be backed up on a busy
    machine.
    """
    before = os.environ.get(NICENESS_VARIABLE)
    os.environ[NICENESS_VARIABLE] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[NICENESS_VARIABLE]
        else:
            os.environ[NICENESS_VARIABLE] = before


def filled(client: Client, place: Path) -> tuple[int, int]:
    """Create some repositories with a backup each. Return the last backup and its repository."""
    source = place / "source"
    source.mkdir()
    (source / "file").write_text("a file\n")
    repository: dict[str, Any] = {}
    operation = 0
    for number in range(REPOSITORIES):
        repository = client.create_repository(
            place / f"repository-{number}", [source], encryption="none", passphrase=None
        )
        operation = client.start_backup(repository)
        client.wait_for_end(operation)
    return operation, repository["id"]


def give_log(settings: Settings, database: Database, operation: int, options: Options) -> None:
    write_log(settings.logs_dir / LOG_FILE, options.rows())
    name_log(database, operation)


def measure_loads(measured: Measured, options: Options) -> list[Measurement]:
    """Measure a first visit on a slow processor, alternating with a page without scripts."""
    ours, bare, shifts = [], [], []
    measured.slow_down(SLOWER)
    with static_page() as address:
        for _ in range(options.repeats(LOADS)):
            measured.page.goto(address)
            bare.append(measured.largest_paint())
            measured.forget_files()
            measured.page.goto("/")
            measured.page.get_by_role("region", name="Right now").wait_for()
            measured.watch_shifts()
            ours.append(measured.largest_paint())
            shifts.append(measured.shifted())
    measured.slow_down(1)
    mine, other = statistics.median(ours), statistics.median(bare)
    note = f"{mine:.0f} against {other:.0f} ms, processor slowed down {SLOWER} times"
    return [
        Measurement("largest paint of / against a static page", mine / other, "x", PAINT_RATIO, note),
        Measurement("layout shift while / loads", max(shifts), "", SHIFT_ON_LOAD),
    ]


def measure_acts(measured: Measured) -> list[Measurement]:
    """Measure links, filters, keys and dialogs on a slow processor: from the act to the frame that shows it."""
    page = measured.page
    bare = acts_on_static_page(measured)
    page.goto("/activity")
    page.get_by_role("status").filter(has_text="Live").wait_for()
    go_everywhere(page)  # the scripts of the pages are fetched only once
    page.evaluate(ACTS)
    measured.slow_down(SLOWER)
    count = sum(go_everywhere(page) for _ in range(3))
    measured.slow_down(1)
    times = shown_after(page, count)
    note = f"{count} acts, the slowest {max(times):.0f} ms; on a static page {percentile(bare, 95):.0f} ms"
    return [Measurement("act to paint, 95th percentile", percentile(times, 95), "ms", ACT_MILLISECONDS, note)]


def acts_on_static_page(measured: Measured) -> list[float]:
    """Measure the same for a button that changes one word: the share of the machine itself."""
    page = measured.page
    with static_page() as address:
        page.goto(address)
        page.evaluate(ACTS)
        measured.slow_down(SLOWER)
        for _ in range(STATIC_ACTS):
            page.get_by_role("button", name="Act").click()
        measured.slow_down(1)
        return shown_after(page, STATIC_ACTS)


def shown_after(page: Page, acts: int) -> list[float]:
    """The milliseconds of each act, which the browser reports a moment later."""
    page.wait_for_timeout(1000)
    reported: list[float] = list(page.evaluate("Object.values(window.acts)"))
    return reported + [SHORTEST_REPORTED] * max(0, acts - len(reported))


def go_everywhere(page: Page) -> int:
    """Visit all pages; return the number of acts."""
    main = page.get_by_role("navigation", name="Main", exact=True)
    acts = 0
    for name in ("Repositories", "Queue", "Schedules", "Machines", "Activity"):
        main.get_by_role("link", name=name).click()
        page.locator(f'[data-page="/{name.lower()}"]').wait_for()
        acts += 1
    for chip in ("Backups", "failed", "failed", "Backups"):
        page.get_by_role("button", name=chip, exact=True).click()
        acts += 1
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").wait_for()
    for letter in "repo":
        page.keyboard.press(letter)
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    return acts + 6


def measure_idle(measured: Measured, client: Client, options: Options) -> list[Measurement]:
    wait_until(lambda: not client.get("/api/operations/queue").json()["repositories"], what="the service is idle")
    page, seconds = measured.page, 15 if options.quick else 60
    page.goto("/")
    page.get_by_role("status").filter(has_text="Live").wait_for()
    page.wait_for_timeout(3000)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.wait_for_timeout(seconds * 1000)
    return [Measurement("requests of an idle / in a minute", len(sent) * 60 / seconds, "", 0, " ".join(sent[:3]))]


BENCH = Bench(
    "the web pages: bytes, first paint, acts, a log of 1,000,000 lines, a folder of 100,000 names, an hour of events",
    run,
)
