"""Routes for agents. They accept only agents' credentials, which no other route accepts."""

import time
from typing import Annotated

from fastapi import Body, Depends, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from backup_protocol import DEFAULT_POLL_LIMIT, LONGEST_POLL_WAIT, MOST_LOG_ENTRIES, MOST_POLL_LIMIT, JobStatus
from holdfast.access.caller import address_of, public
from holdfast.agents import enrollment
from holdfast.agents.caller import TheGateway, ThisAgent, admitted, refusal_log
from holdfast.agents.credentials import KnownAgent
from holdfast.agents.fleet import Heartbeat
from holdfast.agents.gateway import Gateway
from holdfast.agents.jobs import redacted
from holdfast.agents.schemas import (
    Acknowledgement,
    CallAnswer,
    CanceledBody,
    Claimed,
    CompleteBody,
    FailBody,
    HeartbeatAnswer,
    HeartbeatBody,
    Job,
    LogBatchBody,
    LogEntryBody,
    LogsKept,
    OfferedCall,
    PartAnswer,
    PartBody,
    Polled,
    ProgressBody,
    RegisterBody,
    Registered,
    StartBody,
    Unregistered,
)
from holdfast.agents.work_cache import View
from holdfast.api.answers import documented
from holdfast.api.router import router
from holdfast.errors import Forbidden, TooLarge, Unauthenticated
from holdfast.kit import clock
from holdfast.kit.fields import RowId

routes = router("/api/agents", "agents")

JOB = documented(404, 409)
CALL = documented(404)
FRAMES = {
    "requestBody": {
        "description": "Sequence of frames: a letter, an eight-byte length, content. The last one reports how the "
        "engine ended.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "required": True,
    }
}


@routes.post("/register", summary="Register an agent with a one-time token", dependencies=[Depends(public)])
def register(request: Request, body: RegisterBody, gateway: TheGateway) -> Registered:
    """Of simultaneous attempts with one token, exactly one succeeds."""
    try:
        return enrollment.register(gateway, body, address_of(request))
    except Unauthenticated as error:
        refusal_log.add(address_of(request), error)
        raise


@routes.post("/unregister", summary="Unregister an agent")
def unregister(agent: ThisAgent, gateway: TheGateway) -> Unregistered:
    """Disables the agent; an administrator may enable it again."""
    return Unregistered(agent_id=agent.agent_id, status=enrollment.unregister(gateway, agent))


@routes.post("/heartbeat", summary="Send a heartbeat with the agent's capabilities")
async def heartbeat(agent: ThisAgent, body: HeartbeatBody, gateway: TheGateway) -> HeartbeatAnswer:
    """`cancel_job_ids` names jobs of this agent that should stop."""
    if body.agent_id != agent.agent_id:
        raise Forbidden("agents.foreign_agent_id", "The `agent_id` does not match the credential.")
    now = clock.now()
    if not gateway.fleet.note_unchanged(agent, body, now):
        await gateway.heartbeat_batches.process(Heartbeat(agent, body, now))
    view = await gateway.work_cache.now()
    gateway.missing_jobs.heartbeat(view.held_by(agent.id), body.running_job_ids)
    to_stop = view.to_stop(agent.id)
    strange = [job for job in body.running_job_ids if job not in view.running]
    if strange:
        to_stop += await run_in_threadpool(enrollment.ended_jobs, gateway.database, agent.id, strange)
    settings = gateway.settings
    return HeartbeatAnswer(
        server_time=now,
        poll_interval_seconds=settings.agent_poll_seconds,
        cancel_job_ids=sorted(set(to_stop)),
        heartbeat_interval_seconds=settings.agent_heartbeat_seconds,
    )


@routes.get("/jobs/poll", summary="Get jobs that this agent can start now")
async def poll(
    agent: ThisAgent,
    request: Request,
    gateway: TheGateway,
    limit: Annotated[int, Query(description="Maximum number of jobs, at most 10.")] = DEFAULT_POLL_LIMIT,
    wait: Annotated[float, Query(description="Seconds to wait for a job, at most 30.")] = 0.0,
) -> Polled:
    """Polling does not assign jobs: a job belongs to the agent only once claimed."""
    limit = max(1, min(limit, MOST_POLL_LIMIT))
    deadline = time.monotonic() + max(0.0, min(wait, LONGEST_POLL_WAIT))
    while True:
        view = await gateway.work_cache.now()
        jobs, calls = await _jobs(gateway, agent, limit, view), await _calls(gateway, agent)
        remaining = deadline - time.monotonic()
        if jobs or calls or remaining <= 0 or gateway.is_stopping:
            return Polled(jobs=jobs, calls=calls)
        await gateway.work_cache.wait_for_work(
            agent.id, remaining, view, lambda: gateway.is_stopping or gateway.calls.wait_for(agent.id)
        )
        await admitted(gateway, request)


async def _jobs(gateway: Gateway, agent: KnownAgent, limit: int, view: View) -> list[Job]:
    if agent.id not in view.waiting:
        return []
    return await run_in_threadpool(gateway.jobs.poll, agent, limit)


async def _calls(gateway: Gateway, agent: KnownAgent) -> list[OfferedCall]:
    if not gateway.calls.wait_for(agent.id):
        return []
    offers = await run_in_threadpool(gateway.offered_calls, agent)
    return [OfferedCall(id=offer.id, payload=offer.payload) for offer in offers]


