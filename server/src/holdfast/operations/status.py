"""The states of an operation and the only transitions between them."""

from enum import StrEnum


class Status(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    COMPLETED_WITH_WARNINGS = "completed_with_warnings"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


SUCCEEDED = frozenset({Status.COMPLETED, Status.COMPLETED_WITH_WARNINGS})
ACTIVE = frozenset({Status.PENDING, Status.RUNNING})
TERMINAL = frozenset(Status) - ACTIVE

TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.PENDING: frozenset({Status.RUNNING, Status.CANCELLED, Status.SKIPPED, Status.FAILED}),
    Status.RUNNING: frozenset(
        {
            Status.PENDING,  # it never started, or is retried
            Status.COMPLETED,
            Status.COMPLETED_WITH_WARNINGS,
            Status.FAILED,
            Status.CANCELLED,
            Status.SKIPPED,  # it found nothing to do
        }
    ),
    **{status: frozenset() for status in TERMINAL},
}


class Needs(StrEnum):
    """How a dependency must end before an operation may start."""

    SUCCEEDED = "succeeded"
    RAN = "ran"
    """It started and ended, with any result."""
    OVER = "over"
    """It ended or was skipped."""


class Trigger(StrEnum):
    MANUAL = "manual"
    SCHEDULE = "schedule"
    PLAN = "plan"
    IMPORT = "import"
    INITIAL = "initial"
    FOLLOWUP = "followup"
    RECONCILE = "reconcile"
    RETRY = "retry"
    API = "api"


PRIORITY = {
    Trigger.MANUAL: 0,
    Trigger.API: 0,
    Trigger.RETRY: 0,
    Trigger.SCHEDULE: 5,
    Trigger.PLAN: 5,
    Trigger.IMPORT: 10,
    Trigger.INITIAL: 10,
    Trigger.FOLLOWUP: 10,
    Trigger.RECONCILE: 20,
}

HELD_BY_PAUSE = frozenset({Trigger.FOLLOWUP, Trigger.RECONCILE})

AGEING_SECONDS_PER_POINT = 60
"""A waiting operation gains one point of priority per minute, so that nothing starves."""


class LockMode(StrEnum):
    EXCLUSIVE = "exclusive"
    SHARED = "shared"
