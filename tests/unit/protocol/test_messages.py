"""Messages survive a round trip through JSON; an error names the wrong field without its value."""

import pytest

from backup_protocol import (
    BLOCKS,
    SCHEMA_VERSION,
    BackupBlock,
    Complete,
    EngineVersion,
    Heartbeat,
    JobKind,
    Malformed,
    Payload,
    Progress,
    RepositoryBlock,
    Result,
    SecretMissing,
    Stats,
    is_warning,
    read,
    resolved_environment,
    write,
)


def backup_payload(**more: object) -> Payload:
    block = BackupBlock(environment={"BORG_PASSPHRASE": {"secret_ref": "repository-1"}, "LANG": "C"}, archive_name="a")
    return Payload(SCHEMA_VERSION, JobKind.BACKUP_CREATE, RepositoryBlock(1, 1, "/r"), block, **more)  # type: ignore[arg-type]


def test_a_message_survives_a_round_trip_through_json() -> None:
    heartbeat = Heartbeat(
        "agent", "host", "1.0", (EngineVersion(1, "1.4.0", "/usr/bin/borg"),), ("backup.create",), (7,)
    )
    complete = Complete("2026-01-01T00:00:00+00:00", Result(1, "name", Stats(1, None, 3, 4), ({"path": "/x"},)))
    assert read(Heartbeat, write(heartbeat)) == heartbeat
    assert read(Complete, write(complete)) == complete
    assert Payload.from_json(backup_payload().to_json()) == backup_payload()


def test_fields_added_by_a_newer_version_are_ignored() -> None:
    assert read(Progress, {"progress_percent": 5, "invented_later": True}) == Progress(progress_percent=5.0)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({}, "agent_id is missing"),
        ({"agent_id": 5, "hostname": "h", "agent_version": "1"}, "agent_id must be of type str"),
        ({"agent_id": "a", "hostname": "h", "agent_version": "1", "running_job_ids": [True]}, r"running_job_ids\[0\]"),
        ([], "must be an object"),
    ],
)
def test_an_invalid_message_is_refused_with_the_name_of_the_field(value: object, named: str) -> None:
    with pytest.raises(Malformed, match=named):
        read(Heartbeat, value)


def test_every_job_kind_has_a_block() -> None:
    assert set(BLOCKS) == set(JobKind)


def test_a_payload_of_an_unknown_kind_or_without_its_block_is_malformed() -> None:
    value = backup_payload().to_json()
    with pytest.raises(Malformed, match="job_kind"):
        Payload.from_json({**value, "job_kind": "coffee.make"})
    with pytest.raises(Malformed, match="no backup"):
        Payload.from_json({name: part for name, part in value.items() if name != "backup"})


def test_secrets_are_taken_from_the_payload_or_from_the_machine() -> None:
    sent = backup_payload(secrets={"repository-1": {"value": "from the server"}})
    assert resolved_environment(sent, lambda _: None) == (
        {"BORG_PASSPHRASE": "from the server", "LANG": "C"},
        {"from the server"},
    )
    assert resolved_environment(backup_payload(), lambda ref: f"local {ref}")[1] == {"local repository-1"}
    with pytest.raises(SecretMissing, match="backup-agent secret set repository-1"):
        resolved_environment(backup_payload(), lambda _: None)


def test_secrets_do_not_show_in_the_repr_of_a_payload() -> None:
    assert "hidden" not in repr(backup_payload(secrets={"repository-1": {"value": "hidden"}}))


def test_exit_codes_1_and_100_to_127_are_warnings() -> None:
    assert [code for code in range(256) if is_warning(code)] == [1, *range(100, 128)]
