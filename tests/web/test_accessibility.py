"""Every page can be read and used by everybody: axe finds nothing in either theme, nothing needs a pointer or a wide screen."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.running import Running
from tests.support.service import ADMIN_PASSWORD, wait_until
from tests.web.conftest import log_in
from tests.web.test_journeys import backed_up

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PLACES = (
    "/",
    "/welcome",
    "/repositories",
    "/repositories/new",
    "/repositories/import",
    "/repositories/{repository}",
    "/repositories/{repository}/maintenance",
    "/repositories/{repository}/mirror",
    "/repositories/{repository}/activity",
    "/repositories/{repository}/settings",
    "/repositories/987654",
    "/files",
    "/files/{repository}",
    "/search?q=file",
    "/machines",
    "/queue",
    "/activity",
    "/operations/{operation}",
    "/schedules",
    "/notifications",
    "/notifications/rules",
    "/notifications/reports",
    "/notifications/deliveries",
    "/notifications/alarms",
    "/settings",
    "/settings/users",
    "/settings/users/1",
    "/settings/remotes",
    "/settings/packages",
    "/settings/audit",
    "/account",
)
DIALOGS = (
    ("/schedules", "New schedule"),
    ("/notifications", "Add a channel"),
    ("/notifications/rules", "Add a rule"),
    ("/settings/users", "Add a user"),
    ("/settings/packages", "Add a package"),
    ("/machines", "Add a machine"),
)
pytestmark = pytest.mark.skipif(not AXE.exists(), reason="the packages of the pages are not installed")


def go(page: Page, path: str) -> None:
    """Follow a link within the page, as its own links do: loading it anew each time would cost minutes."""
    page.evaluate("to => { history.pushState({}, '', to); dispatchEvent(new PopStateEvent('popstate')) }", path)
    expect(page.locator("h1").first).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)


def found_by_axe(page: Page) -> list[Any]:
    session = page.context.new_cdp_session(page)  # not bound by the content policy of the page
    session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    question = (
        "axe.run(document, {resultTypes: ['violations']})"
        ".then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map(n => n.html)])))"
    )
    told = session.send("Runtime.evaluate", {"expression": question, "awaitPromise": True, "returnByValue": True})
    session.detach()
    found: list[Any] = json.loads(told["result"]["value"])
    return found


def in_both_themes(page: Page, what: str) -> list[Any]:
    found = []
    for dark in (False, True):
        page.evaluate("dark => document.documentElement.classList.toggle('dark', dark)", dark)
        found += [(what, "dark" if dark else "light", one) for one in found_by_axe(page)]
    return found


def test_axe_finds_nothing_on_any_page_in_both_themes_and_none_is_too_wide_for_a_phone(
    running: Running, page: Page
) -> None:
    repository = backed_up(running, running.new_source())
    page.goto("/")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    found = in_both_themes(page, "login")
    log_in(page)
    operation = running.admin.get("/api/operations/").json()["items"][0]["id"]
    sideways = []
    for place in PLACES:
        path = place.format(repository=repository["id"], operation=operation)
        go(page, path)
        found += in_both_themes(page, place)
        page.set_viewport_size({"width": 360, "height": 800})
        if page.evaluate("document.documentElement.scrollWidth") > 360:
            sideways.append(place)
        page.set_viewport_size({"width": 1440, "height": 1000})
    assert found == []
    assert sideways == []


def test_axe_finds_nothing_in_the_dialogs(inside: Page) -> None:
    found = []
    for place, button in DIALOGS:
        go(inside, place)
        inside.get_by_role("button", name=button).first.click()
        expect(inside.get_by_role("dialog")).to_be_visible()
        expect(inside.locator(".skeleton")).to_have_count(0)
        found += in_both_themes(inside, button)
        inside.keyboard.press("Escape")
        expect(inside.get_by_role("dialog")).to_have_count(0)
    assert found == []


def tab_to(page: Page, name: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            return
    raise AssertionError(f"sixty tabs did not lead to {name}")


def test_a_backup_is_made_with_the_keyboard_alone(running: Running, page: Page) -> None:
    repository = running.admin.create_repository(running.new_path("by-keyboard"), [running.new_source()])
    page.goto("/")
    expect(page.get_by_label("User name")).to_be_focused()
    page.keyboard.type("admin")
    page.keyboard.press("Tab")
    page.keyboard.type(ADMIN_PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_role("navigation", name="Main", exact=True).wait_for()
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Repositories")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog").get_by_role("textbox")).to_be_focused()
    page.keyboard.type(repository["name"])
    wanted = page.get_by_role("option").filter(has_text=repository["name"]).filter(has_text="repository").last
    expect(wanted).to_be_visible()
    wait_until(lambda: chosen(page, wanted), what="the arrow keys lead to the repository")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=repository["name"])).to_be_visible()
    expect(page.get_by_role("button", name="Back up", exact=True)).to_be_visible()
    tab_to(page, "Back up")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"Backup of {repository['name']}")).to_be_visible()
    expect(page.get_by_text("completed", exact=True).first).to_be_visible()


def chosen(page: Page, wanted: Any) -> bool:
    if wanted.get_attribute("aria-selected") == "true":
        return True
    page.keyboard.press("ArrowDown")
    return False
