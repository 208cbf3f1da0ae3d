"""Pages that are empty or show a failure: none is a dead end."""

import json
import shutil
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from tests.support.running import Running
from tests.web.conftest import follow, go, log_in
from tests.web.test_journeys import backed_up
from tools.errors_document import ADVICE


def test_the_page_of_a_repository_whose_folder_is_gone_shows_it(running: Running, inside: Page) -> None:
    repository = backed_up(running, running.new_source())
    shutil.rmtree(Path(repository["path"]))
    failed = running.admin.wait_for_end(running.admin.start_backup(repository))
    go(inside, f"/repositories/{repository['id']}")
    need = inside.get_by_role("region", name="Needs attention")
    expect(need).to_contain_text("There is no repository at this path")
    need.get_by_role("link", name="Log").click()
    expect(inside.get_by_role("heading", name=f"Backup of {repository['name']}")).to_be_visible()
    advice = json.loads(ADVICE.read_text())[failed["error_key"]]
    expect(inside.get_by_role("alert")).to_contain_text(advice)


def test_an_empty_repository_links_to_its_operations_and_the_open_tab_is_in_view_on_a_phone(
    running: Running, inside: Page
) -> None:
    repository = running.new_repository()
    inside.set_viewport_size({"width": 360, "height": 800})
    follow(inside, f"/files/{repository['id']}")
    inside.get_by_role("link", name="Running and failed work").click()
    expect(inside.locator(f'[data-page="/repositories/{repository["id"]}/activity"]')).to_be_visible()
    go(inside, "/settings/audit")
    expect(inside.get_by_role("navigation", name="Settings").get_by_role("link", name="Audit")).to_be_in_viewport(
        ratio=1
    )


def test_the_overview_shows_no_counts_of_runs_and_alarms_it_could_not_load(
    running: Running, context: BrowserContext
) -> None:
    backed_up(running, running.new_source())
    page = context.new_page()  # not watched: the browser logs the failing responses as errors
    answer = {"key": "api.internal", "message": "An internal error occurred.", "params": {}}
    for part in ("**/api/operations/?*", "**/api/alarms?*"):
        page.route(part, lambda route: route.fulfill(status=500, json={"detail": answer}))
    log_in(page)

    day = page.get_by_role("region", name="The last 24 hours")
    expect(day.get_by_role("alert")).to_contain_text("An internal error occurred.")
    expect(day).not_to_contain_text("done")
    expect(page.get_by_role("region", name="Alarms").get_by_role("alert")).to_be_visible()
    page.unroute_all()
    page.reload()
    expect(day).to_contain_text("done")
