"""HTTP for settings that apply to all schedules: blackouts and the pause."""

from fastapi import Response
from sqlalchemy.orm import Session

from holdfast.access import audit
from holdfast.access.caller import AdminOnly, Caller
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, Writing
from holdfast.api.router import router
from holdfast.errors import NotFound
from holdfast.kit import clock, zones
from holdfast.kit.fields import RowId
from holdfast.schedules import edit, errors, store
from holdfast.schedules.answer_schemas import BlackoutAnswer, Blackouts, PausedAnswer
from holdfast.schedules.body_schemas import NewBlackout
from holdfast.schedules.models import Blackout
from holdfast.schedules.present import blackout_answer

routes = router("", "schedules")


@routes.get("/blackouts", summary="List blackouts, days without scheduled starts")
def list_blackouts(_caller: AdminOnly, session: Reading) -> Blackouts:
    return Blackouts(blackouts=[blackout_answer(each) for each in store.blackouts(session)])


@routes.post("/blackouts", summary="Add a blackout", status_code=201)
def add_blackout(caller: AdminOnly, wanted: NewBlackout, session: Writing) -> BlackoutAnswer:
    """Due times on these days are skipped; with labels, only for repositories that have all of them."""
    if wanted.timezone not in zones.known():
        raise errors.unknown_timezone(wanted.timezone)
    blackout = Blackout(**wanted.model_dump())
    session.add(blackout)
    session.flush()
    _audit(session, caller, "blackout.created", blackout)
    return blackout_answer(blackout)


@routes.delete("/blackouts/{blackout_id}", summary="Remove a blackout", status_code=204, responses=documented(404))
def remove_blackout(caller: AdminOnly, blackout_id: RowId, session: Writing) -> Response:
    blackout = store.blackout(session, blackout_id)
    if blackout is None:
        raise NotFound("schedules.blackout_not_found", "Blackout not found.", blackout_id=blackout_id)
    _audit(session, caller, "blackout.deleted", blackout)
    session.delete(blackout)
    return Response(status_code=204)


@routes.post("/pause", summary="Pause all schedules")
def pause(caller: AdminOnly, session: Writing) -> PausedAnswer:
    """Due times are skipped until schedules are resumed. Running work continues."""
    return _set_paused(session, caller, paused=True)


@routes.post("/resume", summary="Resume all schedules")
def resume(caller: AdminOnly, session: Writing) -> PausedAnswer:
    return _set_paused(session, caller, paused=False)


def _set_paused(session: Session, caller: Caller, *, paused: bool) -> PausedAnswer:
    if store.is_paused(session) != paused:
        store.change_state(
            session,
            paused=paused,
            paused_by=caller.username if paused else None,
            paused_at=clock.now() if paused else None,
        )
        action = "schedules.paused" if paused else "schedules.resumed"
        audit.record(session, actor=caller, action=action, object_type="schedules")
        edit.tell_changed(session)
    return PausedAnswer(paused=paused)


def _audit(session: Session, caller: Caller, action: str, blackout: Blackout) -> None:
    days = {"first_day": blackout.first_day.isoformat(), "last_day": blackout.last_day.isoformat()}
    details = {"name": blackout.name, **days, "yearly": blackout.yearly}
    audit.note(session, caller, action, "blackout", blackout.id, details)
    edit.tell_changed(session)
