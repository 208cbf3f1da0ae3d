"""Seven tabs of one browser: HTTP/1.1 allows six connections to a service, and each tab wants live events."""

import re

from playwright.sync_api import BrowserContext, Page, expect

from tests.support.running import Running
from tests.web.conftest import log_in

TABS = 7


def test_seven_tabs_are_live_and_each_can_act(running: Running, context: BrowserContext) -> None:
    repository = running.new_repository()
    tabs: list[Page] = []
    for number in range(TABS):
        tabs.append(context.new_page())
        if number == 0:
            log_in(tabs[0], address=f"/repositories/{repository['id']}")
        else:
            tabs[number].goto(f"/repositories/{repository['id']}")
    for tab in tabs:
        expect(tab.get_by_role("status").filter(has_text="Live")).to_be_visible()
    with running.held_backup(repository) as (job_id, _gate):
        for tab in tabs:  # each receives the event
            main = tab.get_by_role("navigation", name="Main", exact=True)
            expect(main.get_by_role("link", name="Queue")).to_contain_text(re.compile(r"\d"))
        for tab in tabs:  # and each starts one more, which waits
            tab.get_by_role("button", name="Back up", exact=True).click()
            expect(tab.get_by_role("heading", name=f"Backup of {repository['name']}")).to_be_visible()
        queued = {int(tab.url.rsplit("/", 1)[-1]) for tab in tabs}
        assert len(queued - {job_id}) == TABS
        tabs[-1].get_by_role("button", name="Cancel").click()
        expect(tabs[-1].get_by_text("cancelled", exact=True).first).to_be_visible()
        for number in queued:
            running.admin.post(f"/api/operations/{number}/cancel")
