"""Creates, changes and deletes schedules: which ones are valid, and who may do it."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from holdfast.access import audit
from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.errors import ChangedMeanwhile, Conflict, Unprocessable
from holdfast.kit import clock, zones
from holdfast.operations import outbox
from holdfast.operations.kinds import Registry
from holdfast.repositories import errors as repository_errors
from holdfast.repositories import store as repositories
from holdfast.schedules import errors, shorthands, store, visible_schedules
from holdfast.schedules.body_schemas import CalendarFields, NewSchedule, ScheduleChange
from holdfast.schedules.calendar import cron, plan, preview
from holdfast.schedules.models import Mode, Outcome, Reason, Schedule
from holdfast.schedules.running import final_states
from holdfast.schedules.running.plans import calendar_of, windows_of
from holdfast.schedules.running.run_decisions import End
from holdfast.schedules.running.steps import AFTER, SCRIPT, STEPS, order, place_of
from holdfast.schedules.step_schemas import Step, Targets, WindowShape

LEAST_MINUTES = 5
DEFAULT_SPREAD = 30
DEFAULT_SUCCESS_INTERVAL = 24 * 60
DEFAULT_CHECK_INTERVAL = 15
CALENDAR_COLUMNS = (
    "schedule_mode",
    "cron_expression",
    "timezone",
    "interval_minutes",
    "starts_at",
    "availability_check_interval_minutes",
    "min_success_interval_minutes",
)
PLAIN_COLUMNS = (
    "name",
    "description",
    "enabled",
    *CALENDAR_COLUMNS,
    "exclude_repository_ids",
    "on_window_close",
    "catch_up",
    "start_within_minutes",
    "overlap",
    "spread_minutes",
    "retries",
    "archive_name_template",
)
NULLABLE = {
    "description",
    "cron_expression",
    "interval_minutes",
    "starts_at",
    "availability_check_interval_minutes",
    "min_success_interval_minutes",
    "archive_name_template",
}


class Editor:
    """Changes schedules in the transaction of a request."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def draft(self, session: Session, caller: Caller, wanted: NewSchedule, *, to_keep: bool = False) -> Schedule:
        """Return the requested schedule without storing it. Raise Unprocessable if it is not valid.

        With `to_keep`, its steps are in their stored form: allowed for this caller, with their secrets encrypted.
        """
        now = clock.now()
        values: dict[str, Any] = {name: getattr(wanted, name) for name in PLAIN_COLUMNS}
        flat = shorthands.given(wanted)
        steps = shorthands.with_shorthands(_given_steps(wanted.steps) or [{"kind": "backup"}], flat)
        schedule = Schedule(
            **values,
            uuid=wanted.uuid or uuid.uuid4().hex,
            targets=_targets(session, caller, wanted, flat),
            steps=self._stored_steps(session, caller, steps, ()) if to_keep else steps,
            windows=_stored_windows(wanted.windows),
            revision=1,
            created_by=caller.username,
            created_at=now,
            updated_at=now,
        )
        _add_defaults(schedule, spread_given=wanted.spread_minutes is not None)
        return schedule

    def create(self, session: Session, caller: Caller, wanted: NewSchedule) -> Schedule:
        schedule = self.draft(session, caller, wanted, to_keep=True)
        visible_schedules.require_on_new_targets(session, caller, schedule)
        self.check(session, schedule)
        if wanted.uuid is not None and store.has_uuid(session, wanted.uuid):
            raise Conflict(
                "schedules.uuid_taken", "A schedule with this uuid already exists; omit it to get a new one."
            )
        return self._add(session, caller, schedule, "schedule.created")

    def duplicate(self, session: Session, caller: Caller, schedule: Schedule, name: str | None) -> Schedule:
        """Create a copy, which stays disabled until a person enables it."""
        now = clock.now()
        self._stored_steps(session, caller, schedule.steps, schedule.steps)  # the caller must be allowed to use them
        kept = {name: getattr(schedule, name) for name in (*PLAIN_COLUMNS, "targets", "steps", "windows")}
        copied = Schedule(
            **{**kept, "name": name or _name_of_copy(session, schedule.name), "enabled": False},
            uuid=uuid.uuid4().hex,
            revision=1,
            created_by=caller.username,
            created_at=now,
            updated_at=now,
        )
        return self._add(session, caller, copied, "schedule.created", copy_of=schedule.id)

    def _add(self, session: Session, caller: Caller, schedule: Schedule, action: str, **details: Any) -> Schedule:
        _require_unused_name(session, schedule.name)
        set_due_times(schedule, clock.now())
        try:
            store.insert(session, schedule)
        except IntegrityError as error:  # another request took the name at the same time
            raise errors.name_taken(schedule.name) from error
        _audit(session, caller, action, schedule, **details)
        tell_changed(session)
        return schedule

    def change(self, session: Session, caller: Caller, schedule: Schedule, wanted: ScheduleChange) -> Schedule:
        """Change a locked schedule. Waiting runs stay due, and are released with the new steps and targets."""
        if wanted.revision is not None and wanted.revision != schedule.revision:
            raise ChangedMeanwhile("schedules.revision_conflict", "schedule", wanted.revision, schedule.revision)
        flat = shorthands.given(wanted)
        changes = self._changes(session, caller, schedule, wanted, flat)
        was_enabled = schedule.enabled
        if "name" in changes:
            _require_unused_name(session, changes["name"])
        for name, value in changes.items():
            setattr(schedule, name, value)
        _add_defaults(schedule, spread_given=True)
        if {"targets", "exclude_repository_ids"} & changes.keys():
            visible_schedules.require_on_new_targets(session, caller, schedule)
            self._stored_steps(session, caller, schedule.steps, schedule.steps)  # steps are trusted with these targets
        self.check(session, schedule)
        now = clock.now()
        if set(CALENDAR_COLUMNS) & changes.keys() or schedule.enabled != was_enabled:
            set_due_times(schedule, now)
        if was_enabled and not schedule.enabled:
            end_waiting(session, schedule, Reason.DISABLED, now)
        _changed(session, caller, schedule, "schedule.changed", fields=sorted(changes))
        return schedule

    def check(self, session: Session, schedule: Schedule, *, needs_targets: bool = True) -> None:
        """Raise Unprocessable if the schedule cannot work."""
        check_calendar(schedule)
        if needs_targets and not has_targets(schedule):
            raise Unprocessable(
                "schedules.no_targets", "The schedule needs targets: repository_ids, labels, or all.", targets=None
            )
        chosen = [target.id for target in store.targets_of(session, schedule)]
        self._check_steps(session, schedule, chosen)
        if not preview.ever_in_window(calendar_of(schedule), windows_of(schedule), clock.now()):
            raise Unprocessable(
                "schedules.never_in_window",
                "No window opens between two consecutive due times, so nothing would ever run. Move the windows or the "
                "times.",
            )

    def _check_steps(self, session: Session, schedule: Schedule, chosen: Sequence[int]) -> None:
        kinds = [str(step["kind"]) for step in schedule.steps]
        for kind in kinds:
            if kind not in STEPS or STEPS[kind].operation not in self.registry.kinds:
                raise errors.step_unsupported(kind, f"This service cannot run {kind} steps. Remove the step.")
            if kinds.count(kind) > 1 and kind != SCRIPT:
                raise errors.step_unsupported(kind, f"A schedule has at most one {kind} step. Make a second schedule.")
        if "backup" not in kinds and any(place_of(step) == AFTER for step in schedule.steps):
            why = "A script after the backup needs a backup step. Add one, or run the script before."
            raise errors.step_unsupported(SCRIPT, why)
        found = [repository for number in chosen if (repository := repositories.get(session, number)) is not None]
        prune = next((step for step in schedule.steps if step["kind"] == "prune"), None)
        if prune is not None and not _keeps(prune):
            lacking = [each.id for each in found if not _keeps(each.retention or {})]
            if lacking or not found:  # repositories added later may have none either
                raise Unprocessable(
                    "schedules.no_retention",
                    "The prune step keeps nothing. Add keep_daily or another rule, or set the repositories' retention.",
                    repository_ids=list(lacking),
                )
        limited = any(window.get("upload_kib") for window in schedule.windows)
        unlimited = [repository.id for repository in found if repository.engine_version != 1]
        if limited and unlimited:
            why = "Engine 2 has no upload limit. Leave upload_kib out, or choose only repositories of engine 1."
            raise errors.step_unsupported("backup", why, repository_ids=unlimited)

    def _stored_steps(
        self,
        session: Session,
        caller: Caller,
        steps: Sequence[Mapping[str, Any]],
        previous: Sequence[Mapping[str, Any]],
    ) -> list[dict[str, Any]]:
        """Return the steps in execution order; kinds with step rules decide on the stored form of their steps."""
        kept: list[dict[str, Any]] = []
        for name in dict.fromkeys(str(step["kind"]) for step in steps):
            wanted, stored = _of_kind(steps, name), _of_kind(previous, name)
            kind = self.registry.kinds.get(STEPS[name].operation) if name in STEPS else None
            rules = kind.step_rules if kind is not None else None
            kept += rules.stored(session, caller, wanted, stored) if rules is not None else map(dict, wanted)
        return sorted(kept, key=_place)

    def _changes(
        self, session: Session, caller: Caller, schedule: Schedule, wanted: ScheduleChange, flat: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the columns whose values change."""
        given = wanted.model_fields_set
        values = {name: getattr(wanted, name) for name in PLAIN_COLUMNS if name in given}
        values = {name: value for name, value in values.items() if value is not None or name in NULLABLE}
        if wanted.targets is not None or any(name in flat for name in shorthands.TARGETS):
            values["targets"] = _targets(session, caller, wanted, flat)
        if wanted.steps is not None or flat.keys() - set(shorthands.TARGETS):
            steps = _given_steps(wanted.steps) if wanted.steps is not None else schedule.steps
            steps = shorthands.with_shorthands(steps or [{"kind": "backup"}], flat)
            values["steps"] = self._stored_steps(session, caller, steps, schedule.steps)
        if wanted.windows is not None:
            values["windows"] = _stored_windows(wanted.windows)
        return {name: value for name, value in values.items() if value != getattr(schedule, name)}


# Changes other than edits
# ---------------------------------------------------------------------------------------------


def set_enabled(session: Session, caller: Caller, schedule: Schedule, *, enabled: bool) -> Schedule:
    if schedule.enabled == enabled:
        return schedule
    now = clock.now()
    schedule.enabled = enabled
    set_due_times(schedule, now)
    if not enabled:
        end_waiting(session, schedule, Reason.DISABLED, now)
    return _changed(session, caller, schedule, "schedule.enabled" if enabled else "schedule.disabled")


def snooze(session: Session, caller: Caller, schedule: Schedule, until: datetime | None) -> Schedule:
    if until is not None and until <= clock.now():
        raise Unprocessable(
            "schedules.not_in_the_future",
            "A snooze must end in the future; null ends the current one.",
            until=until.isoformat(),
        )
    schedule.snoozed_until = until
    details = {"until": until.isoformat() if until else None}
    return _changed(session, caller, schedule, "schedule.snoozed", **details)


def delete(session: Session, caller: Caller, schedule: Schedule) -> None:
    """Delete a schedule: waiting runs are skipped, running ones continue, and the history stays."""
    now = clock.now()
    end_waiting(session, schedule, Reason.DELETED, now)
    schedule.deleted_at = now
    schedule.enabled = False
    schedule.next_due_at = None
    _changed(session, caller, schedule, "schedule.deleted")


def end_waiting(session: Session, schedule: Schedule, reason: Reason, now: datetime) -> None:
    """Skip the waiting runs of a disabled or deleted schedule. Running ones continue."""
    for row in store.waiting_of(session, schedule.id):
        final_states.end(session, schedule, row, End(Outcome.SKIPPED, reason), now)


def set_due_times(schedule: Schedule, now: datetime) -> None:
    """Compute the due times of the calendar from now on."""
    calendar = calendar_of(schedule)
    schedule.longest_gap_seconds = int(plan.longest_gap(calendar, now).total_seconds())
    schedule.tz_version = zones.VERSION
    if not schedule.enabled:
        schedule.next_due_at = None
    elif schedule.schedule_mode == Mode.AVAILABILITY:
        schedule.next_due_at = now  # the tick examines the evidence
    else:
        schedule.next_due_at = plan.next_due(calendar, now)


def has_targets(schedule: Schedule) -> bool:
    targets = schedule.targets or {}
    return bool(targets.get("repository_ids") or targets.get("labels") or targets.get("all"))


def check_calendar(schedule: Schedule) -> None:
    """Raise Unprocessable if the calendar is not valid."""
    if schedule.timezone not in zones.known():
        raise errors.unknown_timezone(schedule.timezone)
    if schedule.schedule_mode == Mode.CRON:
        check_cron(schedule.cron_expression or "")
        return
    field = "interval_minutes" if schedule.schedule_mode == Mode.INTERVAL else "min_success_interval_minutes"
    minutes = getattr(schedule, field)
    if minutes is None:
        raise Unprocessable(
            "schedules.field_missing",
            f"The mode {schedule.schedule_mode} needs {field}.",
            field=field,
            schedule_mode=schedule.schedule_mode,
        )
    if minutes < LEAST_MINUTES:
        raise errors.too_often(LEAST_MINUTES)


def check_cron(expression: str) -> None:
    try:
        pattern = cron.parse(expression)
    except cron.BadCron as error:
        wrong = "It needs five fields" if error.field == "expression" else f"Its field {error.field} cannot be read"
        raise Unprocessable(
            "schedules.bad_cron",
            f"The cron expression is not valid. {wrong}: minute, hour, day of month, month, day of week.",
            field=error.field,
            cron_expression=expression[:200],
        ) from error
    except cron.NeverFires as error:
        raise Unprocessable(
            "schedules.never_fires", "No day matches this cron expression.", cron_expression=expression[:200]
        ) from error
    if cron.least_gap(pattern) < cron.LEAST_GAP:
        raise errors.too_often(LEAST_MINUTES)


# Parts
# ------------------------------------------------------------------------------------------------------------------


def _targets(session: Session, caller: Caller, wanted: CalendarFields, flat: Mapping[str, Any]) -> dict[str, Any]:
    if wanted.targets is not None:
        return _without_doubles(wanted.targets)
    ids = list(flat.get("repository_ids", ()))
    if "repository_id" in flat:
        ids.append(flat["repository_id"])
    if "repository" in flat:
        repository = repositories.by_path(session, flat["repository"])
        if repository is None:
            raise repository_errors.not_registered(flat["repository"])
        ids.append(repositories.require(session, caller, repository.id, Role.VIEWER).id)
    return {"repository_ids": sorted(set(ids))}


def _without_doubles(targets: Targets) -> dict[str, Any]:
    stored = targets.stored()
    if "repository_ids" in stored:
        stored["repository_ids"] = sorted(set(stored["repository_ids"]))
    return stored


def _given_steps(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [step.model_dump(mode="json", exclude_none=True) for step in steps]


def _of_kind(steps: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [step for step in steps if str(step["kind"]) == kind]


def _place(step: Mapping[str, Any]) -> int:
    return order(step) if str(step["kind"]) in STEPS else -1


def _stored_windows(windows: Sequence[WindowShape]) -> list[dict[str, Any]]:
    return [window.stored() for window in windows]


def _add_defaults(schedule: Schedule, *, spread_given: bool) -> None:
    if schedule.schedule_mode == Mode.AVAILABILITY:
        schedule.min_success_interval_minutes = schedule.min_success_interval_minutes or DEFAULT_SUCCESS_INTERVAL
        schedule.availability_check_interval_minutes = (
            schedule.availability_check_interval_minutes or DEFAULT_CHECK_INTERVAL
        )
    if schedule.schedule_mode == Mode.INTERVAL and schedule.starts_at is None:
        schedule.starts_at = clock.now().replace(second=0, microsecond=0)
    if not spread_given:
        is_one = "repository_ids" in schedule.targets and len(schedule.targets["repository_ids"]) <= 1
        schedule.spread_minutes = 0 if is_one else DEFAULT_SPREAD


def _keeps(rules: Mapping[str, Any]) -> bool:
    return any(value for name, value in rules.items() if name.startswith("keep_"))


def _require_unused_name(session: Session, name: str) -> None:
    if store.by_name(session, name) is not None:
        raise errors.name_taken(name)


def _name_of_copy(session: Session, name: str) -> str:
    number, wanted = 1, f"Copy of {name}"[:190]
    while store.by_name(session, wanted if number == 1 else f"{wanted} ({number})") is not None:
        number += 1
    return wanted if number == 1 else f"{wanted} ({number})"


def _changed(session: Session, caller: Caller, schedule: Schedule, action: str, **details: Any) -> Schedule:
    schedule.revision += 1
    schedule.updated_at = clock.now()
    try:
        session.flush()
    except IntegrityError as error:
        raise errors.name_taken(schedule.name) from error
    _audit(session, caller, action, schedule, **details)
    tell_changed(session)
    return schedule


def tell_changed(session: Session) -> None:
    """Notify the tick and open pages. The event does not name the schedule, because not everyone may see it."""
    outbox.publish(session, "schedule.updated", {}, repository_id=None)


def audit_run(session: Session, caller: Caller, schedule: Schedule, repository_ids: Sequence[int]) -> None:
    _audit(session, caller, "schedule.run", schedule, repository_ids=list(repository_ids))


def _audit(session: Session, caller: Caller, action: str, schedule: Schedule, **details: Any) -> None:
    details = {"name": schedule.name, "targets": schedule.targets, **details}
    audit.note(session, caller, action, "schedule", schedule.id, details)
