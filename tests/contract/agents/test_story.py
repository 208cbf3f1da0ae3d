"""The contract with agents from start to finish, from the token to the result."""

from tests.contract.agents.agent import PASSPHRASE, Machines, now

SIZES = {"original_size": 1000, "compressed_size": 500, "deduplicated_size": 250, "nfiles": 7}


def test_an_agent_runs_a_backup_from_enrollment_to_result(on_either_store: Machines) -> None:
    machines = on_either_store
    agent = machines.agent()
    repository = machines.repository(agent)
    start = machines.admin.post("/api/backup/start", json={"repository": repository["path"]})
    job = start.json()["job_id"]
    assert start.json()["status"] == "pending"

    (offered,) = agent.poll()
    assert (offered["id"], offered["type"], offered["payload"]["job_kind"]) == (job, "backup", "backup.create")
    assert machines.job(job)["status"] == "queued"

    assert agent.claim(job).json()["status"] == "claimed"
    assert machines.job(job)["status"] == "claimed"
    assert machines.admin.operation(job)["status"] == "running"
    assert agent.poll() == []

    assert agent.start(job).json() == {"id": job, "status": "running", "cancel_requested": False, "next_sequence": None}
    progress = {"progress_percent": 40.5, "current_file": "/etc/hosts", "backup_speed": 10, "nfiles": 3}
    assert agent.post(job, "progress", progress).json()["status"] == "running"
    beyond = {"original_size": 9, "more_than_expected": True}
    assert agent.post(job, "progress", beyond).json()["status"] == "running"
    assert agent.log(job, (1, "first"), (2, "second")).json() == {"accepted": 2, "duplicate": 0}

    result = {"archive_name": "an-archive", "return_code": 0, "stats": SIZES}
    ended = agent.post(job, "complete", {"completed_at": now(), "result": result})
    assert (ended.status_code, ended.json()["status"]) == (200, "completed")

    status = machines.admin.get(f"/api/backup/status/{job}").json()
    assert (status["status"], status["archive_name"], status["logs"]) == ("completed", "an-archive", "first\nsecond")
    assert {name: status["progress_details"][name] for name in SIZES} == SIZES
    assert status["progress"] == 100
    shown = machines.job(job)
    assert (shown["status"], shown["operation_status"]) == ("completed", "completed")
    assert shown["claimed_at"] <= shown["started_at"] <= shown["completed_at"]
    assert machines.admin.get(f"/api/repositories/{repository['id']}").json()["last_backup"] is not None


def test_the_payload_of_a_backup_contains_everything_the_contract_specifies(machines: Machines) -> None:
    agent = machines.agent()
    repository = machines.repository(agent, archive_name_template="{repository}-{now:%Y}", compression="zstd,3")
    machines.backup(repository)

    (offered,) = agent.poll()
    payload = offered["payload"]

    assert payload["schema_version"] == 1
    assert payload["repository"]["repository_id"] == repository["id"]
    assert payload["repository"]["engine_version"] == 1
    assert payload["repository"]["repository_path"] == repository["path"]
    backup = payload["backup"]
    assert backup["archive_name"] == f"{repository['name']}-{{now:%Y}}"
    assert (backup["source_paths"], backup["exclude_patterns"]) == (["/etc", "/home"], ["*.tmp"])
    assert backup["compression"] == "zstd,3"
    assert backup["comment"].startswith("holdfast:")
    ref = backup["environment"]["BORG_PASSPHRASE"]["secret_ref"]
    assert payload["secrets"] == {ref: {"value": PASSPHRASE}}


def test_a_job_fails_with_its_message_and_return_code(machines: Machines) -> None:
    with machines.running_backup() as (agent, job):
        answer = agent.fail(job, "the disk is full", 2, error_key="engine.disk_full")

        assert answer.json()["status"] == "failed"
        operation = machines.admin.operation(job)
        assert (operation["status"], operation["error_key"]) == ("failed", "engine.disk_full")
        assert operation["error_message"] == "the disk is full"
        assert operation["result"]["return_code"] == 2


def test_return_codes_for_warnings_complete_with_warnings(machines: Machines) -> None:
    for code in (1, 100, 127):
        with machines.running_backup() as (agent, job):
            warning = {"path": "/etc/shadow", "message": "/etc/shadow: permission denied"}
            assert agent.complete(job, return_code=code, warnings=[warning]).json()["status"] == "completed"

            operation = machines.admin.operation(job)
            assert (operation["status"], operation["warnings"]) == ("completed_with_warnings", [warning])


def test_the_output_of_the_engine_becomes_the_archive_in_the_index(machines: Machines) -> None:
    document = {
        "archive": {
            "id": "a" * 64,
            "name": "named",
            "start": "2026-01-02T03:04:05.000000",
            "end": "2026-01-02T03:04:06.000000",
            "duration": 1.0,
            "stats": SIZES,
        },
        "repository": {"id": "b" * 64, "location": "/far"},
    }
    with machines.running_backup() as (agent, job):
        agent.complete(job, archive_name="named", stats=SIZES, details={"created": document})

        repository = machines.admin.operation(job)["repository_id"]
        (archive,) = machines.admin.get(f"/api/repositories/{repository}/archives").json()["archives"]
        assert (archive["name"], archive["backup_operation_id"], archive["nfiles"]) == ("named", job, 7)
        assert archive["start"] == "2026-01-02T03:04:05.000000+00:00"
