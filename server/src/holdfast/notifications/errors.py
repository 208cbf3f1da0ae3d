"""Errors of requests about notifications."""

from holdfast.errors import Conflict, NotFound, Unprocessable


def unknown_destination(destination_id: int) -> NotFound:
    return NotFound("notifications.no_such_destination", "There is no such destination.", destination_id=destination_id)


def unknown_rule(rule_id: int) -> NotFound:
    return NotFound("notifications.no_such_rule", "There is no such rule.", rule_id=rule_id)


def unknown_report(report_id: int) -> NotFound:
    return NotFound("notifications.no_such_report", "There is no such report.", report_id=report_id)


def unknown_delivery(delivery_id: int) -> NotFound:
    return NotFound("notifications.no_such_delivery", "There is no such delivery.", delivery_id=delivery_id)


def name_taken(name: str) -> Conflict:
    return Conflict("notifications.name_taken", "This name is taken. Nothing was changed; choose another.", name=name)


def too_many(what: str, most: int) -> Conflict:
    sentence = f"The limit of {most} {what} is reached. Delete one first."
    return Conflict("notifications.too_many", sentence, most=most)


def not_to_retry(state: str) -> Conflict:
    sentence = "Only deliveries that have failed can be tried again. This one is left as it is."
    return Conflict("notifications.not_failed", sentence, state=state)


def unknown_destinations(ids: list[int]) -> Unprocessable:
    sentence = "Some of these destinations do not exist. Nothing was changed."
    return Unprocessable("notifications.unknown_destinations", sentence, destination_ids=ids)


def bad_option(option: str, reason: str) -> Unprocessable:
    return Unprocessable("notifications.bad_option", f"{reason} Nothing was changed.", option=option)


def unknown_field(field: str, known: list[str]) -> Unprocessable:
    sentence = f"Templates have no field {{{field}}}. Use one of the known fields."
    return Unprocessable("notifications.unknown_field", sentence, field=field, known=known)


def unknown_timezone(name: str) -> Unprocessable:
    sentence = "This time zone is not known. Use a name such as Europe/Berlin."
    return Unprocessable("notifications.unknown_timezone", sentence, timezone=name)
