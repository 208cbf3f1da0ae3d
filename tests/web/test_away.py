"""The service or an agent is killed while a page is open: the page shows it, recovers without a reload, and executes
actions once.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from tests.support.agents import AgentProcess
from tests.support.engines import ENGINES
from tests.support.running import Running, Services
from tests.support.warm_engines import warm_program
from tests.web import conftest

EXPECTED = ("net::ERR_", "Failed to fetch dynamically imported module")
"""Errors that the browser itself logs while nothing responds."""


@pytest.fixture(autouse=True)
def what_the_browser_prints_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "EXPECTED", (*conftest.EXPECTED, *EXPECTED))


@pytest.fixture(scope="module")
def running(services: Services) -> Iterator[Running]:
    """A service for these tests only: they kill it."""
    with services.own(HOLDFAST_AGENT_HEARTBEAT_SECONDS="1", HOLDFAST_AGENT_OFFLINE_SECONDS="6") as started:
        yield started


@pytest.fixture
def context(browser: Browser, running: Running) -> Iterator[BrowserContext]:
    made = browser.new_context(base_url=str(running.admin.base_url), viewport=conftest.WIDE, reduced_motion="reduce")
    made.set_default_timeout(conftest.MILLISECONDS)
    yield made
    made.close()


@pytest.fixture
def inside(page: Page) -> Page:
    conftest.log_in(page, address="/account")
    return page


@pytest.fixture(autouse=True)
def service_is_back(running: Running) -> Iterator[None]:
    yield
    assert running.process.process is not None
    if running.process.process.poll() is not None:
        running.process.restart()


def is_lost(page: Page) -> None:
    expect(page.get_by_role("alert").filter(has_text="Disconnected since")).to_be_visible()


def is_live(page: Page) -> None:
    expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible()
    expect(page.get_by_text("Disconnected since")).to_have_count(0)


def mark(page: Page) -> None:
    page.evaluate("window.kept = true")


def was_not_reloaded(page: Page) -> bool:
    return bool(page.evaluate("window.kept === true"))


def backups_of(running: Running, repository: dict[str, object]) -> int:
    """The number of all backups, including those that the page started."""
    answer = running.admin.get("/api/operations/", params={"repository_id": str(repository["id"])})
    assert answer.status_code == 200, answer.text
    return sum(one["kind"] == "backup" for one in answer.json()["items"])


def row(page: Page, repository: dict[str, object]) -> Locator:
    return page.get_by_role("row").filter(has_text=f"Backup of {repository['name']}")


def test_the_overview_and_an_operations_page_show_that_the_service_was_killed_and_recover(
    running: Running, inside: Page
) -> None:
    repository = running.new_repository()
    overview = inside.context.new_page()
    overview.set_default_timeout(conftest.MILLISECONDS)
    right_now = overview.get_by_role("region", name="Right now")
    with running.held_backup(repository) as (job_id, gate):
        overview.goto("/")
        expect(right_now).to_contain_text(str(repository["name"]))
        conftest.go(inside, f"/operations/{job_id}")
        expect(inside.get_by_text("running", exact=True)).to_be_visible()
        cancel = inside.get_by_role("button", name="Cancel")
        expect(cancel).to_be_enabled()
        for page in (overview, inside):
            is_live(page)
            mark(page)
        running.process.kill()
        is_lost(inside)
        expect(cancel).to_be_disabled()
        expect(cancel).to_have_attribute("title", re.compile("^Not connected"))
        cancel.click(force=True)  # nothing is sent, even later
        is_lost(overview)
        expect(right_now).to_contain_text(str(repository["name"]))  # the last known state stays
        overview.set_viewport_size({"width": 360, "height": 800})
        assert overview.evaluate("document.documentElement.scrollWidth") <= 360
        overview.set_viewport_size({"width": 1440, "height": 1000})
        gate.open()  # the engine ends while no service is running
        running.process.restart()
        expect(inside.get_by_text("completed", exact=True).first).to_be_visible()
        for page in (overview, inside):
            is_live(page)
        expect(right_now).not_to_contain_text(str(repository["name"]))
        expect(inside.get_by_role("button", name="Back up again")).to_be_enabled()
    lines = running.admin.log_lines(job_id)
    expect(inside.get_by_role("region", name="Log")).to_contain_text(f"{len(lines)} lines")
    expect(inside.locator(".log-line").last).to_contain_text(lines[-1][:40])
    assert was_not_reloaded(inside)
    assert was_not_reloaded(overview)


@pytest.mark.campaign
def test_work_done_while_the_page_was_offline_is_shown_afterwards(running: Running, inside: Page) -> None:
    """The page is offline until everything has ended, so that no event can have arrived in time."""
    before, after = running.new_repository(), running.new_repository()
    inside.goto("/activity")
    is_live(inside)
    running.admin.wait_for_end(running.admin.start_backup(before))
    expect(row(inside, before)).to_contain_text("completed")
    mark(inside)
    running.process.kill()
    is_lost(inside)
    inside.context.set_offline(True)
    running.process.restart()
    running.admin.wait_for_end(running.admin.start_backup(after))
    inside.context.set_offline(False)
    is_live(inside)
    expect(row(inside, after)).to_contain_text("completed")
    assert was_not_reloaded(inside)


@pytest.mark.campaign
def test_a_button_pressed_while_the_service_is_down_takes_effect_once_when_it_is_back(
    running: Running, inside: Page
) -> None:
    repository = running.new_repository()
    inside.goto(f"/repositories/{repository['id']}")
    button = inside.get_by_role("button", name="Back up", exact=True)
    button.wait_for()
    is_live(inside)
    mark(inside)
    running.process.kill()
    button.click()
    expect(button).to_be_disabled()
    running.process.restart()
    expect(inside.get_by_text("completed", exact=True).first).to_be_visible()
    running.wait_until_idle()
    assert backups_of(running, repository) == 1
    assert was_not_reloaded(inside)


def test_an_action_whose_response_was_lost_is_not_executed_twice(running: Running, inside: Page) -> None:
    repository = running.new_repository()
    conftest.go(inside, f"/repositories/{repository['id']}")
    button = inside.get_by_role("button", name="Back up", exact=True)
    button.wait_for()
    is_live(inside)
    sent: list[str] = []

    def lose_the_first_answer(route: Route) -> None:
        sent.append(route.request.headers["idempotency-key"])
        if len(sent) > 1:
            route.continue_()
            return
        assert route.fetch().status == 200  # the service has accepted the work
        running.process.kill()
        route.abort("connectionreset")
        running.process.restart()

    inside.route("**/api/backup/start", lose_the_first_answer)
    button.click()
    expect(inside.get_by_text("completed", exact=True).first).to_be_visible()
    running.wait_until_idle()
    assert len(sent) > 1
    assert len(set(sent)) == 1
    assert backups_of(running, repository) == 1


@pytest.mark.campaign
def test_a_page_that_has_not_been_loaded_yet_opens_when_the_service_is_back(running: Running, inside: Page) -> None:
    """The browser has not loaded its script yet."""
    is_live(inside)
    mark(inside)
    running.process.kill()
    inside.get_by_role("navigation", name="Main", exact=True).get_by_role("link", name="Schedules").click()
    is_lost(inside)
    running.process.restart()
    expect(inside.get_by_role("heading", name="Schedules", exact=True)).to_be_visible()
    is_live(inside)
    assert was_not_reloaded(inside)


@pytest.mark.campaign
def test_connect_now_reconnects_immediately(running: Running, inside: Page) -> None:
    is_live(inside)
    running.process.kill()
    is_lost(inside)
    running.process.restart()
    inside.evaluate("[...document.querySelectorAll('button')].find((one) => one.innerText === 'Connect now')?.click()")
    is_live(inside)


@pytest.mark.campaign
def test_a_log_that_could_not_be_fetched_is_fetched_again(running: Running, inside: Page) -> None:
    lost: list[str] = []

    def lose_some(route: Route) -> None:
        if "limit=500" in route.request.url and len(lost) < 2:
            lost.append(route.request.url)
            route.abort("connectionrefused")
        else:
            route.continue_()

    job_id = running.warned
    inside.route("**/logs?*", lose_some)
    inside.goto(f"/operations/{job_id}")
    expect(inside.locator(".log-line").first).to_contain_text(running.admin.log_lines(job_id)[0][:40])
    assert lost


def test_an_open_page_shows_a_killed_agent_as_offline_and_as_online_after_its_restart(
    running: Running, inside: Page, tmp_path: Path
) -> None:
    agent = AgentProcess(tmp_path, warm_program(ENGINES[running.engine]), running.process.url)
    name = running.new_name("machine")
    agent.register(running.admin, name).start()
    try:
        conftest.go(inside, "/machines")
        machine = inside.get_by_role("row").filter(has_text=name)
        expect(machine).to_contain_text("online")
        expect(machine).to_contain_text("now")
        mark(inside)
        agent.kill()
        expect(machine).to_contain_text("offline")
        expect(machine).to_contain_text("ago")
        agent.start()
        expect(machine).to_contain_text("online")
        assert was_not_reloaded(inside)
    finally:
        agent.end_everything()
