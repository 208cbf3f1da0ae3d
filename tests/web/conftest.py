"""A real browser in front of a real service. Any console error, script error or refusal of the content policy fails a test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

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
EXPECTED = ("401 (Unauthorized)", "404 (Not Found)", "net::ERR_NETWORK_CHANGED")
"""A page may find out that its login has ended, or that a link leads to something deleted; and other tests add network
interfaces to this machine, upon which the browser drops its requests and the page asks again."""


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
    """One browser for these tests. It ends with them: its loop would be in the way of other tests in the same process."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=MILLISECONDS)
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser, running: Running) -> Iterator[BrowserContext]:
    made = browser.new_context(base_url=str(running.admin.base_url), viewport={"width": 1440, "height": 1000})
    made.set_default_timeout(MILLISECONDS)
    yield made
    made.close()


@contextmanager
def watched(opened: Page) -> Iterator[Page]:
    """Whatever the browser complains of fails the test at its end."""
    complaints: list[str] = []
    opened.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    unexpected = [one for one in complaints if not any(known in one for known in EXPECTED)]
    assert unexpected == []


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that is not logged in."""
    with watched(context.new_page()) as opened:
        yield opened


@pytest.fixture(scope="package")
def admins(browser: Browser, running: Running) -> Iterator[BrowserContext]:
    """The browser of an admin who is logged in: each test opens a page of its own in it. The scripts are loaded once."""
    made = browser.new_context(base_url=str(running.admin.base_url), viewport={"width": 1440, "height": 1000})
    made.set_default_timeout(MILLISECONDS)
    first = made.new_page()
    log_in(first)
    first.close()
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
    """A page of the admin; where a test needs another service, `test_away.py` shows how."""
    opened = admins.new_page()
    with watched(opened):
        opened.goto("/account")  # what it shows does not grow with the repositories of other tests
        opened.get_by_role("navigation", name="Main", exact=True).wait_for()
        yield opened
    opened.close()


def follow(page: Page, path: str) -> None:
    """Follow a link within the page, as its own links do: loading the page again each time would cost minutes."""
    page.evaluate("to => { history.pushState({}, '', to); dispatchEvent(new PopStateEvent('popstate')) }", path)
