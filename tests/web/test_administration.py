"""Administration in a browser: users and rights, notifications, mirrors."""

import pyotp
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.receivers import web_receiver
from tests.support.running import PASSWORD, Running
from tests.support.service import wait_until
from tests.web.conftest import follow, go, log_in


def test_a_new_user_sees_only_a_shared_repository_and_is_logged_out_when_disabled(
    running: Running, inside: Page
) -> None:
    shared = running.new_repository()
    hidden = running.new_repository()
    name = running.new_name("anna")
    go(inside, "/settings/users")
    inside.get_by_role("button", name="Add user").click()
    dialog = inside.get_by_role("dialog")
    dialog.get_by_label("User name").fill(name)
    dialog.get_by_role("button", name="Add and create link").click()
    link = dialog.get_by_text("/join#inv_").inner_text()
    dialog.get_by_role("button", name="Done").click()
    expect(inside.get_by_role("heading", name=name)).to_be_visible()
    inside.get_by_label("viewer", exact=False).first.check()
    expect(inside.get_by_text("Will no longer start backups, restores and maintenance.")).to_be_visible()
    inside.get_by_role("button", name="Save").click()
    expect(inside.get_by_text(f"As a viewer, {name} can only look")).to_be_visible()
    users = running.admin.get("/api/users").json()["users"]
    user = next(one for one in users if one["username"] == name)
    with inside.expect_response(f"**/api/users/{user['id']}/repositories/{shared['id']}"):
        inside.get_by_label(f"Right on {shared['name']}").select_option("viewer")
    expect(inside.get_by_label(f"Right on {shared['name']}")).to_be_enabled()

    browser = inside.context.browser
    assert browser is not None
    other = browser.new_context(base_url=str(running.admin.base_url), reduced_motion="reduce")
    theirs = other.new_page()
    theirs.goto(link)
    expect(theirs.get_by_role("heading", name=f"Welcome, {name}")).to_be_visible()
    theirs.get_by_label("Your password").fill("a password of my own")
    theirs.get_by_label("Repeat the password").fill("a password of my own")
    theirs.get_by_role("button", name="Set password and log in").click()
    theirs.get_by_role("navigation", name="Main", exact=True).wait_for()
    assert "inv_" not in theirs.url
    go(theirs, "/repositories")
    expect(theirs.get_by_role("link", name=shared["name"]).first).to_be_visible()
    expect(theirs.get_by_role("link", name=hidden["name"])).to_have_count(0)
    go(theirs, "/notifications/alarms")
    expect(theirs.get_by_role("heading", name="Alarms")).to_be_visible()
    follow(theirs, "/settings/users")
    expect(theirs.get_by_text("Only admins can see the service's settings.")).to_be_visible()

    inside.get_by_role("button", name="Reset the password").click()
    first_password = inside.locator(".secret .mono").inner_text()
    theirs.reload()  # the reset has ended the session
    theirs.get_by_label("User name").fill(name)
    theirs.get_by_label("Password").fill(first_password)
    theirs.get_by_role("button", name="Log in").click()
    theirs.get_by_label("Current password").fill(first_password)
    theirs.get_by_label("Your new password").fill("another of my own")
    theirs.get_by_label("Repeat the new password").fill("another of my own")
    theirs.get_by_role("button", name="Change password").click()
    theirs.get_by_role("navigation", name="Main", exact=True).wait_for()

    inside.get_by_role("button", name="Disable").click()
    expect(inside.get_by_role("button", name="Enable")).to_be_visible()
    theirs.reload()
    expect(theirs.get_by_role("heading", name="Log in")).to_be_visible()
    path = f"/api/users/{user['id']}"
    for change in ({"disabled": False, "role": "operator"}, {"disabled": True}):  # by another admin, meanwhile
        assert running.admin.put(path, json=change).status_code == 200
        running.admin.delete(f"{path}/repositories/{shared['id']}")
        expect(inside.get_by_role("button", name="Enable" if change["disabled"] else "Disable")).to_be_visible()
    expect(inside.get_by_label("operator", exact=False).first).to_be_checked()
    expect(inside.get_by_label(f"Right on {shared['name']}")).to_have_value("none")
    theirs.goto(link)
    theirs.reload()  # only the part behind the # has changed
    expect(theirs.get_by_text("The invitation is not valid, has expired or was used.")).to_be_visible()
    other.close()
    assert running.admin.get(f"/api/users/{user['id']}").json()["disabled"] is True


def test_a_channel_is_added_and_its_test_message_arrives(running: Running, inside: Page) -> None:
    name = running.new_name("night-watch")
    with web_receiver() as receiver:
        go(inside, "/notifications")
        inside.get_by_role("button", name="Add channel").click()
        dialog = inside.get_by_role("dialog")
        dialog.get_by_label("Webhook").check()
        dialog.get_by_label("Name").fill(name)
        dialog.get_by_role("textbox", name="Address").fill(receiver.url)
        dialog.get_by_role("button", name="Add", exact=True).click()
        secret = inside.get_by_text("whsec_").inner_text()
        card = inside.get_by_role("region", name=name)
        card.get_by_role("button", name="Send a test").click()
        expect(card.get_by_role("status")).to_be_visible()
        assert receiver.received[0].verified(secret)
    go(inside, "/notifications/deliveries")
    expect(inside.get_by_role("row").filter(has_text=name).first).to_contain_text("sent")
    go(inside, "/notifications/rules")
    expect(inside.get_by_text("Sends warnings and failures to every channel").first).to_be_visible()
    go(inside, "/notifications")
    inside.get_by_role("region", name=name).get_by_role("button", name="Delete…").click()
    inside.get_by_role("dialog").get_by_role("button", name="Delete channel").click()
    expect(inside.get_by_role("region", name=name)).to_have_count(0)


