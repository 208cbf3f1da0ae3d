"""The errors of operations and their logs, one row each: docs/errors.md is made from them."""

from holdfast.errors import Fact

FACTS = (
    Fact(
        "events.bad_ticket",
        (401,),
        "The ticket of the event stream is not valid or has expired.",
        "Request a new ticket.",
    ),
    Fact(
        "events.too_many_streams",
        (
            429,
            503,
        ),
        "Too many event streams are open.",
        "Close some, or try again later.",
    ),
    Fact("filters.unknown_value", (422,), "A filter has an unknown value.", "Use one of the values in the message."),
    Fact(
        "logs.not_stored",
        (404,),
        "No log of this operation is stored.",
        "Logs are removed when they are old; see the log settings.",
    ),
    Fact("logs.still_running", (409,), "The operation has not ended.", "Download its log when it has."),
    Fact("operations.already_finished", (409,), "The operation has ended already.", "Nothing needs to be stopped."),
    Fact(
        "operations.bad_parameters",
        ("operation",),
        "The stored parameters do not fit this version of the service.",
        "Start the operation again.",
        "Nothing was started.",
    ),
    Fact(
        "operations.internal",
        ("operation",),
        "The service could not run the operation because of an internal error.",
        "Look in the service's log; report it.",
    ),
    Fact(
        "operations.interrupted",
        ("operation",),
        "The operation was interrupted, and its result is unknown.",
        "Start it again.",
        "Archives that were complete are kept.",
    ),
    Fact("operations.not_found", (404,), "There is no such operation.", "List the operations."),
    Fact(
        "operations.not_retryable",
        (409,),
        "The operation is not repeated: it has succeeded, or its kind needs a new start.",
        "Start a new one.",
    ),
    Fact(
        "timeline.bad_span", (422,), "The timeline cannot show this span.", "Give at most 62 days, since before until."
    ),
    Fact("operations.still_active", (409,), "The operation has not ended yet.", "Wait for it, or cancel it."),
    Fact(
        "operations.too_many_waiting",
        (429,),
        "As many operations of the repository are waiting as are allowed.",
        "Cancel some, or try again when some have ended.",
    ),
    Fact(
        "operations.unknown_kind",
        ("operation",),
        "This version of the service does not know the kind of the operation.",
        "Run the version that queued it, or start it again.",
        "Nothing was started.",
    ),
    Fact(
        "repository.busy",
        (423,),
        "Another operation holds the repository.",
        "Try again when it has finished; `operation_id` names it.",
    ),
    Fact(
        "logs.contradiction",
        (422,),
        "The request combines options that exclude each other.",
        "Give `tail` alone, or `offset` with or without `find`.",
    ),
)
