"""All kinds of alarms. To add one, create a file with a `KIND` and list it here."""

from holdfast.alarms.kind import AlarmKind
from holdfast.alarms.kinds import (
    agent_silent,
    clock_jumped,
    clock_skew,
    damaged,
    key_not_exported,
    notifications_failing,
    overdue,
    schedule_missing,
    service_not_started,
    storage_full,
    tick_late,
)

KINDS: tuple[AlarmKind, ...] = (
    overdue.BACKUP,
    overdue.CHECK,
    overdue.RESTORE_CHECK,
    overdue.MIRROR,
    schedule_missing.KIND,
    agent_silent.KIND,
    storage_full.KIND,
    key_not_exported.KIND,
    clock_skew.KIND,
    clock_jumped.KIND,
    damaged.KIND,
    tick_late.KIND,
    notifications_failing.KIND,
    service_not_started.KIND,
)
BY_NAME = {kind.name: kind for kind in KINDS}
