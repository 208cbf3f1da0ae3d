"""All kinds of jobs that this agent can run: those shared by every host, and its own."""

from collections.abc import Mapping

from backup_agent.jobs import dump_databases, restore_receive, run_script
from backup_engine.frozen import frozen
from backup_jobs.bodies import BODIES, Body
from backup_protocol import JobKind


@frozen
class Kind:
    body: Body
    needs_engine: bool = True


KINDS: Mapping[JobKind, Kind] = {
    **{kind: Kind(body) for kind, body in BODIES.items()},
    JobKind.RESTORE_RECEIVE: Kind(Body(restore_receive.run, restore_receive.interrupted), needs_engine=False),
    JobKind.BACKUP_DUMP: Kind(Body(dump_databases.run, dump_databases.interrupted)),
    JobKind.SCRIPT_RUN: Kind(Body(run_script.run, run_script.interrupted), needs_engine=False),
}
