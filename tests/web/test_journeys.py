"""Common tasks in a browser: checking that backups are restorable, restoring a file, following a job."""

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.support.running import PASSWORD, Running
from tests.support.service import ADMIN_PASSWORD, wait_until
from tests.web.conftest import Storied, follow, go, log_in


def backed_up(running: Running, sources: Path, **more: Any) -> dict[str, Any]:
    repository = running.admin.create_repository(running.new_path(), [sources], index_mode="full", **more)
    running.admin.wait_for_end(running.admin.start_backup(repository))
    running.wait_until_idle()
    return repository


def test_a_wrong_password_is_reported_and_a_login_survives_a_reload_until_a_logout(page: Page) -> None:
    page.goto("/repositories")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("The user name or the password is wrong.")).to_be_visible()
    page.get_by_label("Password").fill(ADMIN_PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("navigation", name="Main", exact=True).wait_for()
    page.reload()
    page.get_by_role("navigation", name="Main", exact=True).wait_for()
    go(page, "/account")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.mark.campaign  # test_machines.py covers the form, test_welcome.py the first backup
def test_a_repository_is_created_backed_up_and_proven_by_hand(running: Running, inside: Page) -> None:
    sources = running.new_source()
    name, path = running.new_name("by-hand"), running.new_path("by-hand")
    inside.goto("/repositories/new")
    inside.get_by_label("Name", exact=True).fill(name)
    inside.get_by_label("Where to create it").fill(str(path))
    inside.get_by_label("What to back up, one path per line").fill(str(sources))
    inside.get_by_role("button", name="I have written it down: create").click()
    inside.get_by_role("button", name="Back up", exact=True).click()
    expect(inside.get_by_text("completed", exact=True).first).to_be_visible()
    running.wait_until_idle()
    inside.get_by_role("link", name=name).first.click()
    inside.get_by_role("button", name="Prove a restore").click()
    expect(inside.get_by_text("completed", exact=True).first).to_be_visible()
    inside.goto("/repositories")
    row = inside.get_by_role("row").filter(has_text=re.compile(rf"{name}(?!\d)"))
    expect(row).to_contain_text(", proven")


def test_a_deleted_file_is_found_and_restored_with_the_keyboard_only(storied: Storied, inside: Page) -> None:
    lost = storied.sources / "lost-letter.txt"
    lost.unlink(missing_ok=True)
    inside.keyboard.press("Control+k")  # and no pointer from here on
    inside.keyboard.type("lost-letter")
    inside.keyboard.press("Enter")
    inside.get_by_role("link", name="lost-letter.txt").press("Enter")
    expect(inside.get_by_text("dear reader")).to_be_visible()
    inside.get_by_role("complementary", name="lost-letter.txt").get_by_role("button", name="Restore…").press("Enter")
    inside.get_by_role("dialog").get_by_role("button", name="Restore", exact=True).press("Enter")
    expect(inside.get_by_text("completed", exact=True)).to_be_visible()
    assert lost.read_text() == "dear reader\n"
    inside.get_by_role("button", name="Done").press("Enter")


def test_a_restore_check_started_by_hand_shows_the_repository_as_proven(storied: Storied, inside: Page) -> None:
    name = storied.repository["name"]
    go(inside, f"/repositories/{storied.repository['id']}")
    inside.get_by_role("button", name="Prove a restore").click()
    expect(inside.get_by_role("heading", name=f"of {name}")).to_be_visible()
    expect(inside.get_by_text("completed", exact=True).first).to_be_visible()
    go(inside, "/repositories")
    row = inside.get_by_role("row").filter(has_text=re.compile(rf"{name}(?!\d)"))
    expect(row).to_contain_text(", proven")


def test_a_folder_shows_its_changes_over_time_and_three_of_its_files_are_downloaded_as_a_zip(
    storied: Storied, inside: Page
) -> None:
    go(inside, storied.address)
    rows = inside.get_by_role("treegrid")
    expect(rows.get_by_text("changed here").first).to_be_visible()
    for name in ("kept.conf", "new.txt", "caf"):
        rows.get_by_role("row").filter(has_text=name).press("x")
    with inside.expect_download() as saved:
        inside.get_by_text("3 selected").locator("..").get_by_role("button", name="Download").click()
    with zipfile.ZipFile(saved.value.path()) as saved_files:
        contents = {saved_files.read(name) for name in saved_files.namelist() if not name.endswith("/")}
    assert contents == {b"second\n", b"new", b"not UTF-8 by name"}

    inside.get_by_role("button", name="Earlier change").click()
    expect(rows.get_by_text("comes on").first).to_be_visible()
    rows.get_by_text("kept.conf").click()
    expect(inside.get_by_text("This version against the newest")).to_be_visible()
    expect(inside.get_by_text("+ second")).to_be_visible()
    inside.reload()  # its address restores the same view
    expect(inside.get_by_text("+ second")).to_be_visible()


def test_two_times_of_a_folder_are_compared_and_a_changed_file_line_by_line(storied: Storied, inside: Page) -> None:
    go(inside, storied.address)
    inside.get_by_role("button", name="Compare two times").click()
    found = inside.get_by_role("treegrid", name="Differences")
    for name, difference in (("kept.conf", "changed"), ("new.txt", "added"), ("lost-letter.txt", "removed")):
        expect(found.get_by_role("row").filter(has_text=name)).to_contain_text(difference)
    expect(found.get_by_text("file-0")).to_have_count(0)
    expect(inside.get_by_role("heading", name=" and ")).to_be_visible()
    found.get_by_role("row").filter(has_text="lost-letter.txt").press("Enter")
    removed = inside.get_by_role("complementary", name="lost-letter.txt")
    expect(removed).to_contain_text("Removed")
    expect(removed).to_contain_text("dear reader")
    expect(removed.get_by_role("button", name="Restore…")).to_be_enabled()
    found.get_by_text("kept.conf").click()
    changed = inside.get_by_role("complementary", name="kept.conf")
    expect(changed).to_contain_text("- first")
    expect(changed).to_contain_text("+ second")
    assert "vs=" in inside.url
    inside.get_by_label("Earlier").press("ArrowRight")
    expect(inside.get_by_text("Both times are the same archive.")).to_be_visible()
    inside.get_by_role("button", name="Compare two times").click()
    expect(inside.get_by_role("treegrid", name="Files")).to_be_visible()


def test_a_job_appears_and_ends_on_the_page_without_a_reload(running: Running, inside: Page) -> None:
    repository = running.admin.create_repository(running.new_path("watched"), [running.new_source()])
    go(inside, "/activity")
    expect(inside.get_by_role("status").filter(has_text="Live")).to_be_visible()
    running.admin.start_backup(repository)
    row = inside.get_by_role("row").filter(has_text=f"Backup of {repository['name']}")
    expect(row).to_contain_text("completed")


def test_two_filters_pressed_in_quick_succession_both_apply_and_back_leaves_the_page(inside: Page) -> None:
    go(inside, "/machines")
    go(inside, "/activity")
    inside.get_by_role("button", name="Backups", exact=True).wait_for()
    pressed = inside.evaluate(
        """async () => { const chips = [...document.querySelectorAll('.chip')]
        const both = ['Backups', 'failed'].map((word) => chips.find((one) => one.textContent === word))
        both.forEach((one) => one.click())
        await null
        return both.map((one) => one.getAttribute('aria-pressed')) }"""
    )
    assert pressed == ["true", "true"]
    expect(inside.locator("[aria-pressed=true]")).to_have_text(["Backups", "failed"])
    assert "category=backup" in inside.url
    assert "status=failed" in inside.url
    inside.evaluate(
        """async () => { document.querySelector('nav.side [href="/queue"]').click()
        while (location.pathname !== '/queue') await new Promise((done) => setTimeout(done))
        history.back() }"""
    )
    expect(inside.locator('[data-page="/activity"]')).to_be_visible()
    inside.go_back()
    expect(inside.locator('[data-page="/machines"]')).to_be_visible()


def test_a_running_backup_shows_live_progress_and_the_queue_shows_its_waiters(running: Running, inside: Page) -> None:
    repository = running.new_repository()
    first, last = running.gate(), running.gate()
    sources = [*repository["source_paths"], str(first.path), str(running.new_source()), str(last.path)]
    job_id = running.admin.start_backup(repository, source_paths=sources)
    first.wait_until_reached()
    go(inside, f"/operations/{job_id}")
    expect(inside.get_by_text("running", exact=True)).to_be_visible()
    expect(inside.get_by_role("status").filter(has_text="Live")).to_be_visible()
    unanswered: list[Route] = []
    inside.route(f"**/api/operations/{job_id}", lambda route: unanswered.append(route))
    first.open()
    last.wait_until_reached()
    wait_until(lambda: running.admin.operation(job_id)["progress_details"], what="the engine reports its progress")
    try:
        expect(inside.get_by_text(re.compile(r"\d files"))).to_be_visible()  # from events only
        waiting = running.admin.start_backup(repository)
        follow(inside, "/queue")
        lane = inside.get_by_role("region", name=repository["name"])
        expect(lane).to_contain_text(f"waits for #{job_id}")
        lane.get_by_role("button", name="Cancel").last.click()
        expect(lane).not_to_contain_text(f"#{waiting}")
    finally:
        last.open()
        running.admin.wait_for_end(job_id)
        for look in unanswered:
            look.continue_()


def test_a_viewer_without_rights_sees_an_explanation_and_with_one_sees_only_that_repository(
    running: Running, page: Page
) -> None:
    mine = running.admin.create_repository(running.new_path("mine"), [running.new_source()])
    hidden = running.admin.create_repository(running.new_path("hidden"), [running.new_source()])
    user = running.new_user("viewer")
    log_in(page, user["username"], PASSWORD)
    expect(page.get_by_role("heading", name="Nothing is shared with you yet.")).to_be_visible()
    follow(page, "/welcome")
    expect(page.get_by_text("Only an admin can set up backups.")).to_be_visible()

    running.admin.put(f"/api/users/{user['id']}/repositories/{mine['id']}", json={"role": "viewer"})
    go(page, "/repositories")
    expect(page.get_by_role("link", name=mine["name"]).first).to_be_visible()
    expect(page.get_by_role("link", name=hidden["name"])).to_have_count(0)
    expect(page.get_by_role("link", name="Machines")).to_have_count(0)
    follow(page, f"/repositories/{hidden['id']}")
    expect(page.get_by_text("Not found, or not visible to you.")).to_be_visible()
    follow(page, "/settings/audit")
    expect(page.get_by_text("Only admins can see the service's settings.")).to_be_visible()
    expect(page.get_by_role("button", name="Export")).to_have_count(0)


def test_a_nightly_schedule_is_created_and_run(running: Running, inside: Page) -> None:
    repository = running.admin.create_repository(running.new_path("nightly"), [running.new_source()])
    go(inside, "/schedules")
    inside.get_by_role("button", name="New schedule").click()
    dialog = inside.get_by_role("dialog")
    name = running.new_name("every-night")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label(repository["name"], exact=True).wait_for()  # the list may arrive later than the form
    for box in dialog.get_by_role("group", name="What").get_by_role("checkbox").all():
        box.uncheck()
    dialog.get_by_label(repository["name"], exact=True).check()
    expect(dialog.get_by_text("Next:")).to_be_visible()
    dialog.get_by_role("button", name="Create").click()
    card = inside.get_by_role("region", name=name)
    expect(card.get_by_text("Next:")).to_be_visible()
    card.get_by_role("button", name="Run now").click()
    expect(inside.get_by_role("heading", name=f"Backup of {repository['name']}")).to_be_visible()
    expect(inside.get_by_text("completed", exact=True).first).to_be_visible()


def test_a_page_whose_script_failed_to_load_reloads_itself(context: BrowserContext) -> None:
    page = context.new_page()
    lost: list[str] = []

    def lose_the_first(route: Route) -> None:
        if lost:
            route.continue_()
        else:
            lost.append(route.request.url)
            route.abort("connectionreset")

    page.route("**/assets/index-*.js", lose_the_first)
    page.goto("/")

    expect(page.get_by_label("User name")).to_be_visible()
    assert lost


def test_a_user_who_leaves_a_repository_that_is_still_loading_is_not_taken_back_to_it(
    storied: Storied, context: BrowserContext
) -> None:
    """In its own browser: the script of the other page must not be loaded yet."""
    inside = context.new_page()
    log_in(inside, address="/account")
    repository = storied.repository
    lanes: list[Route] = []
    script: list[Route] = []
    inside.route("**/lanes?*", lambda route: lanes.append(route))
    inside.route("**/assets/Search-*.js", lambda route: script.append(route))
    follow(inside, f"/files/{repository['id']}")
    wait_until(lambda: inside.wait_for_timeout(20) or lanes, what="the files are asked for")
    follow(inside, "/search?q=file")
    wait_until(lambda: inside.wait_for_timeout(20) or script, what="the other page loads")

    inside.unroute("**/lanes?*")
    with inside.expect_response("**/lanes?*"):  # its response opens the only folder
        lanes[0].continue_()
    inside.wait_for_timeout(200)
    script[0].continue_()

    expect(inside.locator('[data-page="/search"]')).to_be_visible()
    assert inside.url.endswith("/search?q=file")


def test_the_page_retries_and_shows_that_it_is_connecting_while_the_service_does_not_respond(
    context: BrowserContext,
) -> None:
    page = context.new_page()
    asked: list[str] = []
    waiting: list[Route] = []

    def refuse_twice(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.fulfill(status=503, json={"detail": {"key": "api.busy", "message": "Busy.", "params": {}}})
        elif len(asked) == 2:
            route.abort("connectionrefused")
        else:
            waiting.append(route)

    page.route("**/api/auth/refresh", refuse_twice)
    page.goto("/")

    expect(page.get_by_text("Connecting…")).to_be_visible()
    wait_until(lambda: page.wait_for_timeout(20) or waiting, what="the service is asked a third time")
    waiting[0].continue_()
    expect(page.get_by_label("User name")).to_be_visible()
    assert len(asked) == 3
