"""The job `backup.dump`: archive database dumps if this machine allows the service to dump them."""

from dataclasses import field

from backup_agent.dump_rule import REFUSED, DumpRule, Refused
from backup_engine.frozen import frozen
from backup_jobs import dump
from backup_jobs.backup import STEP
from backup_jobs.endings import Ended, Failed
from backup_jobs.host import Interrupted


@frozen
class AgentDumpWork(dump.DumpWork):
    rule: DumpRule = field(default_factory=DumpRule)


def run(work: AgentDumpWork) -> Ended:
    if not work.host.has_begun(STEP):  # a dump that has begun was allowed, and is followed to its end
        try:
            work.rule.require(work.block)
        except Refused as refusal:
            return Failed(REFUSED, str(refusal))
    return dump.run(work)


def interrupted(work: AgentDumpWork, interruption: Interrupted) -> Ended:
    return dump.interrupted(work, interruption)
