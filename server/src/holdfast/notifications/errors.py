"""Errors of requests about notifications."""

from holdfast.errors import Unprocessable


def bad_option(option: str, reason: str) -> Unprocessable:
    return Unprocessable("notifications.bad_option", f"{reason} Nothing was changed.", option=option)


def unknown_field(field: str, known: list[str]) -> Unprocessable:
    sentence = f"Templates have no field {{{field}}}. Use one of the known fields."
    return Unprocessable("notifications.unknown_field", sentence, field=field, known=known)
