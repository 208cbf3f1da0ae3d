"""The dry run of a prune: answered during the request, through the repository's lane."""

from collections.abc import Collection
from pathlib import Path

from backup_engine.events import Event
from backup_engine.frozen import frozen
from backup_engine.parse import parse_line
from backup_engine.redact import Redactor
from backup_engine.render import log_line
from backup_engine.requests import PruneRequest, RetentionPolicy
from backup_engine.results import GarbledOutput
from backup_jobs.host import Step
from backup_jobs.prune import WOULD_REMOVE_EVERYTHING, PruneLines, spare
from backup_jobs.work import readable
from holdfast.api.parts import Part
from holdfast.errors import Unprocessable
from holdfast.maintenance.schemas import ArchiveTime, KeptArchive, PruneResult, Refusal
from holdfast.repositories.engine_queries import query_engine
from holdfast.repositories.location import Opener
from holdfast.repositories.models import Repository
from holdfast.runner.inline import InlineCalls


@frozen
class DryRuns:
    inline: InlineCalls
    opener: Opener

    def prune(self, repository: Repository, policy: RetentionPolicy, protected: Collection[str]) -> PruneResult:
        """The archives that a prune would keep and remove. Raise Locked while the repository is busy."""
        location = self.opener.location(repository)
        command = self.opener.engine(repository).prune(location, PruneRequest(policy, dry_run=True))
        redactor = Redactor(command.secret_values)

        def read(step: Step) -> PruneResult:
            redacted = [redactor.redact_event(event) for event in events_of(step.stderr)]
            return _result(redacted, protected, readable(step.stdout.read_bytes().decode("utf-8", "surrogateescape")))

        return query_engine(
            self.inline, self.opener, repository, lambda _engine, _location: command, read, location=location
        )


DRY_RUNS = Part[DryRuns]("dry_runs")


def events_of(stderr: Path) -> list[Event]:
    return [parse_line(line) for line in stderr.read_bytes().split(b"\n")] if stderr.exists() else []


def _result(redacted: list[Event], protected: Collection[str], stdout: str) -> PruneResult:
    lines = PruneLines()
    for event in redacted:
        lines.on_event(event)
    try:
        whole = lines.result()
    except GarbledOutput as error:
        raise Unprocessable(error.key, str(error)) from error
    plan = spare(whole, protected)
    refused = Refusal(key=WOULD_REMOVE_EVERYTHING[0], message=WOULD_REMOVE_EVERYTHING[1])
    return PruneResult(
        keep=[
            KeptArchive(archive=readable(kept.archive), time=kept.time, rule=kept.rule or "kept") for kept in plan.keep
        ],
        prune=[ArchiveTime(archive=readable(gone.archive), time=gone.time) for gone in plan.prune],
        kept_count=len(plan.keep),
        pruned_count=len(plan.prune),
        stdout=stdout,
        stderr="\n".join(line for event in redacted for line in log_line(event)),
        refusal=refused if plan.prune and not whole.keep else None,
    )