def test_a_mirror_that_is_added_and_synced_is_a_copy_of_its_repository(running: Running, inside: Page) -> None:
    repository = running.new_repository()
    running.admin.wait_for_end(running.admin.start_backup(repository))
    running.wait_until_idle()
    remote, copy = running.new_name("offsite"), running.new_path("copy")
    go(inside, "/settings/remotes")
    inside.get_by_role("button", name="Add remote").click()
    dialog = inside.get_by_role("dialog")
    dialog.get_by_label("Name").fill(remote)
    dialog.get_by_role("combobox", name="Provider").select_option("local")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(inside.get_by_role("region", name=remote)).to_be_visible()

    go(inside, f"/repositories/{repository['id']}/mirror")
    inside.get_by_role("button", name="Add a mirror").click()
    dialog.get_by_label("Remote").select_option(label=f"{remote} (local)")
    dialog.get_by_label("Path on the remote").fill(str(copy))
    dialog.get_by_role("button", name="Add", exact=True).click()
    inside.get_by_role("button", name="Sync now").click()
    expect(inside.get_by_role("heading", name="Mirror sync of")).to_be_visible()
    expect(inside.get_by_text("completed", exact=True).first).to_be_visible()
    assert (copy / "config").read_bytes() == (running.folder / repository["path"] / "config").read_bytes()
    go(inside, f"/repositories/{repository['id']}/mirror")
    expect(inside.get_by_text("compared by its")).to_be_visible()


def test_a_second_factor_is_set_up_with_a_code_drawn_in_the_browser(running: Running, context: BrowserContext) -> None:
    page = context.new_page()  # unwatched: on a slow machine a code may be refused as too old
    user = running.new_user("operator")
    log_in(page, user["username"], PASSWORD)
    go(page, "/account")
    part = page.get_by_role("region", name="Second factor")
    part.get_by_role("button", name="Set up").click()
    expect(part.get_by_role("img", name="Code to scan with an authenticator app")).to_be_visible()
    codes = pyotp.TOTP(part.locator("code").inner_text())
    done = part.get_by_role("button", name="Turn off…")

    def accepted() -> bool:
        part.get_by_label("Six-digit code from the app").fill(codes.now())
        part.get_by_role("button", name="Turn on").click()
        expect(part.get_by_role("alert").or_(done)).to_be_visible()
        return done.is_visible()

    wait_until(accepted, what="a code is accepted")
    assert running.admin.get(f"/api/users/{user['id']}").json()["totp_enabled"] is True


def test_a_schedule_is_edited_in_a_form_that_shows_its_next_runs(running: Running, inside: Page) -> None:
    repository = running.new_repository()
    name = running.new_name("at-noon")
    body = {
        "name": name,
        "cron_expression": "0 12 * * *",
        "targets": {"repository_ids": [repository["id"]]},
        "steps": [{"kind": "backup"}, {"kind": "check", "every_days": 14, "verify_data": True}],
    }
    made = running.admin.post("/api/schedules/", json=body).json()
    go(inside, "/schedules")
    expect(inside.get_by_role("list", name="Two weeks").get_by_text(name).first).to_be_visible()
    card = inside.get_by_role("region", name=name)
    card.get_by_role("button", name="Edit").click()
    dialog = inside.get_by_role("dialog")
    expect(dialog.get_by_label("At", exact=True)).to_have_value("12:00")
    dialog.get_by_label("At", exact=True).fill("13:30")
    expect(dialog.get_by_role("region", name="Next runs")).to_contain_text("13:30")
    dialog.get_by_role("button", name="Save").click()
    expect(card).to_contain_text("13:30")
    changed = running.admin.get(f"/api/schedules/{made['id']}").json()
    assert changed["cron_expression"] == "30 13 * * *"
    assert [step["kind"] for step in changed["steps"]] == ["backup", "check"]
    assert changed["steps"][1]["verify_data"] is True


def test_retention_rules_are_simulated_saved_and_applied(running: Running, inside: Page) -> None:
    repository = running.new_repository(index_mode="full", retention={"keep_daily": 7})
    for _ in range(2):
        assert running.admin.wait_for_end(running.admin.start_backup(repository))["status"] == "completed"
    archives = f"/api/repositories/{repository['id']}/archives"
    wait_until(lambda: len(running.admin.get(archives).json()["archives"]) == 2, what="both archives are listed")
    go(inside, f"/repositories/{repository['id']}/maintenance")
    expect(inside.get_by_role("img", name="Restore points: restore points on")).to_be_visible()

    inside.get_by_label("daily", exact=True).fill("")
    inside.get_by_label("newest", exact=True).fill("1")
    expect(inside.get_by_role("img", name="Saved rules: restore points on")).to_be_visible()
    expect(inside.get_by_text("A prune today keeps 1 archive and removes 1.")).to_be_visible()
    inside.get_by_role("button", name="Save as this repository's rules").click()
    expect(inside.get_by_text("Saved. They apply from the next prune.")).to_be_visible()
    retention = running.admin.get(f"/api/repositories/{repository['id']}").json()["retention"]
    assert {name: value for name, value in retention.items() if value} == {"keep_last": 1}

    inside.get_by_role("button", name="Prune by these rules…").click()
    inside.get_by_role("button", name="Remove 1 archive").click()
    expect(inside.get_by_role("heading", name="Prune")).to_be_visible()
    wait_until(lambda: len(running.admin.get(archives).json()["archives"]) == 1, what="one archive is left")
