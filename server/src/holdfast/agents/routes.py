"""Routes for managing agents, for administrators."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from backup_protocol import AgentStatus
from holdfast.access.caller import AdminLoginOnly, AdminOnly, Caller, admin_only
from holdfast.access.idempotency import Once
from holdfast.access.roles import Role
from holdfast.agents import diagnosis, enrollment, errors, machine_list, store
from holdfast.agents.backup_starter import BACKUP_STARTER, BackupStarter
from holdfast.agents.caller import TheGateway
from holdfast.agents.gateway import GATEWAY, Gateway
from holdfast.agents.models import AgentMachine
from holdfast.agents.present import agent_item, job_items, token_item
from holdfast.agents.schemas import (
    AgentChange,
    AgentDiagnosis,
    AgentItem,
    AgentJobItem,
    AgentJobs,
    Agents,
    CreatedEnrollmentToken,
    EnrollmentTokenItem,
    EnrollmentTokens,
    FindingVerdict,
    Machines,
    NewBackupJob,
    NewEnrollmentToken,
)
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, Writing
from holdfast.api.router import router
from holdfast.kit import clock
from holdfast.kit import cursor as paging
from holdfast.kit.fields import PageLimit, PlainText, RowId
from holdfast.operations import pages
from holdfast.operations.models import Operation
from holdfast.operations.routes import Cursor
from holdfast.operations.schemas import StartAnswer
from holdfast.operations.visible_operations import require
from holdfast.repositories import jobs as repository_jobs
from holdfast.repositories.job_routes import Find, JobRoutes, starts
from holdfast.repositories.location import AGENT_ENGINES, AgentEngines
from holdfast.runner.engine_requests import asks_engine

routes = router("/api/managed-machines", "managed machines")

AgentWord = Annotated[str, PlainText(1, 64), Path(description="The agent's id or public `agent_id`.")]


TheAgentEngines = Annotated[AgentEngines, Depends(AGENT_ENGINES)]
WORST_FIRST: tuple[FindingVerdict, ...] = ("failed", "warning")
TheBackupStarter = Annotated[BackupStarter, Depends(BACKUP_STARTER)]


@routes.get("/", summary="List all machines, with an agent or over ssh")
def list_machines(caller: AdminOnly, session: Reading, gateway: TheGateway) -> Machines:
    del caller
    return Machines(machines=machine_list.rows(session, gateway.fleet))


# --- enrollment tokens ----------------------------------------------------------------------------------------------


@routes.get("/enrollment-tokens", summary="List enrollment tokens, newest first")
def list_tokens(caller: AdminOnly, session: Reading) -> EnrollmentTokens:
    del caller
    return EnrollmentTokens(tokens=[token_item(token, clock.now()) for token in store.tokens(session)])


@routes.post("/enrollment-tokens", summary="Create a one-time enrollment token", status_code=201)
def create_token(caller: AdminLoginOnly, wanted: NewEnrollmentToken, session: Writing) -> CreatedEnrollmentToken:
    """The token's value is shown only in this response."""
    token, value = enrollment.create_token(session, caller, wanted)
    return CreatedEnrollmentToken.from_row(token, token=value)


@routes.post(
    "/enrollment-tokens/{token_id}/revoke", summary="Revoke an enrollment token", responses=documented(404, 409)
)
def revoke_token(caller: AdminOnly, token_id: RowId, session: Writing) -> EnrollmentTokenItem:
    return token_item(enrollment.revoke_token(session, caller, token_id), clock.now())


# --- agents ---------------------------------------------------------------------------------------------------------


@routes.get("/agents", summary="All agents")
def list_agents(caller: AdminOnly, session: Reading, gateway: TheGateway) -> Agents:
    del caller
    return Agents(agents=[agent_item(agent, gateway.fleet) for agent in store.every(session)])


@routes.get("/agents/{agent}", summary="One agent", responses=documented(404))
def read_agent(caller: AdminOnly, agent: AgentWord, session: Reading, gateway: TheGateway) -> AgentItem:
    del caller
    return agent_item(store.require(session, agent), gateway.fleet)


@routes.put("/agents/{agent}", summary="Update an agent's name or labels", responses=documented(404))
def change_agent(
    caller: AdminOnly, agent: AgentWord, wanted: AgentChange, session: Writing, gateway: TheGateway
) -> AgentItem:
    found = store.require(session, agent)
    if wanted.name is not None:
        found.name = wanted.name
    if wanted.labels is not None:
        found.labels = wanted.labels
    enrollment.changed(session, gateway, caller, found)
    return agent_item(found, gateway.fleet)


@routes.delete("/agents/{agent}", summary="Remove an agent", status_code=204, responses=documented(404))
def delete_agent(caller: AdminOnly, agent: AgentWord, session: Writing, gateway: TheGateway) -> Response:
    """Its unfinished jobs end as failed."""
    enrollment.delete(session, gateway, caller, store.require(session, agent))
    return Response(status_code=204)


