"""`repository.break_lock`: remove stale locks."""

from backup_engine.requests import BreakLockRequest
from backup_jobs.endings import Completed, Ended
from backup_jobs.work import Work, ended_without_success
from backup_protocol import Block


def run(work: Work[Block]) -> Ended:
    step = work.host.step("break-lock", work.engine.break_lock(work.location, BreakLockRequest()))
    return ended_without_success(work.host, step) or Completed(step.exit.code)
