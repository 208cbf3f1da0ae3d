"""HTTP for notifications, for administrators."""

from typing import Annotated, Literal

from fastapi import Query, Response
from sqlalchemy import select

from holdfast.access import audit
from holdfast.access.caller import AdminOnly
from holdfast.api.answers import documented
from holdfast.api.dependencies import Reading, TheDatabase, Writing
from holdfast.api.router import router
from holdfast.kit.fields import PageLimit, RowId
from holdfast.notifications import edit, present, schemas
from holdfast.notifications.events.event import EVENTS
from holdfast.notifications.events.text import FIELDS
from holdfast.notifications.models import Delivery, Destination, Report, Rule
from holdfast.notifications.state import TheNotifications
from holdfast.runner.engine_requests import asks_engine

routes = router("/api/notifications", "notifications")


@routes.get("/destinations", summary="List destinations")
def list_destinations(_caller: AdminOnly, session: Reading, notifications: TheNotifications) -> schemas.DestinationList:
    found = session.scalars(select(Destination).order_by(Destination.name)).all()
    return schemas.DestinationList(
        destinations=[present.destination_answer(session, notifications.destinations, each) for each in found]
    )


@routes.post("/destinations", summary="Add a destination", status_code=201, responses=documented(409))
def add_destination(
    caller: AdminOnly, wanted: schemas.NewDestination, session: Writing, notifications: TheNotifications
) -> schemas.DestinationAnswer:
    """Nothing is sent yet; test it next. A webhook secret generated here is shown only in this response."""
    destination, created = edit.add_destination(session, caller, notifications.destinations, wanted)
    return present.destination_answer(session, notifications.destinations, destination, created)


@routes.get("/destinations/{destination_id}", summary="One destination", responses=documented(404))
def read_destination(
    _caller: AdminOnly, destination_id: RowId, session: Reading, notifications: TheNotifications
) -> schemas.DestinationAnswer:
    destination = edit.require_destination(session, destination_id)
    return present.destination_answer(session, notifications.destinations, destination)


@routes.put("/destinations/{destination_id}", summary="Change a destination", responses=documented(404, 409))
def change_destination(
    caller: AdminOnly,
    destination_id: RowId,
    wanted: schemas.DestinationChange,
    session: Writing,
    notifications: TheNotifications,
) -> schemas.DestinationAnswer:
    """Changes only the given fields. Omitted secrets stay unchanged."""
    found, created = edit.change_destination(session, caller, notifications.destinations, destination_id, wanted)
    return present.destination_answer(session, notifications.destinations, found, created)


@routes.delete(
    "/destinations/{destination_id}", summary="Delete a destination", status_code=204, responses=documented(404)
)
def delete_destination(caller: AdminOnly, destination_id: RowId, session: Writing) -> Response:
    """Waiting messages for it are cancelled."""
    edit.delete_destination(session, caller, destination_id)
    return Response(status_code=204)


@routes.post("/destinations/{destination_id}/test", summary="Send a test message now", responses=documented(404))
@asks_engine
def test_destination(
    caller: AdminOnly, destination_id: RowId, notifications: TheNotifications, database: TheDatabase
) -> schemas.Verdict:
    """Answers within 20 seconds whether the message was accepted and, if not, why."""
    result, seconds, delivery_id = notifications.test(destination_id)
    with database.writing() as session:
        audit.record(
            session,
            actor=caller,
            action="notification_destination.tested",
            object_type="notification_destination",
            object_id=destination_id,
            outcome="ok" if result.ok else "failed",
        )
    return schemas.Verdict(ok=result.ok, message=result.message, seconds=round(seconds, 3), delivery_id=delivery_id)


@routes.get("/rules", summary="All rules")
def list_rules(_caller: AdminOnly, session: Reading) -> schemas.RuleList:
    found = session.scalars(select(Rule).order_by(Rule.id)).all()
    return schemas.RuleList(
        rules=[present.rule_answer(each) for each in found], events=list(EVENTS), fields=list(FIELDS)
    )


@routes.post("/rules", summary="Add a rule", status_code=201, responses=documented(409))
def add_rule(caller: AdminOnly, wanted: schemas.RuleBody, session: Writing) -> schemas.RuleAnswer:
    return present.rule_answer(edit.RULES.add(session, caller, wanted))


@routes.put("/rules/{rule_id}", summary="Replace a rule", responses=documented(404, 409))
def change_rule(caller: AdminOnly, rule_id: RowId, wanted: schemas.RuleBody, session: Writing) -> schemas.RuleAnswer:
    """Omitted fields are reset to their defaults."""
    return present.rule_answer(edit.RULES.replace(session, caller, rule_id, wanted))


@routes.delete("/rules/{rule_id}", summary="Delete a rule", status_code=204, responses=documented(404))
def delete_rule(caller: AdminOnly, rule_id: RowId, session: Writing) -> Response:
    edit.RULES.delete(session, caller, rule_id)
    return Response(status_code=204)


@routes.get("/reports", summary="All reports")
def list_reports(_caller: AdminOnly, session: Reading) -> schemas.ReportList:
    found = session.scalars(select(Report).order_by(Report.id)).all()
    return schemas.ReportList(reports=[present.report_answer(each) for each in found])


@routes.post("/reports", summary="Add a report", status_code=201, responses=documented(409))
def add_report(caller: AdminOnly, wanted: schemas.ReportBody, session: Writing) -> schemas.ReportAnswer:
    """Reports are sent even when all is well."""
    return present.report_answer(edit.REPORTS.add(session, caller, wanted))


@routes.put("/reports/{report_id}", summary="Replace a report", responses=documented(404, 409))
def change_report(
    caller: AdminOnly, report_id: RowId, wanted: schemas.ReportBody, session: Writing
) -> schemas.ReportAnswer:
    """Omitted fields are reset to their defaults."""
    return present.report_answer(edit.REPORTS.replace(session, caller, report_id, wanted))


@routes.delete("/reports/{report_id}", summary="Delete a report", status_code=204, responses=documented(404))
def delete_report(caller: AdminOnly, report_id: RowId, session: Writing) -> Response:
    edit.REPORTS.delete(session, caller, report_id)
    return Response(status_code=204)


@routes.get("/deliveries", summary="List deliveries, newest first")
def list_deliveries(
    _caller: AdminOnly,
    session: Reading,
    state: Annotated[Literal["waiting", "sending", "sent", "failed", "cancelled"] | None, Query()] = None,
    destination_id: Annotated[RowId | None, Query()] = None,
    limit: PageLimit = 100,
    before: Annotated[RowId | None, Query(description="Only deliveries with a lower id.")] = None,
) -> schemas.DeliveryList:
    wanted = select(Delivery, Destination.name).outerjoin(Destination, Destination.id == Delivery.destination_id)
    if state is not None:
        wanted = wanted.where(Delivery.state == state)
    if destination_id is not None:
        wanted = wanted.where(Delivery.destination_id == destination_id)
    if before is not None:
        wanted = wanted.where(Delivery.id < before)
    rows = session.execute(wanted.order_by(Delivery.id.desc()).limit(limit)).all()
    return schemas.DeliveryList(deliveries=[present.delivery_answer(row[0], row[1]) for row in rows])


@routes.post("/deliveries/{delivery_id}/retry", summary="Retry a failed delivery", responses=documented(404, 409))
def retry_delivery(caller: AdminOnly, delivery_id: RowId, session: Writing) -> schemas.DeliveryAnswer:
    """Sends it again with the same id and text."""
    return present.delivery_answer(edit.retry(session, caller, delivery_id), None)
