"""`repository.break_lock`: remove locks that nobody holds any more."""

from backup_agent.job_work import Completed, Ended, Work, ended_without_success
from backup_engine.requests import BreakLockRequest


def run(work: Work) -> Ended:
    step = work.steps.run("break-lock", work.engine.break_lock(work.location, BreakLockRequest()))
    return ended_without_success(step) or Completed(step.exit.code)
