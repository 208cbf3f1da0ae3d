"""The parts of a schedule: targets, steps and windows."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, StrictBool, Tag, model_validator

from holdfast.kit.fields import PlainText, RowId
from holdfast.kit.schema import Closed, Schema
from holdfast.repositories.schemas import Labels, Retention

MOST_FIRES = 100
MOST_TARGETS = 10_000
DAY_SECONDS = 24 * 3600

Name = Annotated[str, PlainText(1, 200), AfterValidator(str.strip), Field(min_length=1)]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Clock = Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$", examples=["22:00"])]
RepositoryIds = Annotated[list[RowId], Field(max_length=MOST_TARGETS)]
EveryDays = Annotated[int, Field(ge=1, le=3650)]
Minutes = Annotated[int, Field(ge=1, le=525_600)]
Uuid = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class Targets(Closed):
    """Exactly one of these."""

    repository_ids: RepositoryIds | None = None
    labels: Labels | None = Field(
        None, description="Repositories with all of these labels, their own or their agent's."
    )
    all: StrictBool | None = Field(None, description="Every repository, including ones added later.")

    @model_validator(mode="after")
    def _names_one_way(self) -> Self:
        if sum((self.repository_ids is not None, self.labels is not None, bool(self.all))) > 1:
            raise ValueError("give only one of repository_ids, labels and all")
        return self

    def stored(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)


class DumpStep(Closed):
    """Dumps the repository's databases into an archive of their own."""

    kind: Literal["dump"]


class BackupStep(Closed):
    kind: Literal["backup"] = "backup"


class PruneStep(Retention):
    """Without any `keep_…`, the repository's own retention applies."""

    kind: Literal["prune"]


class CompactStep(Closed):
    kind: Literal["compact"]
    every_days: EveryDays | None = None


class CheckStep(Closed):
    kind: Literal["check"]
    every_days: EveryDays | None = None
    verify_data: StrictBool = False
    max_duration: Annotated[int, Field(ge=1, le=30 * DAY_SECONDS)] | None = Field(
        None, description="Time limit in seconds; the next check resumes there."
    )


class RestoreCheckStep(Closed):
    kind: Literal["restore_check"]
    every_days: EveryDays | None = None
    sample: Annotated[int, Field(ge=1, le=1000)] | None = Field(None, description="Number of random files.")


class MirrorStep(Closed):
    kind: Literal["mirror"]


ParameterName = Annotated[str, PlainText(1, 64)]
ParameterValue = Annotated[str, PlainText(0, 4096)] | StrictBool | Annotated[int, Field(strict=True)]


class ScriptStep(Closed):
    """A script of the library, whose newest version runs. Scripts run in the given order."""

    kind: Literal["script"]
    script_id: RowId
    when: Literal["before", "after"] = Field("before", description="Before or after the backup.")
    on_failure: Literal["stop", "warn"] | None = Field(
        None,
        description="For scripts before the backup: after a failure, skip the backup (`stop`, the default) or run it "
        "anyway.",
    )
    run_on: Literal["always", "success", "warning", "failure"] | None = Field(
        None, description="For scripts after the backup: the backup results that run the script (default: `always`)."
    )
    scope: Literal["each", "once"] | None = Field(
        None,
        description="Run once per repository (`each`, the default), or once for all repositories of a due time.",
    )
    parameters: Annotated[dict[ParameterName, ParameterValue], Field(max_length=50)] = Field(
        {}, description="Omitted secret parameters keep their values."
    )
    has_secrets: StrictBool | None = Field(
        None,
        description="Whether secret parameters are stored. Send it back as shown; a step with `false` keeps none.",
    )

    @model_validator(mode="after")
    def _uses_what_its_place_has(self) -> Self:
        if self.when == "before" and self.run_on not in (None, "always"):
            raise ValueError("run_on is for scripts after the backup")
        if self.when == "after" and self.on_failure not in (None, "stop"):
            raise ValueError("on_failure is for scripts before the backup")
        return self


def _step_kind(value: Any) -> str:
    kind = value.get("kind", "backup") if isinstance(value, dict) else getattr(value, "kind", None)
    return str(kind)


Step = Annotated[
    Annotated[BackupStep, Tag("backup")]
    | Annotated[DumpStep, Tag("dump")]
    | Annotated[PruneStep, Tag("prune")]
    | Annotated[CompactStep, Tag("compact")]
    | Annotated[CheckStep, Tag("check")]
    | Annotated[RestoreCheckStep, Tag("restore_check")]
    | Annotated[MirrorStep, Tag("mirror")]
    | Annotated[ScriptStep, Tag("script")],
    Discriminator(_step_kind),
]


class WindowShape(Schema):
    """Work starts only inside a window, in local time of the schedule's time zone."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    days: Annotated[list[Day], Field(max_length=7)] = Field(
        [], description="Days on which the window opens (empty: every day)."
    )
    opens: Clock = Field("00:00", alias="from")
    closes: Clock = Field(
        "24:00", alias="to", description="If not later than `from`, the window closes on the next day."
    )
    upload_kib: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None, description="Upload limit in KiB/s for work that starts in this window. Engine 1 only."
    )

    def stored(self) -> dict[str, Any]:
        return self.model_dump(by_alias=True, exclude_none=True)
