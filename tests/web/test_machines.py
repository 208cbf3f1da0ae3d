"""Machines in a browser: an ssh machine is added and authorised, an agent renamed and revoked, folders chosen."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.agents import AgentProcess
from tests.support.engines import ENGINES
from tests.support.running import Running
from tests.support.sshd import Sshd, sshd
from tests.support.warm_engines import warm_program
from tests.web.conftest import go
from tests.web.test_accessibility import in_both_themes


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("machine")) as started:
        yield started


@pytest.fixture
def agent(running: Running, tmp_path: Path) -> Iterator[AgentProcess]:
    made = AgentProcess(tmp_path, warm_program(ENGINES[max(ENGINES)]), running.process.url)
    made.register(running.admin, running.new_name("web")).start()
    made.wait_until_online(running.admin)
    yield made
    made.stop()


def test_a_machine_is_added_by_ssh_authorised_and_tested(running: Running, machine: Sshd, inside: Page) -> None:
    name = running.new_name("nas")
    go(inside, "/machines")
    inside.get_by_role("button", name="Add over ssh").click()
    form = inside.get_by_role("dialog")
    form.get_by_label("Name").fill(name)
    form.get_by_label("Host").fill("127.0.0.1")
    form.get_by_label("Account").fill(machine.username)
    form.get_by_label("Port").fill(str(machine.port))
    form.get_by_role("button", name="Next").click()
    expect(inside.get_by_role("heading", name=name)).to_be_visible()
    line = inside.locator("code.command").inner_text()
    assert line.startswith("ssh-ed25519 ")

    machine.authorize(line)
    inside.get_by_role("button", name="Test the connection").click()
    expect(inside.get_by_text("The account accepts the service's key")).to_be_visible()
    expect(inside.get_by_text("reachable", exact=True)).to_be_visible()
    assert in_both_themes(inside, "ssh machine") == []
    go(inside, "/machines")
    expect(inside.get_by_role("row", name=name)).to_contain_text("reachable")


def test_an_agents_repository_is_created_from_folders_of_its_machine(
    running: Running, agent: AgentProcess, inside: Page, tmp_path: Path
) -> None:
    source = tmp_path / "pictures"
    source.mkdir()
    (source / "one.jpg").write_bytes(bytes(5000))
    name = running.new_name("of the agent")
    go(inside, "/repositories/new")
    inside.get_by_label("Name").fill(name)
    inside.get_by_role("combobox", name="Machine").select_option(f"agent:{agent.agent_id}")
    inside.get_by_label("Where to create it").fill(str(tmp_path / "repository"))
    inside.get_by_label("What to back up, one path per line").fill(str(source / "one.jpg"))
    inside.get_by_role("button", name="Choose what to back up").click()
    chooser = inside.get_by_role("dialog")
    expect(chooser.get_by_text("one.jpg")).to_be_visible()
    chooser.get_by_role("button", name=source.parent.name, exact=True).click()
    chooser.get_by_role("button", name="Use pictures").click()
    expect(chooser).to_have_count(0)
    inside.get_by_label("What to back up, one path per line").fill(str(source))
    inside.get_by_role("button", name="How much is it?").click()
    expect(inside.get_by_text("1 file, 5")).to_be_visible()
    inside.get_by_role("button", name="I have written it down: create").click()
    expect(inside.get_by_role("heading", name=name)).to_be_visible()

    made = next(one for one in running.admin.get("/api/repositories/").json()["repositories"] if one["name"] == name)
    assert (made["execution_target"], made["agent_machine_id"]) == ("agent", agent.agent_id)
    assert made["source_paths"] == [str(source)]
    go(inside, f"/machines/agent/{agent.agent_id}")
    expect(inside.get_by_role("link", name=name, exact=True)).to_be_visible()
    running.wait_until_idle()  # the agent sets it up; without an agent that would wait indefinitely
    assert (tmp_path / "repository" / "config").is_file()

    go(inside, "/search?q=one.jpg")
    inside.get_by_role("combobox", name="Machine").select_option(f"agent:{agent.agent_id}")
    expect(inside.get_by_text("1 of 1 repository searched.")).to_be_visible()
    inside.wait_for_url("**/search?*machine=agent*")


@pytest.fixture
def newcomer(running: Running, tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that is not enrolled yet."""
    made = AgentProcess(tmp_path, warm_program(ENGINES[max(ENGINES)]), running.process.url)
    yield made
    made.stop()


def test_an_agent_enrols_with_the_pages_command_and_is_renamed_disabled_and_revoked(
    running: Running, newcomer: AgentProcess, inside: Page
) -> None:
    name, other = running.new_name("newcomer"), running.new_name("renamed")
    go(inside, "/machines")
    inside.get_by_role("button", name="Add a machine").click()
    dialog = inside.get_by_role("dialog")
    dialog.get_by_role("button", name="Create install command").click()
    expect(dialog.get_by_text("Waiting for the machine…")).to_be_visible()
    token = dialog.locator("code.command").inner_text().split()[-1]
    enrolled = newcomer.run(
        "register", "--server", newcomer.server_url, "--token", "-", "--name", name, given=f"{token}\n"
    )
    assert enrolled.returncode == 0, enrolled.stderr
    newcomer.start()
    expect(dialog.get_by_text(f"{name} has enrolled.")).to_be_visible()
    expect(dialog.get_by_text("The agent is running.")).to_be_visible()
    expect(dialog.get_by_text("is installed.")).to_be_visible()  # its engine
    dialog.get_by_role("link", name=f"Open {name}").click()
    expect(inside.get_by_role("heading", name=name)).to_be_visible()  # the list behind it contains the same text
    expect(inside.get_by_text("online", exact=True)).to_be_visible()
    assert in_both_themes(inside, "agent") == []
    inside.get_by_role("button", name="Rename").click()
    inside.get_by_role("dialog").get_by_label("Name").fill(other)
    inside.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(inside.get_by_role("heading", name=other)).to_be_visible()
    inside.get_by_role("button", name="Disable").click()
    expect(inside.get_by_role("button", name="Enable")).to_be_visible()
    inside.get_by_role("button", name="Enable").click()
    expect(inside.get_by_role("button", name="Disable")).to_be_visible()
    inside.get_by_role("button", name="Revoke").click()
    inside.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    inside.get_by_role("button", name="Remove").click()
    inside.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(inside.get_by_role("heading", name="Machines")).to_be_visible()
    expect(inside.get_by_role("row", name=other)).to_have_count(0)
