"""Pages look unchanged: stored snapshots are compared with what the browser draws now.

`HOLDFAST_NEW_SNAPSHOTS=1` takes new snapshots; review them before you commit them.
"""

import base64
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.running import Running, Services
from tests.web import conftest

pytestmark = pytest.mark.campaign

FOLDER = Path(__file__).parent / "snapshots"
MOST_DIFFERENT = 0.01
"""The share of all pixels: each release of the browser draws letters slightly differently."""
COMPARE = """async ([kept, now]) => {
  const pixels = async (picture) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${picture}`)).blob())
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height)
    const drawing = canvas.getContext('2d')
    drawing.drawImage(bitmap, 0, 0)
    return [bitmap.width, bitmap.height, drawing.getImageData(0, 0, bitmap.width, bitmap.height).data]
  }
  const [wide, high, one] = await pixels(kept)
  const [width, height, other] = await pixels(now)
  if (wide !== width || high !== height) return 1
  let different = 0
  for (let at = 0; at < one.length; at += 4)
    if ([0, 1, 2].some((channel) => Math.abs(one[at + channel] - other[at + channel]) > 40)) different += 1
  return different / (wide * high)
}"""
SIZES = {"wide": (1440, 900), "narrow": (360, 800)}
PAGES = {"repositories": "/repositories", "schedules": "/schedules", "machines": "/machines"}


@pytest.fixture(scope="module")
def running(services: Services) -> Iterator[Running]:
    """An empty service, so that the pages are always the same."""
    with services.own() as started:
        yield started


@pytest.fixture
def drawn(browser: Browser, running: Running, theme: str, size: str) -> Iterator[Page]:
    width, height = SIZES[size]
    context = browser.new_context(
        base_url=str(running.admin.base_url),
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(conftest.MILLISECONDS)
    yield context.new_page()
    context.close()


def looks_as_kept(page: Page, name: str, *, hidden: str | None = None) -> None:
    """`hidden`: a selector of elements that differ from run to run; they keep their place, but are not drawn."""
    page.evaluate("document.fonts.ready")
    page.evaluate("document.activeElement?.blur()")  # a caret blinks
    page.mouse.move(0, 0)  # an element under the pointer looks different
    if hidden is not None:
        page.locator(hidden).evaluate_all("all => all.forEach((one) => { one.style.visibility = 'hidden' })")
    now = page.screenshot()
    file = FOLDER / f"{name}.png"
    if os.environ.get("HOLDFAST_NEW_SNAPSHOTS") == "1":
        file.write_bytes(now)
    page.goto("about:blank")
    different = page.evaluate(COMPARE, [base64.b64encode(one).decode() for one in (file.read_bytes(), now)])
    assert different <= MOST_DIFFERENT, f"{different:.1%} of {name} looks different"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_login_and_empty_pages_match_their_snapshots(drawn: Page, theme: str, size: str) -> None:
    drawn.goto("/")
    drawn.get_by_label("User name").wait_for()
    looks_as_kept(drawn, f"login-{theme}-{size}")
    conftest.log_in(drawn) if size == "wide" else _log_in_narrow(drawn)
    for name, address in PAGES.items():
        drawn.goto(address)
        expect(drawn.get_by_role("status").filter(has_text="Live")).to_be_visible()
        expect(drawn.locator(".empty")).to_be_visible()
        looks_as_kept(drawn, f"{name}-{theme}-{size}")


@pytest.fixture(scope="module")
def backed_up(services: Services) -> Iterator[tuple[Running, dict[str, Any], int]]:
    """A service with one repository, whose only backup has ended."""
    with services.own() as started:
        repository = started.new_repository(name="letters")
        job_id = started.admin.start_backup(repository)
        started.admin.wait_for_end(job_id)
        started.wait_until_idle()
        yield started, repository, job_id


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_overview_and_an_operation_match_their_snapshots(
    backed_up: tuple[Running, dict[str, Any], int], drawn: Page, theme: str, size: str
) -> None:
    """Two hours after the backup, with a fixed clock: every age is the same in each run."""
    running, _, job_id = backed_up
    ended = datetime.fromisoformat(running.admin.operation(job_id)["completed_at"])
    drawn.clock.set_fixed_time(ended + timedelta(hours=2))
    home = running.process.url
    drawn.goto(home)
    drawn.get_by_label("User name").fill("admin")
    drawn.get_by_label("Password").fill(conftest.ADMIN_PASSWORD)
    drawn.get_by_role("button", name="Log in").click()
    expect(drawn.get_by_role("region", name="Right now")).to_be_visible()
    expect(drawn.get_by_role("status").filter(has_text="Live")).to_be_visible()
    looks_as_kept(drawn, f"overview-{theme}-{size}", hidden=".tide svg, td.number")
    drawn.goto(f"{home}/operations/{job_id}")
    expect(drawn.locator(".log-line").first).to_be_visible()
    expect(drawn.get_by_role("status").filter(has_text="Live")).to_be_visible()
    looks_as_kept(drawn, f"operation-{theme}-{size}", hidden=".log, .facts-list dd, p.soft, .steps .number")


def _log_in_narrow(page: Page) -> None:
    page.goto("/")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(conftest.ADMIN_PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("navigation", name="Main, small").wait_for()