@routes.post("/agents/{agent}/disable", summary="Disable an agent", responses=documented(404, 409))
def disable_agent(caller: AdminOnly, agent: AgentWord, session: Writing, gateway: TheGateway) -> AgentItem:
    """Its unfinished jobs end as failed."""
    return _changed(session, gateway, caller, agent, AgentStatus.DISABLED)


@routes.post("/agents/{agent}/enable", summary="Enable a disabled agent", responses=documented(404, 409))
def enable_agent(caller: AdminOnly, agent: AgentWord, session: Writing, gateway: TheGateway) -> AgentItem:
    """The agent stays offline until its next heartbeat."""
    return _changed(session, gateway, caller, agent, AgentStatus.OFFLINE)


@routes.post("/agents/{agent}/revoke", summary="Revoke an agent", responses=documented(404, 409))
def revoke_agent(caller: AdminOnly, agent: AgentWord, session: Writing, gateway: TheGateway) -> AgentItem:
    """Its unfinished jobs end as failed; its credential is never accepted again."""
    return _changed(session, gateway, caller, agent, AgentStatus.REVOKED)


@routes.post("/agents/{agent}/diagnose", summary="Diagnose an agent", responses=documented(404))
@asks_engine
def diagnose_agent(
    caller: AdminOnly, agent: AgentWord, database: TheDatabase, gateway: TheGateway, agents: TheAgentEngines
) -> AgentDiagnosis:
    """Uses what the agent has reported and one query that it must answer. Nothing is changed."""
    del caller
    with database.reading() as session:
        found = store.require(session, agent)
    told = list(diagnosis.findings(diagnosis.AgentFacts(found, gateway.fleet.skew(found)), agents))
    worst = next((verdict for verdict in WORST_FIRST if any(one.verdict == verdict for one in told)), "ok")
    return AgentDiagnosis(verdict=worst, findings=told)


def _changed(session: Session, gateway: Gateway, caller: AdminOnly, word: str, status: AgentStatus) -> AgentItem:
    agent: AgentMachine = store.require(session, word)
    return agent_item(enrollment.change_status(session, gateway, caller, agent, status), gateway.fleet)


# --- jobs -----------------------------------------------------------------------------------------------------------


@starts(routes, "/agents/{agent}/backup-jobs", "Back up an agent's repository")
def start_backup(
    caller: AdminLoginOnly,
    agent: AgentWord,
    wanted: NewBackupJob,
    session: Writing,
    starter: TheBackupStarter,
    once: Once,
) -> Any:
    def begin() -> StartAnswer:
        found = store.require(session, agent)
        return repository_jobs.started(starter(session, caller, found.id, wanted), "backup")

    return once(session, begin)


@routes.get("/agent-jobs", summary="List agent jobs, newest first", responses=documented(404))
def list_jobs(
    caller: AdminOnly,
    session: Reading,
    gateway: TheGateway,
    agent: Annotated[str | None, Query(max_length=64, description="Only jobs of this agent.")] = None,
    limit: PageLimit = 100,
    cursor: Cursor = None,
) -> AgentJobs:
    del caller
    statement = select(Operation).where(Operation.executor == "agent")
    if agent is not None:
        statement = statement.where(Operation.machine_id == store.require(session, agent).id)
    if cursor is not None:
        statement = statement.where(Operation.id < int(paging.decode(cursor, int)[0]))
    found = list(session.scalars(statement.order_by(Operation.id.desc()).limit(limit + 1)))
    following = paging.encode(found[limit - 1].id) if len(found) > limit else None
    return AgentJobs(jobs=job_items(session, gateway.payloads, found[:limit]), next_cursor=following)


async def agent_job(job_id: RowId) -> Find:
    """A finder for agent jobs.

    Only admins read jobs, and they see all of them; cancelling one requires a role on its repository.
    """

    def found(session: Session, caller: Caller, least: Role) -> Operation:
        if least != Role.VIEWER:
            require(session, caller, job_id, least)
        operation = pages.get(session, job_id)
        if operation is None or operation.executor != "agent":
            raise errors.unknown_job(job_id)
        return operation

    return found


def _statuses(
    session: Session, gateway: Gateway, operations: Sequence[Operation], *, with_logs: bool
) -> list[AgentJobItem]:
    del with_logs
    return job_items(session, gateway.payloads, operations)


JOBS = JobRoutes(routes=routes, present=_statuses, readers=admin_only, find=agent_job, needs=GATEWAY)
JOBS.status("/agent-jobs/{job_id}", AgentJobItem, name="read_job", summary="Get an agent job")
JOBS.log("/agent-jobs/{job_id}/logs", name="read_job_logs", summary="Get log lines of a job")
JOBS.cancel(
    "/agent-jobs/{job_id}/cancel",
    name="cancel_job",
    summary="Cancel a job",
    description="Requires the role operator on the repository. A job that no agent has taken is canceled immediately.",
)
