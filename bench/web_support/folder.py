"""A folder of 100,000 names in the time machine: how it scrolls, and how soon another archive is shown."""

from pathlib import Path
from typing import Any

from bench.report import Measurement, Options
from bench.timing import percentile
from bench.web_support.browser import Measured
from bench.web_support.log import MOST_MISSED_PERCENT, MOST_ROWS, STILL, missed, scroll
from tests.support.service import PATIENCE, Client, wait_until

NAMES, QUICK_NAMES = 100_000, 5_000
SHOWN_MILLISECONDS = 150
STEPS = 20
FILL_SECONDS = 900
# Press a key and return the milliseconds until another archive is shown.
STEP = """(key) => new Promise((done) => { const slider = document.querySelector('.dock input'), was = slider.value
  const begun = performance.now()
  window.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))
  const look = () => slider.value !== was ? requestAnimationFrame(() => done(performance.now() - begun))
    : requestAnimationFrame(look)
  requestAnimationFrame(look) })"""


def filled_folder(client: Client, place: Path, options: Options) -> tuple[dict[str, Any], str]:
    """Create a repository with two archives of the folder. Return it and the folder."""
    source = place / "many"
    source.mkdir()
    for number in range(QUICK_NAMES if options.quick else NAMES):
        (source / f"name-{number:06}").touch()
    repository = client.create_repository(
        place / "repository-many", [source], encryption="none", passphrase=None, index_mode="full"
    )
    for _ in range(2):
        client.wait_for_end(client.start_backup(repository), seconds=FILL_SECONDS)
        (source / "name-000007").write_text("changed\n")
    listed = f"/api/repositories/{repository['id']}/archives"
    wait_until(
        lambda: [one["history_state"] for one in client.get(listed).json()["archives"]] == ["indexed"] * 2,
        FILL_SECONDS,
        what="both archives are indexed",
    )
    return repository, str(source).lstrip("/")


def measure_folder(measured: Measured, repository: int, path: str, options: Options) -> list[Measurement]:
    page, count = measured.page, QUICK_NAMES if options.quick else NAMES
    page.goto(f"/files/{repository}?path={path}")
    rows = page.get_by_role("treegrid")
    page.locator(f'[role=treegrid][aria-rowcount="{count}"]').wait_for(timeout=PATIENCE * 1000)
    frames = 120 if options.quick else 600
    still, scrolled = missed(page.evaluate(STILL, frames)), missed(page.evaluate(scroll(".tm-rows"), frames))
    in_document = rows.get_by_role("row").count()
    steps = [page.evaluate(STEP, "[" if number % 2 == 0 else "]") for number in range(STEPS)]
    what = f"a folder of {count:,} names"
    return [
        Measurement(
            f"{what}: frames missed while it scrolls",
            scrolled,
            "%",
            MOST_MISSED_PERCENT + still,
            f"still {still:.1f} %",
        ),
        Measurement(f"{what}: rows in the document", in_document, "", MOST_ROWS),
        Measurement(
            f"{what}: another archive is shown, 95th percentile", percentile(steps, 95), "ms", SHOWN_MILLISECONDS
        ),
    ]
