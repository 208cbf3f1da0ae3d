"""Everything that is needed to judge some rows, read at once: a tick judges thousands of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from sqlalchemy import column, select, table
from sqlalchemy.orm import Session

from backup_engine.frozen import frozen
from holdfast.agents.labels import together
from holdfast.agents.models import AgentMachine
from holdfast.repositories.models import Repository
from holdfast.schedules import store
from holdfast.schedules.models import Schedule, ScheduleRun
from holdfast.schedules.running.plans import InBlackout, blackout_check
from holdfast.storage.bulk import ByIds, objects, plain
from holdfast.storage.types import stored_text

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
"""The columns of a repository that are needed here. Repositories and schedules are plain rows, never changed here."""
_OF_AGENT = (
    stored_text(AgentMachine.labels).label("agent_labels"),
    AgentMachine.status.label("agent_status"),
)
OF_SCHEDULE = plain(
    *(
        column
        for column in Schedule.__table__.c
        if column.name not in ("description", "tz_version", "created_by", "created_at", "updated_at")
    )
)
_mirrors = table("repository_mirrors", column("repository_id"))
_databases = table("dumped_databases", column("repository_id"))
"""Known here only by name."""
_PLACES = ByIds(
    select(*OF_REPOSITORY, *_OF_AGENT).outerjoin(AgentMachine, AgentMachine.id == Repository.agent_machine_id),
    Repository.id,
)
_SCHEDULES = ByIds(select(*OF_SCHEDULE), Schedule.id)
_MIRRORED = ByIds(select(_mirrors.c.repository_id), _mirrors.c.repository_id)


@frozen
class Places:
    """Some repositories, and the state of their agents."""

    repositories: Mapping[int, Repository]
    targets: Mapping[int, store.Target]
    agents: Mapping[int, str]


def places(session: Session, repository_ids: Collection[int]) -> Places:
    wanted = sorted(repository_ids)
    found: list[Any] = []
    for first in range(0, len(wanted), store.AT_ONCE):
        found += objects(_PLACES.run(session, wanted[first : first + store.AT_ONCE]))
    return Places(
        repositories={one.id: one for one in found},
        targets={
            one.id: store.Target(
                one.id, one.uuid, one.name, together(one.labels, one.agent_labels), one.execution_target
            )
            for one in found
        },
        agents={one.agent_machine_id: one.agent_status for one in found if one.agent_status is not None},
    )


@frozen
class RowFacts:
    """Everything that is needed to judge some rows."""

    now: datetime
    paused: bool
    in_blackout: InBlackout
    schedules: Mapping[int, Schedule]
    repositories: Mapping[int, Repository]
    targets: Mapping[int, store.Target]
    agents: Mapping[int, str]
    earlier: Mapping[tuple[int, int], ScheduleRun]
    mirrored: Collection[int]
    dumped: Collection[int]
    """Repositories with databases to dump."""
    reachable: Collection[int]
    """Repositories whose ssh machine has just answered."""
    are_targets: bool = False
    """Whether the rows were made from the targets of their schedules in this transaction."""
    prepared: dict[Any, Any] = field(default_factory=dict)
    """Chains shared by many rows; see `chains`."""


@frozen
class SharedFacts:
    """What the transaction has already read. No run of these schedules is open."""

    paused: bool
    in_blackout: InBlackout
    schedules: Mapping[int, Schedule]
    places: Places | None = None
    """The repositories of all rows, if the rows were made from them."""


def gather(
    session: Session,
    rows: Sequence[ScheduleRun],
    now: datetime,
    reachable: Collection[int] = (),
    known: SharedFacts | None = None,
) -> RowFacts:
    repository_ids = sorted({row.repository_id for row in rows})
    place = known.places if known is not None and known.places is not None else places(session, repository_ids)
    earlier = {} if known else store.unended_beside(session, [row.id for row in rows])
    known = known or _read_shared_facts(session, rows)
    return RowFacts(
        now=now,
        paused=known.paused,
        in_blackout=known.in_blackout,
        schedules=known.schedules,
        repositories=place.repositories,
        targets=place.targets,
        agents=place.agents,
        earlier=earlier,
        mirrored=frozenset(_MIRRORED.run(session, repository_ids).scalars()),
        dumped=_with_databases(session, known.schedules.values(), repository_ids),
        reachable=reachable,
        are_targets=known.places is not None,
    )


def _read_shared_facts(session: Session, rows: Sequence[ScheduleRun]) -> SharedFacts:
    chosen = objects(_SCHEDULES.run(session, sorted({row.schedule_id for row in rows})))
    in_blackout = blackout_check(store.blackouts_as_values(session))
    return SharedFacts(store.is_paused(session), in_blackout, {row.id: row for row in chosen})


def _with_databases(session: Session, schedules: Iterable[Schedule], repository_ids: Sequence[int]) -> Collection[int]:
    """Return the repositories whose databases can be dumped. Nothing is queried unless a schedule has such a step."""
    # An unreadable step concerns only its own run; what is gathered here is for all of them.
    steps = (step for schedule in schedules if isinstance(schedule.steps, list) for step in schedule.steps)
    if not any(isinstance(step, dict) and step.get("kind") == "dump" for step in steps):
        return ()
    found = select(_databases.c.repository_id).where(_databases.c.repository_id.in_(repository_ids)).distinct()
    return frozenset(session.scalars(found))
