"""The errors of alarms, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact("alarms.cleared", (409,), "The alarm has already cleared.", "Nothing needs to be acknowledged."),
    Fact("alarms.not_found", (404,), "There is no such alarm.", "List the alarms."),
    Fact(
        "alarms.unknown_kind",
        (422,),
        "`off` names a kind of alarm that does not exist.",
        "Use one of the kinds that the settings list.",
    ),
    Fact(
        "alarms.unknown_word",
        (422,),
        "A filter has a value that does not exist.",
        "Use one of the values in the API reference.",
    ),
    Fact("alarms.until_past", (422,), "`until` is not in the future.", "Give a later time."),
)
