"""A schedule with a real engine: due, released, run to its end, settled."""

from pathlib import Path

import pytest

from tests.support.agent_site import AgentSite
from tests.support.running import Services
from tests.support.service import wait_until
from tests.support.stored_schedules import due_in_a_moment, runs_of, settled

STEPS = [{"kind": "backup"}, {"kind": "prune", "keep_last": 1}, {"kind": "compact"}, {"kind": "check"}]


@pytest.mark.parametrize("major", [1, 2])
def test_a_due_schedule_backs_up_prunes_its_series_compacts_and_checks(services: Services, major: int) -> None:
    running = services.get()
    repository = running.new_repository(engine_version=major, archive_name_template="{repository}-{now}")
    admin = running.admin
    for name in ("{repository}-{now}", "{repository}-db-{now}", "{repository}-db-{now}"):
        number = admin.start_backup(repository, archive_name=name)
        assert admin.wait_for_end(number)["status"] == "completed"

    schedule = due_in_a_moment(running.process, repository["id"], steps=STEPS)
    row = settled(running.process, schedule)

    assert (row.outcome, row.result, row.error_key) == ("ran", "completed", None), row.steps
    found = [admin.operation(step["operation_id"]) for step in row.steps]
    assert [one["kind"] for one in found] == ["backup", "prune", "compact", "check"]
    for one in found:
        assert (one["status"], one["run_id"], one["trigger"]) == ("completed", row.run_id, "schedule")
        assert (one["triggered_by"], one["schedule_id"]) == ("schedule", schedule)
    ends = [one["completed_at"] for one in found]
    assert ends == sorted(ends)

    prune = found[1]["result"]
    assert (prune["kept_count"], prune["pruned_count"]) == (1, 1), "the other series has no part in it"
    left = admin.get("/api/archives/list", params={"repository": repository["path"]}).json()["archives"]
    assert sorted("-db-" in archive["name"] for archive in left) == [False, True, True]


def test_an_agent_that_was_offline_gets_a_single_run_when_it_returns(tmp_path: Path) -> None:
    quick = {"HOLDFAST_AGENT_HEARTBEAT_SECONDS": "1", "HOLDFAST_AGENT_OFFLINE_SECONDS": "3"}
    site = AgentSite.build(tmp_path, **quick)
    try:
        site.agent.kill()
        agent = f"/api/managed-machines/agents/{site.agent.agent_id}"
        wait_until(lambda: site.admin.get(agent).json()["status"] == "offline", what="the agent is known to be away")

        schedule = due_in_a_moment(site.service, site.repository["id"])
        wait_until(
            lambda: [row.waiting_for for row in runs_of(site.service, schedule)] == ["machine"], what="the run waits"
        )
        site.agent.start()
        row = settled(site.service, schedule)
        assert (row.outcome, row.result, len(row.steps)) == ("ran", "completed", 1)
        assert len(runs_of(site.service, schedule)) == 1
        assert len(site.archive_comments()) == 1
    finally:
        site.end()
