"""From a payload to the engine's command and environment: anything unknown or unsafe is refused."""

from typing import Any

import pytest

from backup_agent.capabilities import CAPABILITIES
from backup_agent.job_payload import Opened, UnsupportedJob, open_repository, payload_of
from backup_agent.jobs import KINDS
from backup_engine.command import Command
from backup_engine.requests import InvalidRequest
from backup_protocol import JobKind, SecretMissing

PASSPHRASE = "the passphrase of the repository"
REF = "repository-1"
SECRETS = {REF: {"value": PASSPHRASE}}


def backup(**environment: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "job_kind": "backup.create",
        "repository": {"repository_id": 1, "engine_version": 1, "repository_path": "/srv/repository"},
        "backup": {
            "archive_name": "archive-{now}",
            "source_paths": ["/home"],
            "environment": {"BORG_PASSPHRASE": {"secret_ref": REF}, **environment},
        },
    }


def opened(payload: dict[str, Any], secrets: dict[str, dict[str, str]], local: dict[str, str] | None = None) -> Opened:
    return open_repository(payload_of(payload, secrets), (local or {}).get)


def test_a_passphrase_sent_by_the_service_opens_the_repository() -> None:
    assert opened(backup(), SECRETS).location.passphrase == PASSPHRASE


def test_a_passphrase_stored_on_the_machine_opens_it_too() -> None:
    assert opened(backup(), {}, {REF: "kept here"}).location.passphrase == "kept here"


def test_the_error_for_a_missing_secret_shows_how_to_set_it() -> None:
    with pytest.raises(SecretMissing, match=f"backup-agent secret set {REF}"):
        opened(backup(), {})


def test_secrets_are_redacted_from_messages() -> None:
    redactor = opened(backup(), SECRETS).environment.redactor

    assert redactor.redact(f"opening with {PASSPHRASE} now") == "opening with *** now"


def test_other_variables_reach_the_engine_and_secret_ones_stay_out_of_its_record() -> None:
    payload = backup(BORG_FILES_CACHE_TTL="30", BORG_NEW_PASSPHRASE={"secret_ref": "new"})

    command = opened(payload, {**SECRETS, "new": {"value": "another secret"}}).environment.apply_to(Command(("borg",)))

    assert command.environment == {"BORG_FILES_CACHE_TTL": "30"}
    assert command.secrets["BORG_NEW_PASSPHRASE"].value == "another secret"


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "BORG_PASSCOMMAND", "BORG_RSH", "BORG_HOST_ID", "PYTHONPATH"])
def test_a_variable_that_could_run_another_program_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        opened(backup(**{name: "x"}), SECRETS)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 2},
        {"schema_version": None},
        {"job_kind": "repository.mount"},
        {"job_kind": None},
        {"backup": None},
        {"repository": {"repository_id": "one"}},
    ],
)
def test_a_job_of_an_unknown_version_kind_or_shape_is_unsupported(changes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedJob):
        payload_of({**backup(), **changes}, SECRETS)


def test_every_job_kind_of_the_protocol_is_implemented_and_announced() -> None:
    assert set(KINDS) == set(JobKind) - {JobKind.ENGINE_CALL}
    others = {"backup.cancel", "logs.stream", "service.hold", "folders.look", "archives.protected", "chunks.read"}
    assert set(CAPABILITIES) == {*map(str, JobKind), *others}
