"""The errors of agents, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "agents.body_refused",
        ("operation",),
        "A proxy in front of the service refused a large request body.",
        "Raise its limit; in nginx, `client_max_body_size 0` and `proxy_request_buffering off`.",
        "Repositories and archives are untouched.",
    ),
    Fact(
        "agents.call_over",
        (404,),
        "The caller no longer waits for this engine call.",
        "Nothing; the agent drops its answer.",
    ),
    Fact("agents.cancel_not_requested", (409,), "No cancel of this job was requested.", "Finish the job."),
    Fact(
        "agents.cancel_unconfirmed",
        ("operation",),
        "The agent did not confirm that the engine has stopped.",
        "Look at the machine; the engine may still be running.",
        "A result that arrives later is kept in the log.",
    ),
    Fact("agents.credential_invalid", (401,), "The agent's credential is not valid.", "Enrol the machine again."),
    Fact(
        "agents.credential_missing",
        (401,),
        "The route takes the credential of an agent.",
        "Send the agent's credential.",
    ),
    Fact(
        "agents.enrollment_invalid",
        (401,),
        "The enrollment token is unknown, used, expired or revoked.",
        "Create a new enrollment token.",
    ),
    Fact("agents.enrollment_token_not_found", (404,), "There is no such enrollment token.", "List the tokens."),
    Fact(
        "agents.enrollment_token_used", (409,), "The enrollment token was used.", "Revoke the agent that it enrolled."
    ),
    Fact(
        "agents.expired",
        ("operation",),
        "No agent took the job before it expired.",
        "Start the agent, then start the operation again.",
        "Nothing was started.",
    ),
    Fact(
        "agents.foreign_agent_id",
        (403,),
        "`agent_id` does not match the credential.",
        "Use the agent's own credential.",
    ),
    Fact("agents.is_revoked", (409,), "The agent was revoked, and stays revoked.", "Enrol the machine again."),
    Fact("agents.job_finished", (409,), "The job has ended and cannot be claimed.", "Ask for the next job."),
    Fact("agents.job_not_found", (404,), "There is no such job.", "Ask for the current jobs."),
    Fact("agents.log_gaps", (409,), "The log lines are numbered with too many gaps.", "Send the missing lines first."),
    Fact("agents.no_such_wheel", (404,), "The service does not hold this wheel.", "Read the index of wheels."),
    Fact("agents.not_claimed", (409,), "The job has not been claimed.", "Claim it first."),
    Fact("agents.not_found", (404,), "There is no such agent.", "List the agents."),
    Fact("agents.not_running", (409,), "The job is not running.", "Claim it first."),
    Fact("agents.not_yet", (409,), "The job may not start yet.", "Ask again; the operation shows what it waits for."),
    Fact("agents.offline", (503,), "The agent is offline.", "Try again when it is back."),
    Fact(
        "agents.other_repository",
        (422,),
        "The repository does not belong to this agent.",
        "Choose a repository of the agent.",
    ),
    Fact(
        "agents.parts_missing",
        (409,),
        "Parts of the result have not arrived.",
        "Send the missing parts, then the result.",
    ),
    Fact(
        "agents.parts_too_large",
        (413,),
        "The parts of the job's result are too large together.",
        "Look at the repository with the engine itself.",
        "Nothing of this result is used.",
    ),
    Fact(
        "agents.revoked",
        (
            403,
            409,
            "operation",
        ),
        "An administrator has revoked the agent.",
        "Enrol the machine again.",
        "Its repositories and archives are untouched.",
    ),
    Fact("agents.too_many_lines", (413,), "Too many log lines in one request.", "Send fewer lines at once."),
    Fact("agents.too_many_parts", (413,), "The result has too many parts.", "Send larger parts."),
    Fact("agents.too_old", (422,), "The agent is too old for this.", "Update the agent."),
    Fact(
        "repository.agent_unable",
        (422,),
        "The agent has not reported the capability that this needs.",
        "Update the agent; or create the repository there and import it.",
    ),
)
