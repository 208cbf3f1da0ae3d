"""The errors of notifications, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "notifications.bad_option",
        (422,),
        "An option of the destination is not valid; the message names it.",
        "Correct the option.",
    ),
    Fact("notifications.name_taken", (409,), "The name is taken.", "Choose another name."),
    Fact("notifications.no_such_delivery", (404,), "There is no such delivery.", "List the deliveries."),
    Fact("notifications.no_such_destination", (404,), "There is no such destination.", "List the destinations."),
    Fact("notifications.no_such_report", (404,), "There is no such report.", "List the reports."),
    Fact("notifications.no_such_rule", (404,), "There is no such rule.", "List the rules."),
    Fact("notifications.not_failed", (409,), "Only failed deliveries can be tried again.", "Nothing needs to be done."),
    Fact("notifications.too_many", (409,), "There are as many of these as are allowed.", "Delete one first."),
    Fact(
        "notifications.unknown_destinations",
        (422,),
        "Some of the destinations do not exist.",
        "Use ids from the list of destinations.",
    ),
    Fact(
        "notifications.unknown_field",
        (422,),
        "The template names a field that does not exist.",
        "Use one of the fields in `known`.",
    ),
    Fact("notifications.unknown_timezone", (422,), "The time zone is not known.", "Use a name such as Europe/Berlin."),
)
