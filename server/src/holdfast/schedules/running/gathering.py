"""What is known of everything that some rows are about, read at once: a tick looks at thousands of rows."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from sqlalchemy import column, select, table
from sqlalchemy.orm import Session

from holdfast.kit.frozen import frozen
from holdfast.repositories.models import Repository
from holdfast.schedules import store
from holdfast.schedules.models import Schedule, ScheduleRun
from holdfast.schedules.running.plans import Covered, covered_by
from holdfast.storage.bulk import ByIds, objects, plain

EVIDENCE = {
    "backup": "last_backup",
    "prune": "last_prune",
    "compact": "last_compact",
    "check": "last_check",
    "restore_check": "last_restore_check",
    "mirror": "last_mirror",
}
OF_REPOSITORY = plain(
    Repository.id,
    Repository.uuid,
    Repository.name,
    Repository.labels,
    Repository.path,
    Repository.agent_machine_id,
    Repository.execution_target,
    Repository.engine_version,
    Repository.rclone_remote_id,
    Repository.mode,
    Repository.setup_state,
    Repository.archive_name_template,
    *(getattr(Repository, name) for name in EVIDENCE.values()),
)
"""What of a repository is needed here, read as plain rows: so are schedules, and nothing here changes either."""
OF_SCHEDULE = plain(
    *(
        column
        for column in Schedule.__table__.c
        if column.name not in ("description", "tz_version", "created_by", "created_at", "updated_at")
    )
)
_mirrors = table("repository_mirrors", column("repository_id"))
_databases = table("dumped_databases", column("repository_id"))
"""Known by name alone."""
_REPOSITORIES = ByIds(select(*OF_REPOSITORY), Repository.id)
_SCHEDULES = ByIds(select(*OF_SCHEDULE), Schedule.id)
_MIRRORED = ByIds(select(_mirrors.c.repository_id), _mirrors.c.repository_id)


@frozen
class Around:
    """What is known of everything that some rows are about."""

    now: datetime
    paused: bool
    covered: Covered
    schedules: Mapping[int, Schedule]
    repositories: Mapping[int, Repository]
    targets: Mapping[int, store.Target]
    agents: Mapping[int, str]
    earlier: Mapping[tuple[int, int], ScheduleRun]
    mirrored: Collection[int]
    dumped: Collection[int]
    """Repositories that have databases to dump."""
    reachable: Collection[int]
    """Repositories whose ssh machine has just answered."""
    prepared: dict[Any, Any] = field(default_factory=dict)
    """Chains that many rows share, see `chains`."""


@frozen
class Known:
    """What the transaction has read already. No run of these schedules is open."""

    paused: bool
    covered: Covered
    schedules: Mapping[int, Schedule]


def gather(
    session: Session,
    rows: Sequence[ScheduleRun],
    now: datetime,
    reachable: Collection[int] = (),
    known: Known | None = None,
) -> Around:
    repository_ids = sorted({row.repository_id for row in rows})
    repositories = objects(_REPOSITORIES.run(session, repository_ids))
    found: dict[int, Repository] = {row.id: row for row in repositories}
    agents = store.agents(session, {one.agent_machine_id for one in found.values() if one.agent_machine_id})
    earlier = {} if known else store.unended_beside(session, [row.id for row in rows])
    known = known or _look(session, rows)
    return Around(
        now=now,
        paused=known.paused,
        covered=known.covered,
        schedules=known.schedules,
        repositories=found,
        targets={number: _target(one, agents) for number, one in found.items()},
        agents={number: agent.status for number, agent in agents.items()},
        earlier=earlier,
        mirrored=frozenset(_MIRRORED.run(session, repository_ids).scalars()),
        dumped=_with_databases(session, known.schedules.values(), repository_ids),
        reachable=reachable,
    )


def _look(session: Session, rows: Sequence[ScheduleRun]) -> Known:
    chosen = objects(_SCHEDULES.run(session, sorted({row.schedule_id for row in rows})))
    covered = covered_by(store.blackouts_as_values(session))
    return Known(store.is_paused(session), covered, {row.id: row for row in chosen})


def _target(repository: Repository, agents: Mapping[int, store.Agent]) -> store.Target:
    agent = agents.get(repository.agent_machine_id or 0)
    labels = {**(agent.labels if agent else {}), **(repository.labels or {})}
    return store.Target(repository.id, repository.uuid, repository.name, labels, repository.execution_target)


def _with_databases(session: Session, schedules: Iterable[Schedule], repository_ids: Sequence[int]) -> Collection[int]:
    """Repositories whose databases can be dumped. Nobody is asked unless a schedule has such a step."""
    # A step that cannot be read is its own run's trouble: what is gathered here is for all of them.
    steps = (step for schedule in schedules if isinstance(schedule.steps, list) for step in schedule.steps)
    if not any(isinstance(step, dict) and step.get("kind") == "dump" for step in steps):
        return ()
    found = select(_databases.c.repository_id).where(_databases.c.repository_id.in_(repository_ids)).distinct()
    return frozenset(session.scalars(found))
