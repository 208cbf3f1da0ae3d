"""The job `script.run`: run a script of the service if this machine allows it."""

from collections.abc import Mapping
from dataclasses import field

from backup_agent.script_rule import REFUSED, Refused, ScriptRule
from backup_engine.frozen import frozen
from backup_jobs import script
from backup_jobs.endings import Ended, Failed
from backup_jobs.host import Interrupted
from backup_jobs.work import Work
from backup_protocol import ScriptBlock


@frozen
class ScriptWork(Work[ScriptBlock]):
    rule: ScriptRule = field(default_factory=ScriptRule)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def run(work: ScriptWork) -> Ended:
    try:
        installed = work.rule.require(work.block)
    except Refused as refusal:
        return Failed(REFUSED, str(refusal))
    return script.execute(work.host, work.block, script.command_of(work.block, work.secrets, installed=installed))


def interrupted(work: ScriptWork, interruption: Interrupted) -> Ended:
    del work, interruption
    return Failed(script.INTERRUPTED, script.INTERRUPTED_SENTENCE)
