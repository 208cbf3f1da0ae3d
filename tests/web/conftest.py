"""A real browser in front of a real service.

Any console error, script error or refusal of the content policy fails a test.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from holdfast.web.built import Built
from tests.support.running import Running, Services
from tests.support.service import ADMIN_PASSWORD, PATIENCE

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
MILLISECONDS = PATIENCE * 1000
expect.set_options(timeout=MILLISECONDS)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE: ViewportSize = {"width": 1440, "height": 1000}
EXPECTED = ("401 (Unauthorized)", "404 (Not Found)", "net::ERR_NETWORK_CHANGED")
"""A page may find that its login has ended, or that a link leads to something deleted; and other tests add network
interfaces to this machine, whereupon the browser drops its requests and the page repeats them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = "no chromium" if CHROMIUM is None else "the pages are not built" if Built().page() is None else None
    if missing is None:
        return
    if os.environ.get("CI") == "true":
        raise pytest.UsageError(f"{missing}: `tools/setup.sh test` provides it")
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=missing))


@pytest.fixture(scope="package")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    started = Services(tmp_path_factory.mktemp("services"))
    yield started
    started.stop()


@pytest.fixture(scope="package")
def running(services: Services) -> Running:
    return services.get("sqlite")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser for these tests.

    It ends with them: its event loop would interfere with other tests in the same process.
    """
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=MILLISECONDS)
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser, running: Running) -> Iterator[BrowserContext]:
    made = browser.new_context(base_url=str(running.admin.base_url), viewport=WIDE, reduced_motion="reduce")
    made.set_default_timeout(MILLISECONDS)
    yield made
    made.close()


@contextmanager
def watched(opened: Page) -> Iterator[Page]:
    """Fail the test at its end if the browser reported an error."""
    complaints: list[str] = []

    def on_console(said: ConsoleMessage) -> None:
        if said.type == "error":
            complaints.append(said.text)

    def on_error(error: Error) -> None:
        complaints.append(str(error))

    opened.on("console", on_console)
    opened.on("pageerror", on_error)
    yield opened
    opened.remove_listener("console", on_console)
    opened.remove_listener("pageerror", on_error)
    unexpected = [one for one in complaints if not any(known in one for known in EXPECTED)]
    assert unexpected == []


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that is not logged in."""
    with watched(context.new_page()) as opened:
        yield opened


@pytest.fixture(scope="package")
def admins(browser: Browser, running: Running) -> Iterator[BrowserContext]:
    """The browser of an admin who is logged in."""
    made = browser.new_context(base_url=str(running.admin.base_url), viewport=WIDE, reduced_motion="reduce")
    made.set_default_timeout(MILLISECONDS)
    log_in(made.new_page())
    yield made
    made.close()


def log_in(page: Page, username: str = "admin", password: str = ADMIN_PASSWORD, address: str = "/") -> None:
    page.goto(address)
    page.get_by_label("User name").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("navigation", name="Main", exact=True).wait_for()


@pytest.fixture
def inside(admins: BrowserContext) -> Iterator[Page]:
    """The admin's page, which tests use one after another: loading it takes longer than most of them.

    After a test that leaves a dialog open the next one gets a new page. If a test needs another service,
    `test_away.py` shows how.
    """
    opened = admins.pages[0] if admins.pages else admins.new_page()
    if not opened.url.startswith("http"):
        opened.goto("/account")  # its content does not grow with the repositories of other tests
    follow(opened, "/account")
    opened.locator('[data-page="/account"]').wait_for()
    try:
        with watched(opened):
            yield opened
        assert opened.get_by_role("dialog").count() == 0, "a test leaves no dialog open"
        opened.unroute_all()
        opened.set_viewport_size(WIDE)
    except BaseException:
        opened.close()
        raise


@dataclass(frozen=True)
class Storied:
    """A repository with a history, which tests read and do not change."""

    repository: dict[str, Any]
    sources: Path

    @property
    def address(self) -> str:
        return f"/files/{self.repository['id']}?path={str(self.sources).lstrip('/')}"


MANY = 1300


@pytest.fixture(scope="package")
def storied(running: Running) -> Storied:
    """Two archives of a folder. Between them a file was changed, one was removed, and two were added."""
    sources = running.new_source()
    (sources / "kept.conf").write_text("first\n")
    (sources / "lost-letter.txt").write_text("dear reader\n")
    for name, files, size in (("a-small", 1, 100), ("b-large", 3, 20_000), ("c-middle", 2, 3_000), ("many", MANY, 0)):
        (sources / name).mkdir()
        for number in range(files):
            (sources / name / f"name-{number:06}").write_bytes(bytes(size))
    (sources / "b-large" / "below").mkdir()
    (sources / "b-large" / "below" / "deep").write_bytes(bytes(40_000))
    repository = running.new_repository(source_paths=[sources], index_mode="full")
    running.admin.wait_for_end(running.admin.start_backup(repository))
    (sources / "kept.conf").write_text("second\n")
    (sources / "lost-letter.txt").unlink()
    (sources / "new.txt").write_text("new")
    Path(os.fsdecode(os.fsencode(sources) + b"/caf\xe9.txt")).write_text("not UTF-8 by name")
    running.admin.wait_for_end(running.admin.start_backup(repository))
    running.wait_until_idle()
    return Storied(repository, sources)


def follow(page: Page, path: str) -> None:
    """Follow a link within the page, as its own links do: reloading the page each time would cost minutes."""
    page.evaluate("to => { history.pushState({}, '', to); dispatchEvent(new PopStateEvent('popstate')) }", path)


def go(page: Page, path: str) -> None:
    """Follow a link within the page, and wait until its target is shown."""
    follow(page, path)
    shown = path.partition("?")[0]
    expect(page.locator(f'[data-page="{shown}"]')).to_be_visible()
    expect(page.locator("h1").first).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)
