"""Third-party agents that were written from the contract alone."""

from datetime import datetime

from tests.contract.agents.agent import Machines, now
from tests.contract.agents.test_jobs import cancel_in_background


def test_the_time_of_a_start_may_be_omitted(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    without_time, without_body = machines.backup(repository), machines.backup(repository)
    agent.claim(without_time)

    assert agent.post(without_time, "start", {}).json()["status"] == "running"
    agent.complete(without_time)
    agent.claim(without_body)
    assert agent.post(without_body, "start").json()["status"] == "running"


def test_a_stop_may_be_reported_as_cancel_and_as_canceled(machines: Machines) -> None:
    for word, body in (("cancel", None), ("cancel", {"completed_at": now()}), ("canceled", {})):
        with machines.running_backup() as (agent, job):
            assert agent.post(job, word, body).status_code == 409, "nobody has asked for it to stop"
            cancel_in_background(machines, job)

            assert agent.post(job, word, body).json()["status"] == "canceled"
            assert machines.admin.operation(job)["status"] == "cancelled"


def test_the_final_counts_come_from_the_result(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        agent.post(job, "progress", {"nfiles": 5000, "original_size": 9999, "deduplicated_size": 77})
        agent.complete(job, stats={"nfiles": 3, "original_size": 30})

        details = machines.admin.get(f"/api/backup/status/{job}").json()["progress_details"]
        assert (details["nfiles"], details["original_size"]) == (3, 30)
        assert not details["deduplicated_size"], "what the result does not say is not taken from the last progress"
        assert machines.admin.operation(job)["result"]["stats"] == {"nfiles": 3, "original_size": 30}


def test_a_late_result_is_stored_with_the_time_at_which_the_job_ended(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent)
    job = machines.backup(repository)
    agent.begin(job)
    ended = now()
    while now() == ended:
        pass

    agent.post(job, "complete", {"completed_at": ended, "result": {"archive_name": "one"}})

    shown = machines.admin.operation(job)
    last_backup = machines.admin.get(f"/api/repositories/{repository['id']}").json()["last_backup"]
    assert datetime.fromisoformat(shown["completed_at"]) == datetime.fromisoformat(ended)
    assert datetime.fromisoformat(last_backup) == datetime.fromisoformat(ended)
