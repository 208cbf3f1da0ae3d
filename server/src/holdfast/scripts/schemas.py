"""Scripts as clients see them."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, model_validator

from holdfast.kit.fields import PlainText, RowId, Timestamp
from holdfast.kit.schema import Closed, Schema

MOST_CONTENT_BYTES = 256 * 1024
LONGEST_SECONDS = 86_400
MOST_PARAMETERS = 50

Name = Annotated[str, PlainText(1, 200), AfterValidator(str.strip), Field(min_length=1)]
Where = Literal["service", "ssh", "agent"]
Chosen = Literal["service", "ssh", "agent"]
Argument = Annotated[str, PlainText(0, 4096)]
Content = Annotated[str, PlainText(0, MOST_CONTENT_BYTES, MOST_CONTENT_BYTES)]
Seconds = Annotated[int, Field(ge=1, le=LONGEST_SECONDS)]
InstalledAs = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
ParameterName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
Value = Annotated[str, PlainText(0, 4096)] | StrictBool | Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
Values = Annotated[dict[ParameterName, Value], Field(max_length=MOST_PARAMETERS)]
PROGRAM = re.compile(r"/[^\0]*")


def _with_program(words: list[str]) -> list[str]:
    if not PROGRAM.fullmatch(words[0]):
        raise ValueError("the first word is the program, as an absolute path")
    return words


Interpreter = Annotated[list[Argument], Field(min_length=1, max_length=20), AfterValidator(_with_program)]
Arguments = Annotated[list[Argument], Field(max_length=100)]


class Parameter(Closed):
    """Passed to the script as the variable `HOLDFAST_PARAM_<NAME>`."""

    name: ParameterName
    type: Literal["text", "integer", "boolean"] = "text"
    required: StrictBool = False
    secret: StrictBool = Field(False, description="Encrypted at rest, never shown, and removed from logs.")


def _of_different_names(parameters: list[Parameter]) -> list[Parameter]:
    names = [parameter.name.upper() for parameter in parameters]
    if len(set(names)) != len(names):
        raise ValueError("two parameters have the same name")
    return parameters


Parameters = Annotated[list[Parameter], Field(max_length=MOST_PARAMETERS), AfterValidator(_of_different_names)]


class NewScript(Closed):
    name: Name
    description: Annotated[str, PlainText(0, 4000)] | None = None
    content: Content = Field("", description="At most 256 KiB.")
    interpreter: Interpreter = Field(
        ["/bin/sh"], description="Interpreter and options for the script file; no shell is involved."
    )
    arguments: Arguments = Field([], description="Arguments after the script's file.")
    where: Chosen = Field(
        "service",
        description="Runs on the service's machine, or on the ssh machine or agent that opens the repository.",
    )
    installed_as: InstalledAs | None = Field(
        None, description="Agents only: run this file of the agent's own `scripts` folder instead of the content."
    )
    timeout_seconds: Seconds = 300
    parameters: Parameters = []
    operators_may_use: StrictBool = Field(False, description="Operators may run it and use it in schedules.")


class ScriptChange(Closed):
    """Omitted fields stay unchanged. Changed content becomes a new version."""

    version: int | None = Field(None, description="Refuse the change if the script has a different version.")
    name: Name | None = None
    description: Annotated[str, PlainText(0, 4000)] | None = None
    content: Content | None = None
    interpreter: Interpreter | None = None
    arguments: Arguments | None = None
    where: Chosen | None = None
    installed_as: InstalledAs | None = None
    timeout_seconds: Seconds | None = None
    parameters: Parameters | None = None
    operators_may_use: StrictBool | None = None


class RunScript(Closed):
    repository_id: RowId | None = Field(None, description="Repository passed to the script; its machine may run it.")
    parameters: Values = {}


class ScriptStep(Schema):
    """A script as a step of a schedule, as the library checks it."""

    model_config = ConfigDict(extra="ignore")

    kind: Literal["script"] = "script"
    when: Literal["before", "after"] = "before"
    script_id: int
    on_failure: Literal["stop", "warn"] = "stop"
    run_on: Literal["always", "success", "warning", "failure"] = "always"
    scope: Literal["each", "once"] = "each"
    parameters: Values = {}
    secret_id: str | None = None
    has_secrets: bool | None = None

    @model_validator(mode="after")
    def _uses_what_its_place_has(self) -> Self:
        if self.when == "before" and self.run_on != "always":
            raise ValueError("run_on is for scripts after the backup")
        if self.when == "after" and self.on_failure != "stop":
            raise ValueError("on_failure is for scripts before the backup")
        return self


class ScriptParams(Closed):
    """Everything that an operation needs to know, whatever happens to the script later."""

    script_id: int
    script_name: str
    version: int
    where: Where
    interpreter: list[str]
    arguments: list[str] = []
    installed_as: str | None = None
    timeout_seconds: int
    event: Literal["before", "after", "manual"] = "manual"
    on_failure: Literal["stop", "warn"] = "stop"
    run_on: Literal["always", "success", "warning", "failure"] = "always"
    scope: Literal["each", "once"] = "each"
    parameters: dict[str, str] = {}
    secret_id: str | None = None
    due_at: str | None = None
    result: str | None = None
    """For a once-only script after the backups: the worst end of their runs."""


# Answers --------------------------------------------------------------------------------------------------------------


class ScriptAnswer(Schema):
    id: int
    name: str
    description: str | None
    where: Where
    interpreter: list[str]
    arguments: list[str]
    installed_as: str | None
    timeout_seconds: int
    parameters: list[Parameter]
    operators_may_use: bool
    version: int
    sha256: str
    changed_by: str = Field(description="Author of the newest version.")
    created_at: Timestamp
    updated_at: Timestamp


class ScriptDetail(ScriptAnswer):
    content: str | None = Field(description="Content of the newest version; null unless you are an admin.")
    used_by: list[dict[str, Any]] = Field(description="Schedules that use it.")


class ScriptList(Schema):
    scripts: list[ScriptAnswer]


class Version(Schema):
    version: int
    sha256: str
    author: str
    created_at: Timestamp
    content: str


class Versions(Schema):
    versions: list[Version] = Field(description="Newest first.")
