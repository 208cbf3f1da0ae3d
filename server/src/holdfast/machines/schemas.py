"""Request and response schemas for ssh machines."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr

from holdfast.kit.fields import PlainText, Timestamp
from holdfast.kit.schema import Closed, Schema


def _plain_password(secret: SecretStr) -> SecretStr:
    value = secret.get_secret_value()
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError("may not hold a lone surrogate") from error
    if not 0 < len(value) <= 1024 or any(character in value for character in "\0\r\n"):
        raise ValueError("must have 1 to 1024 characters and no line end")
    return secret


Name = Annotated[str, PlainText(1, 200), AfterValidator(str.strip), Field(min_length=1)]
Host = Annotated[
    str,
    Field(
        max_length=255,
        pattern=r"^(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]+)$",
        description="Host name or IP address.",
    ),
    AfterValidator(str.lower),
]
Port = Annotated[int, Field(ge=1, le=65535)]
Username = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
EnginePath = Annotated[str, Field(max_length=1000, pattern=r"^[A-Za-z0-9_./~+][A-Za-z0-9_./~+-]*$")]
Password = Annotated[SecretStr, AfterValidator(_plain_password)]


class NewConnection(Closed):
    name: Name
    host: Host
    port: Port = 22
    username: Username
    engine_path: EnginePath | None = Field(None, description="The engine's program there (default: `borg`).")


class ConnectionChange(Closed):
    """The host key stays pinned when the address changes; the repositories of the connection move with it."""

    name: Name | None = None
    host: Host | None = None
    port: Port | None = None
    username: Username | None = None
    engine_path: EnginePath | None = None


class TestRequest(Closed):
    __test__ = False

    path: Annotated[str, PlainText(1, 4096)] = Field(
        ".", description="Path whose free space is reported (default: the home folder)."
    )


class DeployRequest(Closed):
    password: Password = Field(description="Used for one login and not stored.")


class AcceptedHostKey(Closed):
    fingerprint: Annotated[str, PlainText(1, 100)] = Field(
        description="Fingerprint of the new key, as shown by the test."
    )


class HostKeyAnswer(Schema):
    type: str
    fingerprint: str
    pinned_at: Timestamp | None


StepName = Literal["reach", "host_key", "key", "engine", "python", "disk"]
StepVerdict = Literal["ok", "failed", "unknown", "skipped"]


class StepAnswer(Schema):
    step: StepName
    verdict: StepVerdict
    key: str | None
    message: str | None
    details: dict[str, Any] | None


class TestAnswer(Schema):
    __test__ = False

    status: Literal["ok", "failed"]
    path: str
    tested_at: Timestamp
    steps: list[StepAnswer]


class ConnectionAnswer(Schema):
    id: int
    name: str
    host: str
    port: int
    username: str
    engine_path: str | None
    status: Literal["unknown", "ok", "failed"]
    host_key: HostKeyAnswer | None
    key_fingerprint: str | None = Field(description="Fingerprint of the service's key that the machine accepts.")
    engine_version: str | None
    python_version: str | None
    last_test: TestAnswer | None
    last_seen_at: Timestamp | None
    repository_ids: list[int]
    created_at: Timestamp
    updated_at: Timestamp


class Connections(Schema):
    connections: list[ConnectionAnswer]


class SystemKey(Schema):
    id: int
    public_key: str = Field(description="The line for `authorized_keys`.")
    fingerprint: str
    created_at: Timestamp


class NotMoved(Schema):
    connection_id: int
    name: str
    key: str
    message: str


class RotationAnswer(Schema):
    system_key: SystemKey
    moved: list[int] = Field(description="Connections that now accept only the new key.")
    failed: list[NotMoved] = Field(description="Connections that keep the old key.")
