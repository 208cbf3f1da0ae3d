"""Every page can be read and used by everybody: axe finds nothing in either theme, and none needs a wide screen."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.running import Running
from tests.web.conftest import follow, log_in
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
IN_DARK = (
    "/",
    "/repositories/{repository}",
    "/repositories/{repository}/maintenance",
    "/files/{repository}",
    "/activity",
    "/operations/{operation}",
    "/schedules",
    "/settings/users/1",
)
"""Between them these have every colour of the others; the campaign looks at all in both themes."""
DIALOGS = (
    ("/schedules", "New schedule"),
    ("/notifications", "Add a channel"),
    ("/notifications/rules", "Add a rule"),
    ("/settings/users", "Add a user"),
    ("/settings/packages", "Add a package"),
    ("/machines", "Add a machine"),
    ("/machines", "Add by ssh"),
    ("/repositories/new", "Choose a folder"),
)
pytestmark = pytest.mark.skipif(not AXE.exists(), reason="the packages of the pages are not installed")


def go(page: Page, path: str) -> None:
    """Follow a link within the page, and wait until what it leads to is there."""
    follow(page, path)
    shown = path.partition("?")[0]
    expect(page.locator(f'[data-page="{shown}"]')).to_be_visible()
    expect(page.locator("h1").first).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)


def found_by_axe(page: Page, rules: str) -> list[Any]:
    session = page.context.new_cdp_session(page)  # not bound by the content policy of the page
    if not page.evaluate("'axe' in window"):
        session.send("Runtime.evaluate", {"expression": AXE.read_text()})
    question = (
        f"axe.run(document, {{resultTypes: ['violations'], {rules}}})"
        ".then(r => JSON.stringify(r.violations.map(v => [v.id, v.nodes.map(n => n.html)])))"
    )
    told = session.send("Runtime.evaluate", {"expression": question, "awaitPromise": True, "returnByValue": True})
    session.detach()
    found: list[Any] = json.loads(told["result"]["value"])
    return found


def in_light(page: Page, what: str) -> list[Any]:
    return [(what, "light", one) for one in found_by_axe(page, "")]


def in_both_themes(page: Page, what: str) -> list[Any]:
    found = in_light(page, what)
    page.evaluate("document.documentElement.classList.add('dark')")
    found += [(what, "dark", one) for one in found_by_axe(page, "runOnly: ['color-contrast']")]  # the rest is the same
    page.evaluate("document.documentElement.classList.remove('dark')")
    return found


@pytest.mark.parametrize(
    "in_dark", [IN_DARK, pytest.param(PLACES, marks=pytest.mark.campaign)], ids=["some in dark", "all in dark"]
)
def test_axe_finds_nothing_on_any_page_in_both_themes_and_none_is_too_wide_for_a_phone(
    running: Running, page: Page, in_dark: tuple[str, ...]
) -> None:
    repository = backed_up(running, running.new_source())
    page.goto("/")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    found = in_both_themes(page, "login")
    invited = running.new_user("viewer")
    page.goto(running.admin.post(f"/api/users/{invited['id']}/invitation").json()["path"])
    expect(page.get_by_label("Your password")).to_be_visible()
    found += in_both_themes(page, "join")
    log_in(page)
    operation = running.admin.get("/api/operations/").json()["items"][0]["id"]
    sideways = []
    for place in PLACES:
        path = place.format(repository=repository["id"], operation=operation)
        go(page, path)
        found += in_both_themes(page, place) if place in in_dark else in_light(page, place)
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
