"""Turn a received job into a repository for the engine. Unknown or unsafe values are refused here."""

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from backup_agent.host import JobEnvironment
from backup_agent.jobs import KINDS
from backup_engine.command import Older, Secret
from backup_engine.redact import Redactor
from backup_engine.requests import InvalidRequest, RepositoryLocation
from backup_protocol import SCHEMA_VERSION, JobKind, Malformed, Payload, ScriptBlock, resolved_environment

PASSPHRASE = "BORG_PASSPHRASE"  # noqa: S105 -- the name of the variable
ALLOWED_VARIABLE = re.compile(r"BORG_[A-Z0-9_]+")
SCRIPT_VARIABLE = re.compile(r"HOLDFAST_PARAM_[A-Z0-9_]+")
FORBIDDEN_VARIABLES = frozenset(
    {"BORG_PASSCOMMAND", "BORG_RSH", "BORG_REMOTE_PATH", "BORG_BASE_DIR", "BORG_HOST_ID", "BORG_EXIT_CODES"}
)
"""Variables that would run another program, or that the agent must set itself."""


OLDER: Mapping[str, Older] = {"accept": "accept", "look": "look"}
ENGINE_ID = re.compile(r"[0-9a-f]{64}")


class UnsupportedJob(Exception):
    """This agent does not support jobs of this version or kind, or cannot parse this one."""


@dataclass(frozen=True, slots=True, repr=False)
class Opened:
    location: RepositoryLocation
    environment: JobEnvironment


def payload_of(
    job_payload: dict[str, Any], secrets: dict[str, dict[str, str]], kinds: Container[JobKind] = KINDS
) -> Payload:
    """Parse a payload as received, with its secrets. Raise UnsupportedJob if this agent cannot run it."""
    version, kind = job_payload.get("schema_version"), job_payload.get("job_kind")
    if version != SCHEMA_VERSION:
        raise UnsupportedJob(
            f"This agent supports payloads of version {SCHEMA_VERSION}, not {version!r}; update the agent."
        )
    if kind not in list(JobKind) or JobKind(kind) not in kinds:
        raise UnsupportedJob(f"This agent does not support jobs of kind {kind!r}; update the agent.")
    try:
        return Payload.from_json({**job_payload, "secrets": secrets})
    except Malformed as error:
        raise UnsupportedJob(f"The job cannot be read: {error}.") from error


def _engine_id(given: str | None) -> str | None:
    """Validate an engine id: it becomes the name of a folder. Raise InvalidRequest if it is not valid."""
    if given is not None and not ENGINE_ID.fullmatch(given):
        raise InvalidRequest("The repository id is not a valid engine id.")
    return given


def open_repository(payload: Payload, local_secret: Callable[[str], str | None]) -> Opened:
    """Resolve variables and secrets of a job and describe its repository. Raise SecretMissing or InvalidRequest."""
    is_script = isinstance(payload.block, ScriptBlock)
    # Scripts have no access to secrets of this machine, such as passphrases.
    variables, secret_values = resolved_environment(payload, (lambda _ref: None) if is_script else local_secret)
    passphrase = variables.pop(PASSPHRASE, None)
    allowed = SCRIPT_VARIABLE if is_script else ALLOWED_VARIABLE
    for name in variables:
        if not allowed.fullmatch(name) or name in FORBIDDEN_VARIABLES:
            raise InvalidRequest(f"Jobs are not allowed to set the variable {name} on this machine.")
    secrets = {name: Secret(value, "environment") for name, value in variables.items() if value in secret_values}
    plain = {name: value for name, value in variables.items() if name not in secrets}
    known = {secret["value"] for secret in payload.secrets.values()} | secret_values
    known |= {passphrase} if passphrase else set()
    repository = payload.repository
    location = RepositoryLocation(
        repository.repository_path,
        passphrase,
        repository.encryption,
        repository.remote_path,
        relocated_ok=repository.relocated_ok,
        unencrypted_ok=repository.unencrypted_ok,
        engine_id=_engine_id(repository.engine_id),
        older=OLDER.get(repository.older, "refuse"),
    )
    return Opened(location, JobEnvironment(Redactor(known), plain, secrets))