@routes.post(
    "/calls/{call_id}/output", summary="Send the engine's output for a call", responses=CALL, openapi_extra=FRAMES
)
async def call_output(
    agent: ThisAgent, call_id: Annotated[str, Path(max_length=60)], request: Request, gateway: TheGateway
) -> CallAnswer:
    """A stream of any length, sent as the engine produces it. It ends early if the caller stops waiting."""
    await gateway.calls.connect(agent, call_id, request.stream())
    return CallAnswer(id=call_id)


@routes.post("/calls/{call_id}/confirm", summary="Check that a caller still waits for a call", responses=CALL)
def confirm_call(agent: ThisAgent, call_id: Annotated[str, Path(max_length=60)], gateway: TheGateway) -> CallAnswer:
    """Agents ask this before an engine changes a repository. Once the caller has given up, the answer stays 404."""
    gateway.calls.confirm(agent, call_id)
    return CallAnswer(id=call_id)


@routes.get("/jobs/{job_id}", summary="Get the status of a job of this agent", responses=JOB)
def job_status(agent: ThisAgent, job_id: RowId, gateway: TheGateway) -> Acknowledgement:
    return gateway.jobs.status(agent, job_id)


@routes.post("/jobs/{job_id}/claim", summary="Take a job", responses=JOB)
def claim(agent: ThisAgent, job_id: RowId, gateway: TheGateway) -> Claimed:
    """A repeated claim by the same agent gives the same answer."""
    return gateway.jobs.claim(agent, job_id)


@routes.post("/jobs/{job_id}/start", summary="Report that a job is running", responses=JOB)
def start(agent: ThisAgent, job_id: RowId, gateway: TheGateway, body: StartBody | None = None) -> Acknowledgement:
    gateway.missing_jobs.report(job_id)
    return gateway.jobs.start(agent, job_id, body.started_at if body else None)


@routes.post("/jobs/{job_id}/progress", summary="Report a job's progress", responses=JOB)
async def progress(agent: ThisAgent, job_id: RowId, body: ProgressBody, gateway: TheGateway) -> Acknowledgement:
    """Kept in memory and stored at most once a second."""
    values = body.given()
    running = (await gateway.work_cache.now()).running.get(job_id)
    if running is None or running.agent_machine_id != agent.id:
        return await run_in_threadpool(gateway.jobs.report_progress, agent, job_id, values)
    redactor = gateway.redactor(job_id) or await run_in_threadpool(gateway.remember_redactor, job_id)
    gateway.missing_jobs.report(job_id)
    gateway.progress.put(job_id, running.attempt, redacted(values, redactor))
    status = JobStatus.RUNNING if running.has_started else JobStatus.CLAIMED
    return Acknowledgement(
        id=job_id,
        status=JobStatus.CANCEL_REQUESTED if running.cancel_requested else status,
        cancel_requested=running.cancel_requested,
    )


@routes.post("/jobs/{job_id}/logs", summary="Append log lines to a job", responses=JOB)
def logs(
    agent: ThisAgent,
    job_id: RowId,
    body: Annotated[LogEntryBody | LogBatchBody, Body(description="One line or a batch of lines.")],
    gateway: TheGateway,
) -> LogsKept:
    """Lines whose `sequence` is already stored are skipped."""
    entries = body.entries if isinstance(body, LogBatchBody) else [body]
    if len(entries) > MOST_LOG_ENTRIES:
        raise TooLarge(
            "agents.too_many_lines", f"At most {MOST_LOG_ENTRIES} log lines per request.", maximum=MOST_LOG_ENTRIES
        )
    kept = gateway.jobs.keep_logs(agent, job_id, entries)
    gateway.missing_jobs.report(job_id)
    return kept


@routes.post("/jobs/{job_id}/parts", summary="Add a part of a long result", responses=JOB)
def parts(agent: ThisAgent, job_id: RowId, body: PartBody, gateway: TheGateway) -> PartAnswer:
    """Sending a part again changes nothing. `result.parts` in the completion report is the number of parts."""
    gateway.jobs.keep_part(agent, job_id, body)
    gateway.missing_jobs.report(job_id)
    return PartAnswer(id=job_id, part=body.part)


@routes.post("/jobs/{job_id}/complete", summary="Report that a job succeeded", responses=JOB)
def complete(agent: ThisAgent, job_id: RowId, body: CompleteBody, gateway: TheGateway) -> Acknowledgement:
    """A `return_code` other than 0 means that it completed with warnings. If the job has already ended, nothing
    changes.
    """
    return gateway.jobs.end(agent, job_id, body)


@routes.post("/jobs/{job_id}/fail", summary="Report that a job has failed", responses=JOB)
def fail(agent: ThisAgent, job_id: RowId, body: FailBody, gateway: TheGateway) -> Acknowledgement:
    return gateway.jobs.end(agent, job_id, body)


@routes.post("/jobs/{job_id}/canceled", summary="Report that a job was cancelled", responses=JOB)
def canceled(agent: ThisAgent, job_id: RowId, gateway: TheGateway, body: CanceledBody | None = None) -> Acknowledgement:
    """Send this only after the job's process has ended."""
    return gateway.jobs.end(agent, job_id, body or CanceledBody(), must_be_asked_for=True)


@routes.post("/jobs/{job_id}/cancel", summary="Alias of `/canceled`", responses=JOB)
def cancel(agent: ThisAgent, job_id: RowId, gateway: TheGateway, body: CanceledBody | None = None) -> Acknowledgement:
    """For agents that name this report like the others: `complete`, `fail`, `cancel`."""
    return canceled(agent, job_id, gateway, body)
